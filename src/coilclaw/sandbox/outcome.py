"""Words for how a box ended: what a shell would say, why a signal came, and what to do about a box that never began."""

import contextlib
import errno
import os
import signal

from coilclaw.packets.box import BoxLimits

NOT_STARTED = b"bwrap: execvp "
"""How bubblewrap begins its complaint about a program it cannot start."""


def like_a_shell(stderr: bytes) -> tuple[int, bytes]:
    """bubblewrap could not start the program: the code and words a shell would have for it."""
    missing = stderr.rstrip().endswith(os.strerror(errno.ENOENT).encode())
    return (127 if missing else 126), stderr.removeprefix(NOT_STARTED)


def last_line(stderr: bytes) -> str:
    """The last thing a program complained about."""
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


def remedy_for(said: str) -> str:
    """What to do about a box that could not be set up, from what its builder said."""
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
