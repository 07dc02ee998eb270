"""The adapters there are."""

from importlib import import_module
from typing import TYPE_CHECKING, cast

import msgspec

from coilclaw.packets.box import BoxMount

if TYPE_CHECKING:
    from coilclaw.features.runner.adapters.contract import Adapter, Provider


class PlacedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What runs in a session's box, and what that needs."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    mounts: tuple[BoxMount, ...] = ()
    ports: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()
    """Absolute paths in the checkout."""


CLIS: "tuple[Provider, ...]" = ("codex", "claude", "gemini")
"""The programs that are installed from npm."""


def adapter_of(provider: "Provider") -> "Adapter | None":
    """How a program is run; None for a shell, which asks nobody."""
    if provider == "shell":
        return None
    return cast("Adapter", import_module(f"coilclaw.features.runner.adapters.{provider}").ADAPTER)
