"""The site: every part of the server behind the one door, ready to be listened on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from litestar.types import ASGIApp

from coilclaw.app.fronts.auth import Auth
from coilclaw.app.fronts.front import Front, MakePart
from coilclaw.server.application import build
from coilclaw.server.entry.door import Door
from coilclaw.server.entry.methods import Methods
from coilclaw.server.meters import measured
from coilclaw.server.part import Part

if TYPE_CHECKING:
    from coilclaw.server.entry.rates import Rates
    from coilclaw.server.panel import Panel

Beside: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""Something that runs beside the server until it is told to stop."""

GRACE_SECONDS = 10.0
"""How long what has begun may go on after that."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """What listens, who may come in, and what has to run beside it."""

    door: Door
    auth: Auth
    routes: ASGIApp
    """What stands behind the door."""
    beside: tuple[Beside, ...] = ()
    closing: tuple[Callable[[], None], ...] = ()

    def close(self) -> None:
        """This process answers no more."""
        for close in (*self.closing, self.auth.close):
            close()


def build_site(
    front: Front,
    makers: Sequence[MakePart],
    *,
    rates: "Rates | None" = None,
    is_asset: Callable[[str], bool] | None = None,
    panel: "Panel | None" = None,
    beside: tuple[Beside, ...] = (),
    closing: tuple[Callable[[], None], ...] = (),
) -> Site:
    """The parts the makers make, with pairing and devices beside them, and the panel's files, behind the door."""
    auth = Auth(front)
    try:
        parts = [auth.part(), *(make(front) for make in makers)]
        whole = build(front.core, parts, say=front.app.observe)
        routes = measured(whole, parts)
        _end_streams_at_once(auth, parts)
    except BaseException:
        auth.close()
        raise
    inside = routes
    if panel is not None:
        inside, is_asset = panel.before(routes), panel.is_asset
    door = auth.door(inside, Methods.of(whole), rates=rates, is_asset=is_asset)
    return Site(door=door, auth=auth, routes=routes, beside=(*beside, *_resting(parts)), closing=closing)


def _resting(parts: Sequence[Part]) -> Iterator[Beside]:
    """What was approved and has begun may finish before we leave."""
    from coilclaw.server.hands import Hands

    for part in parts:
        hands = part.given.get("hands")
        if isinstance(hands, Hands):

            async def rest(stop: asyncio.Event, hands: Hands = hands) -> None:
                await stop.wait()
                await hands.rest(GRACE_SECONDS)

            yield rest


def _end_streams_at_once(auth: Auth, parts: Sequence[Part]) -> None:
    """What another process revokes, the streams find out by themselves within a second."""
    from coilclaw.server.events.stream import Streams

    for part in parts:
        streams = part.given.get("streams")
        if isinstance(streams, Streams):
            auth.reception.on_revoked(lambda _, streams=streams: streams.check())


def build_whole(
    front: Front,
    *more: MakePart,
    rates: "Rates | None" = None,
    panel: "Panel | None" = None,
) -> Site:
    """The whole server: every part there is, its turns and its feed shared between them, and the panel."""
    from coilclaw.app.fronts.chat import chat_part
    from coilclaw.app.fronts.events import events_part, make_feed
    from coilclaw.app.fronts.house import house_part
    from coilclaw.app.fronts.passkeys import passkeys_part
    from coilclaw.app.fronts.queue import queue_part
    from coilclaw.app.fronts.work import work_part
    from coilclaw.app.turns.turns import Turns
    from coilclaw.server.panel import Panel

    feed = make_feed(front)
    turns = Turns(front.app, front.background.conveyor, feed.say_text)
    feed.partials = turns.partials
    parts: tuple[MakePart, ...] = (
        lambda front: chat_part(front, turns),
        lambda front: events_part(front, feed),
        passkeys_part,
        queue_part,
        house_part,
        work_part,
    )
    return build_site(
        front,
        (*parts, *more),
        rates=rates,
        panel=panel or Panel.load(),
        beside=(turns.run,),
        closing=(turns.close,),
    )
