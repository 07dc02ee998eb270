# ruff: noqa: PTH112, PTH117 - kernel paths and descriptors; pathlib adds nothing here
"""What a box refuses before it does anything: invalid specs, or requests that no box here can satisfy."""

import os
from typing import Any

from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.guard import inside
from coilclaw.sandbox.layout import check_workspace

_PORTS = range(1024, 65536)
_MOST_LISTENERS = 8
_LONGEST_WORD = 100_000
"""Bytes; the kernel's own limit for one argument is 131072."""


def refusal(message: str, remedy: str, code: str = "BAD_COMMAND") -> ToolError:
    """A refusal: nothing was started."""
    return ToolError(message, remedy=remedy, code=code, begun=False)


def admit(spec: BoxSpec, *, brokered: bool = False, lasting: bool = False, served: bool = False) -> None:
    """Raise unless the spec can run as it is.

    Domains need a broker, listeners need a server, and only a `lasting` box needs no time limit.
    """
    words = [spec.command] if isinstance(spec.command, str) else list(spec.command)
    if not words or not words[0]:
        raise refusal("The command is empty.", "Give a shell text or an argv.")
    environment = [part for pair in spec.environment for part in pair]
    if any("\0" in text for text in (*words, *environment, spec.workspace, spec.cwd)):
        raise refusal("The command contains a NUL byte, which no program can be given.", "Remove it.")
    if any(not name or "=" in name for name, _ in spec.environment):
        raise refusal("An environment variable has no valid name.", "Use names without '='.")
    longest = max(len(os.fsencode(text)) for text in (*words, *(f"{name}={value}" for name, value in spec.environment)))
    if longest > _LONGEST_WORD:
        raise refusal("The command is too long for the kernel to start.", "Put it into a script in the workspace.")
    if spec.domains and not brokered:
        raise refusal(
            "This box cannot have network access.", "Fetch what is needed with the http tool first.",
            "BOX_CANNOT_HOLD",
        )  # fmt: skip
    if lasting and spec.stdin:
        raise refusal("A box that stays open is sent its input line by line.", "Leave its standard input empty.")
    _admit_limits(spec, lasting=lasting)
    _admit_listeners(spec, served=served)
    _admit_places(spec)


def _admit_limits(spec: BoxSpec, *, lasting: bool) -> None:
    for struct in (spec.limits, spec.broker):
        limits: dict[str, Any] = {name: getattr(struct, name) for name in struct.__struct_fields__}
        for name, value in limits.items():
            if value is None and not lasting:
                raise refusal(f"The limit {name} is missing, so the command might never end.", "Give a number.")
            if value is not None and not isinstance(value, bool) and not value > 0:
                raise refusal(f"The limit {name} is {value}, which allows nothing.", "Use a number above zero.")


def _admit_listeners(spec: BoxSpec, *, served: bool) -> None:
    ports = spec.listeners
    if not ports:
        return
    from coilclaw.sandbox.box_listener import PORT  # it brings ctypes, which is slow to import

    if not served:
        raise refusal("The listeners of this box have no server.", "Open it with `serve`.", "BOX_CANNOT_HOLD")
    if len(ports) > _MOST_LISTENERS or len(set(ports)) < len(ports):
        raise refusal(
            "There are too many listeners, or duplicates.", f"Name at most {_MOST_LISTENERS} different ports."
        )
    if any(port not in _PORTS or port == PORT for port in ports):
        raise refusal("A listener's port is not allowed.", f"Use 1024 to 65535, but not {PORT}.")


def _admit_places(spec: BoxSpec) -> None:
    if not os.path.isabs(spec.workspace) or not os.path.isabs(spec.cwd):
        raise refusal("Workspace and working directory must be absolute paths.", "Expand them first.", "BOX_BAD_PATH")
    check_workspace(spec)
    if not inside(os.path.normpath(spec.cwd), os.path.normpath(spec.workspace)):
        raise refusal(
            f"The working directory {spec.cwd} is outside the workspace.", "Name one inside it.", "BOX_BAD_PATH"
        )
    if not os.path.isdir(spec.workspace):
        raise refusal(
            f"The workspace {spec.workspace} does not exist.", "Create it with `coilclaw init`.", "WORKSPACE_MISSING"
        )
    if not os.path.isdir(spec.cwd) or not inside(os.path.realpath(spec.cwd), os.path.realpath(spec.workspace)):
        raise refusal(
            f"The working directory {spec.cwd} does not exist in the workspace.", "Create it first.", "BOX_BAD_PATH"
        )
