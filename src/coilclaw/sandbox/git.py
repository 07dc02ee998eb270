"""git, run by the runtime itself: fixed configuration, no hooks, nothing from the environment."""

import os
from collections.abc import Mapping
from pathlib import Path

from coilclaw.packets.errors import ToolError

_FIXED = (
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "commit.gpgSign=false",
    "-c", "user.name=CoilClaw",
    "-c", "user.email=coilclaw@localhost",
    "-c", "init.defaultBranch=main",
    "-c", "protocol.ext.allow=never",
    "-c", "protocol.allow=never",
    "-c", "core.pager=cat",
    "-c", "core.untrackedCache=false",
    "-c", "diff.ignoreSubmodules=all",
    "-c", "submodule.recurse=false",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
)  # fmt: skip


def have_git() -> bool:
    """Whether git is installed."""
    import shutil

    return shutil.which("git") is not None


def run_git(
    folder: Path, *args: str, seconds: float = 30.0, environment: Mapping[str, str] | None = None, given: bytes = b""
) -> str:
    """Run one git command in a folder and return its output; undecodable bytes become surrogates."""
    code, out, said = git_bytes(folder, *args, seconds=seconds, environment=environment, given=given)
    if code:
        raise failed(args[0], code, said)
    return out.decode("utf-8", "surrogateescape" if environment else "replace")


def git_bytes(
    folder: Path, *args: str, seconds: float = 30.0, environment: Mapping[str, str] | None = None, given: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Run one git command in a folder: its exit code, standard output and standard error."""
    import subprocess

    fixed = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",  # unlike a setting, a repository cannot override it
        "LC_ALL": "C.UTF-8",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
    }
    try:
        done = subprocess.run(
            ["git", *_FIXED, "-C", str(folder), *args],
            env={**fixed, **(environment or {})},
            input=given,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolError("git is not installed.", remedy="Install the package `git`.", begun=False) from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"git {args[0]} took longer than {seconds:g} s.") from error
    return done.returncode, done.stdout, done.stderr


def failed(what: str, code: int, said: bytes) -> ToolError:
    """The error for a git command that did not succeed, with its last line."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return ToolError(f"git {what} failed: {lines[-1] if lines else code}.")
