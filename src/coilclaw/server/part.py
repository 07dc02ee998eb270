"""A part of the server: controllers of one subject, their named dependencies, and background tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from litestar import Controller
from litestar.types import ASGIApp

Beside: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""A background task that runs until it is told to stop."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the application."""

    controllers: tuple[type[Controller], ...]
    """Their handlers are routes: `@get`, `@post` …, and `@websocket`, which the door admits by the same rules."""
    given: dict[str, object] = field(default_factory=dict[str, object])
    """Dependencies of this part's handlers, by parameter name; names are unique across all parts."""
    beside: tuple[Beside, ...] = ()
    around: Callable[[ASGIApp], ASGIApp] | None = None
    """Wraps all routes."""
    close: Callable[[], None] | None = None
    """Releases the part's resources at shutdown."""
