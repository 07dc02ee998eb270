"""git, run by the runtime itself: fixed configuration, no hooks, nothing taken from the environment."""

import os
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
)  # fmt: skip


def have_git() -> bool:
    """Whether git is installed."""
    import shutil

    return shutil.which("git") is not None


def run_git(folder: Path, *args: str, seconds: float = 30.0) -> str:
    """Run one git command in a folder and return its output."""
    import subprocess

    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }
    try:
        done = subprocess.run(
            ["git", *_FIXED, "-C", str(folder), *args],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolError("git is not installed.", remedy="Install the package `git`.", begun=False) from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"git {args[0]} took longer than {seconds:g} s.") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ToolError(f"git {args[0]} failed: {said[-1] if said else done.returncode}.")
    return done.stdout.decode("utf-8", "replace")
