"""The site: every part of the server behind the door, ready for a listener."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litestar.types import ASGIApp

from coilclaw.server.application import build
from coilclaw.server.door.body import Bodies
from coilclaw.server.door.door import Door
from coilclaw.server.door.methods import Methods
from coilclaw.server.door.rates import Rates
from coilclaw.server.door.sockets import Sockets
from coilclaw.server.etags import ETags
from coilclaw.server.idempotency import Requests
from coilclaw.server.part import Beside
from coilclaw.server.serving import MakePart, Serving
from coilclaw.store.claims import Claimant

if TYPE_CHECKING:
    from coilclaw.server.panel import Panel


@dataclass(frozen=True, kw_only=True)
class Site:
    """The application, its admission rules, and its background tasks."""

    serving: Serving
    door: Door
    routes: ASGIApp
    """The application behind the door."""
    beside: tuple[Beside, ...]
    closing: tuple[Callable[[], None], ...]

    def close(self) -> None:
        """Shut down: requests that this process started may be started again."""
        for close in self.closing:
            close()
        self.serving.runtime.listening = None


def build_site(
    serving: Serving,
    makers: Sequence[MakePart],
    *,
    rates: Rates | None = None,
    is_asset: Callable[[str], bool] | None = None,
    panel: "Panel | None" = None,
) -> Site:
    """The parts and the panel's files, behind the door."""
    runtime, config = serving.runtime, serving.runtime.config.server
    parts = [make(serving) for make in makers]
    whole = build(serving.core, parts, say=runtime.observe)
    methods = Methods.of(whole)
    routes: ASGIApp = whole
    for around in (part.around for part in parts if part.around is not None):
        routes = around(routes)
    inside = routes
    if panel is not None:
        inside, is_asset = panel.before(routes), panel.is_asset
    claimant = Claimant(runtime.home.locks_dir, "serve", runtime.clock)
    requests = Requests(ETags(inside), db=runtime.db, clock=runtime.clock, worker=claimant.name, gone=claimant.gone)
    sockets = Sockets(still_valid=serving.tokens.holds, stopped=runtime.estop.engaged, most=config.max_streams)
    serving.on_revoked(lambda _: sockets.check())
    door = Door(
        requests,
        hosts=serving.hosts,
        tokens=serving.tokens,
        page_keys=serving.page_keys,
        rates=rates or Rates(time.monotonic, per_minute=config.requests_per_minute),
        bodies=Bodies(most=config.max_body_bytes, seconds=config.body_seconds),
        methods=methods,
        sockets=sockets,
        say=runtime.observe,
        is_asset=is_asset or (lambda _: False),
    )
    return Site(
        serving=serving,
        door=door,
        routes=routes,
        beside=tuple(each for part in parts for each in part.beside),
        closing=(*(part.close for part in parts if part.close is not None), claimant.close),
    )
