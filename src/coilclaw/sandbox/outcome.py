"""Messages for how a box ended: a shell's wording, the reason for a signal, remedies for a box that never started."""

import contextlib
import errno
import os
import signal

from coilclaw.packets.box import BoxEnd, BoxLimits

NOT_STARTED = b"bwrap: execvp "
"""The start of bubblewrap's message about a program it cannot start."""


def like_a_shell(stderr: bytes) -> tuple[int, bytes]:
    """bubblewrap could not start the program: the exit code and message of a shell."""
    missing = stderr.rstrip().endswith(os.strerror(errno.ENOENT).encode())
    return (127 if missing else 126), stderr.removeprefix(NOT_STARTED)


def last_line(stderr: bytes) -> str:
    """The last line of a program's stderr."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def signal_reason(number: int, limits: BoxLimits) -> str:
    """One sentence about the signal that ended a command."""
    with contextlib.suppress(ValueError):
        name = signal.Signals(number).name
        if name == "SIGXCPU":
            return f"It was ended by SIGXCPU: {limits.cpu_seconds} seconds of CPU were used up."
        if name == "SIGXFSZ":
            return f"It was ended by SIGXFSZ: a file grew beyond {limits.file_bytes} bytes."
        return f"It was ended by {name}."
    return f"It was ended by signal {number}."


def left_behind(count: int) -> str:
    """One sentence about processes that outlived their command."""
    left = (
        "a process that was still running and was ended"
        if count == 1
        else (f"{count} processes that were still running and were ended")
    )
    return f"It left {left}: a command must wait for what it starts."


def complains_of_processes(stderr: bytes) -> bool:
    """Whether a program reported that it could not start a process: the only sign without a control group."""
    refusals = (b"Cannot fork", b"can't fork", os.strerror(errno.EAGAIN).encode())
    return any(b"fork" in line and any(words in line for words in refusals) for line in stderr.splitlines())


def end_of(end: BoxEnd | None, reason: str, *, code: int, limits: BoxLimits, crowded: bool) -> tuple[BoxEnd, str]:
    """How a command ended, and why: the known reason, else its exit code.

    `crowded` says that it hit the process limit. Then it has failed, as with every other limit, whatever its exit code:
    a fork bomb can end with 0.
    """
    if end is None and 128 < code <= 128 + 64:
        end = "cpu_limit" if code == 128 + signal.SIGXCPU else "signalled"
        reason = signal_reason(code - 128, limits)
    if crowded and end in {None, "left_behind"}:
        return "process_limit", f"It reached its limit of {limits.processes} processes. {reason}".rstrip()
    if crowded:
        reason = f"{reason} It had also reached its limit of {limits.processes} processes."
    return end or "exited", reason


def remedy_for(said: str) -> str:
    """What to do about a box that could not be built, from its builder's message."""
    said = said.lower()
    if "unknown option" in said:
        return "Install bubblewrap 0.8 or later."
    if "uid map" in said or "namespace" in said or "unshare" in said:
        return (
            "Allow unprivileged user namespaces: sysctl user.max_user_namespaces, and on Ubuntu an AppArmor profile"
            " for the program or kernel.apparmor_restrict_unprivileged_userns=0."
        )
    if "proc" in said:
        return "This container masks parts of /proc; start it with an unmasked /proc or run CoilClaw outside it."
    if "mount_setattr" in said:
        return (
            "Put the workspace on a file system with identity-mapped mounts (ext4, xfs, btrfs), or do not run as root."
        )
    return "Run `coilclaw doctor` to see which wall is missing."
