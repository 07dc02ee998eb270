"""A part of the server: controllers of one subject, what they are given by name, and what runs beside them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from litestar import Controller
from litestar.types import ASGIApp

Beside: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""Something that runs beside the server until it is told to stop."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What the application is put together from."""

    controllers: tuple[type[Controller], ...]
    """Their handlers are routes: `@get`, `@post` …, and `@websocket` for a WebSocket, which the door admits alike."""
    given: dict[str, object] = field(default_factory=dict[str, object])
    """What handlers of this part ask for by parameter name; names are unique over all parts."""
    beside: tuple[Beside, ...] = ()
    around: Callable[[ASGIApp], ASGIApp] | None = None
    """Wraps all routes."""
    close: Callable[[], None] | None = None
    """Gives back what the part holds when this process answers no more."""
