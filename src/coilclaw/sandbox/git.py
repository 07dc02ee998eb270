"""git, run by the runtime itself: fixed configuration, no hooks, nothing from the environment."""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    import subprocess

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
    # A merge must give the same wherever it is made or verified, whatever a repository is set to.
    "-c", "merge.renames=true",
    "-c", "merge.renameLimit=7000",
    "-c", "merge.directoryRenames=conflict",
    "-c", "merge.renormalize=false",
    # By itself git syncs no loose object: after a power cut main could name one that is not there.
    "-c", "core.fsync=committed,reference",
    "-c", "core.fsyncMethod=batch",
)  # fmt: skip


def have_git() -> bool:
    """Whether git is installed."""
    import shutil

    return shutil.which("git") is not None


def git_version() -> tuple[int, int] | None:
    """The version of git that is installed; None when there is none."""
    return _version_on(os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _version_on(_path: str) -> tuple[int, int] | None:
    try:
        _, out, _ = git_bytes(Path("/"), "--version")
    except ToolError:
        return None
    found = re.search(rb"(\d+)\.(\d+)", out)
    return None if found is None else (int(found[1]), int(found[2]))


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
        with _popen()(
            ["git", *_FIXED, "-C", str(folder), *args],
            env={**fixed, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                out, said = process.communicate(given, timeout=seconds)
            except BaseException:
                process.kill()
                raise
    except FileNotFoundError as error:
        raise ToolError("git is not installed.", remedy="Install the package `git`.", begun=False) from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"git {args[0]} took longer than {seconds:g} s.") from error
    return process.returncode, out, said


@cache
def _popen() -> "type[subprocess.Popen[bytes]]":
    import select
    import subprocess

    class Process(subprocess.Popen[bytes]):
        """Told by the kernel when it ends: the library looks every few milliseconds, longer than most commands take."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None and self.returncode is None:
                with suppress(OSError):  # an old kernel
                    ended = os.pidfd_open(self.pid)
                    try:
                        look = select.poll()
                        look.register(ended, select.POLLIN)
                        look.poll(max(timeout, 0) * 1000)
                    finally:
                        os.close(ended)
            return super().wait(timeout)

    return Process


def failed(what: str, code: int, said: bytes) -> ToolError:
    """The error for a git command that did not succeed, with the line that says why; advice may follow that."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    why = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1] if lines else str(code))
    return ToolError(f"git {what} failed: {why.rstrip('.')}.")


def blob_id(data: bytes, like: str) -> str:
    """The id that git gives a content, in a repository whose ids look like this one."""
    kind = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def file_blob_id(file: Path, like: str) -> str:
    """The same for a file of any size."""
    kind = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW)) as read:
        found = kind(b"blob %d\0" % os.fstat(read.fileno()).st_size, usedforsecurity=False)
        while piece := read.read(1 << 20):
            found.update(piece)
    return found.hexdigest()
