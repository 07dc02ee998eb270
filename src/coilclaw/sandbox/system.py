"""System programs that the owner runs through our commands: the service manager and its log.

They get the few variables they need and nothing else, so that no key of ours is in their environment. Nothing a model
proposes gets here.
"""

import os
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS")


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended, and its output."""

    code: int
    out: str
    error: str


def run_system(program: str, *args: str, seconds: float = 60.0) -> Ran:
    """Run a program to its end and return its output."""
    import subprocess

    try:
        done = subprocess.run(
            [program, *args],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except OSError as error:
        raise _missing(program, error) from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{program} {' '.join(args[:2])} took longer than {seconds:g} s.") from error
    out, said = (each.decode("utf-8", "replace").strip() for each in (done.stdout, done.stderr))
    return Ran(code=done.returncode, out=out, error=said)


def show_system(program: str, *args: str) -> int:
    """Run an interactive program until it ends; returns its exit code."""
    import subprocess

    try:
        return subprocess.run([program, *args], env=_environment(), stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise _missing(program, error) from error


def _missing(program: str, error: OSError) -> ToolError:
    return ToolError(
        f"{program} cannot be run ({error.strerror}).", remedy="Is it installed, and on the PATH?", begun=False
    )


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    if Path(runtime).is_dir():  # su and sudo omit it, and the user session cannot be found without it
        kept["XDG_RUNTIME_DIR"] = runtime
    return kept
