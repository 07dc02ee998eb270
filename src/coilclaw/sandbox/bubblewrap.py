"""Tier A: bubblewrap builds namespaces and mounts; the system call filter comes by descriptor, limits from outside."""

import os
from collections.abc import Iterator

from coilclaw.sandbox import mount_namespace
from coilclaw.sandbox.layout import INSIDE_ID, Step

_WALLS = (
    "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID), "--hostname", "box", "--disable-userns",
    "--cap-drop", "ALL", "--die-with-parent", "--clearenv",
)  # fmt: skip
"""The first arguments, so that a truncated list could only lack things inside."""


class Arguments:
    """bubblewrap's arguments for one box, and the descriptors they name."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def _data(self, data: bytes) -> int:
        """A descriptor with some bytes that bubblewrap consumes before the command starts."""
        made = os.memfd_create("coilclaw", os.MFD_CLOEXEC)
        self.descriptors.append(made)
        os.write(made, data)
        os.lseek(made, 0, os.SEEK_SET)
        return made

    def command(
        self, bwrap: str, steps: tuple[Step, ...], *, environment: dict[str, str], cwd: str, argv: list[str],
        gate: int, status: int, workspace: tuple[str, str], lifeline: int = -1, terminal: bool = False,
    ) -> list[str]:  # fmt: skip
        """The whole command line. Everything but the command goes by descriptor, invisible to other users.

        On a terminal it stays in the session of that terminal: job control needs it, and the filter refuses the call
        that could put input into it.
        The filter is read from `gate`, last of all: nothing starts before it arrives, or without it.
        """
        options = [
            *_WALLS, *(() if terminal else ("--new-session",)), "--seccomp", str(gate), "--json-status-fd", str(status),
            *(("--sync-fd", str(lifeline)) if lifeline >= 0 else ()),
            *(word for step in numbered(steps) for word in self._step(*step, workspace)),
            *(word for name, value in environment.items() for word in ("--setenv", name, value)),
            "--chdir", cwd,
        ]  # fmt: skip
        arguments = self._data(os.fsencode("\0".join(options) + "\0"))
        return [bwrap, "--args", str(arguments), "--", *argv]

    def _step(self, number: int, step: Step, workspace: tuple[str, str]) -> Iterator[str]:
        at = step.at
        match step.kind:
            case "bind":
                yield from ("--bind" if step.writable else "--ro-bind", step.source, at)
            case "again":
                inside, source = workspace
                yield from ("--bind" if step.writable else "--ro-bind", source + at.removeprefix(inside), at)
            case "tmpfs" if step.noexec:  # bubblewrap has no noexec: the stage made this one
                yield from ("--bind", mount_namespace.scratch(number), at)
            case "tmpfs":
                yield from ("--perms", f"{step.mode:o}", "--size", str(step.size), "--tmpfs", at)
            case "null":
                yield from ("--ro-bind", "/dev/null", at)
            case "symlink":
                yield from ("--symlink", step.source, at)
            case "file":
                yield from ("--perms", f"{step.mode:o}", "--file", str(self._data(step.text.encode())), at)
            case "dir":
                yield from ("--perms", f"{step.mode:o}", "--dir", at)
            case "proc":
                yield from ("--proc", at, "--ro-bind", "/proc/sys", f"{at}/sys")
            case "dev":
                yield from ("--dev", at)
            case "seal":
                yield from ("--remount-ro", at)

    def close(self) -> None:
        """Close our descriptors; bubblewrap has its own copies."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def numbered(steps: tuple[Step, ...]) -> Iterator[tuple[int, Step]]:
    """Each step with the number of the scratch it would use: how many noexec tmpfs came before it."""
    count = 0
    for step in steps:
        yield count, step
        count += step.kind == "tmpfs" and step.noexec


def scratches(steps: tuple[Step, ...]) -> list[tuple[int, int]]:
    """(bytes, mode) of every tmpfs the stage must make."""
    return [(step.size, step.mode) for step in steps if step.kind == "tmpfs" and step.noexec]
