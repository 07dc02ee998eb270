"""Who may come in, put together from an App: the names we answer to, the tokens, pairing, and the door itself."""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.config.listening import split_address
from coilclaw.gate.enrolment import Enrolment
from coilclaw.packets.ids import new_id, stamp
from coilclaw.server.entry.body import Bodies
from coilclaw.server.entry.door import Door
from coilclaw.server.entry.hosts import Hosts, Listening
from coilclaw.server.entry.methods import Methods
from coilclaw.server.entry.page_keys import PageKeys
from coilclaw.server.entry.pairing import Pairing
from coilclaw.server.entry.rates import Rates
from coilclaw.server.entry.reception import Reception
from coilclaw.server.entry.tokens import Tokens
from coilclaw.server.etags import ETags
from coilclaw.server.part import Part
from coilclaw.server.requests import Requests
from coilclaw.server.routes.devices import DevicesController
from coilclaw.server.routes.pairing import PairingController
from coilclaw.server.routes.session import SessionController
from coilclaw.store.lock import HeldLock, holder_is_gone

if TYPE_CHECKING:
    from litestar.types import ASGIApp

    from coilclaw.app.app import App
    from coilclaw.app.fronts.front import Front


def pairing_of(app: "App") -> Pairing:
    """What gives pairing codes out, at the terminal as over HTTP."""
    config = app.config.server
    return Pairing(clock=app.clock, minutes=config.pairing_minutes, token_days=config.token_days, random=os.urandom)


class Auth:
    """Everything before the routes, and what the routes of pairing and devices are given."""

    def __init__(self, front: "Front") -> None:
        app = front.app
        config = app.config.server
        self._app = app
        self.host, self.port = split_address(config.http_addr)
        self.hosts = Hosts(
            Listening(
                host=self.host,
                tls=config.tls_cert is not None,
                public_url=config.public_url,
                proxy=config.tls_proxy,
            )
        )
        self.tokens = Tokens(
            db=app.db, clock=app.clock, days=config.token_days, monotonic=time.monotonic, say=app.observe
        )
        self.page_keys = PageKeys(now=time.monotonic, random=os.urandom)
        self.reception = Reception(
            db=app.db,
            clock=app.clock,
            pairing=pairing_of(app),
            proofs=app.owner_proof,
            hosts=self.hosts,
            page_keys=self.page_keys,
            window=self._window,
            token_days=config.token_days,
        )
        self._lock = HeldLock(app.home.locks_dir / f"{new_id('serve', app.clock())}.lock")

    def _window(self, device_id: str) -> str | None:
        ends = Enrolment(self._app.owner_proof, self._app.clock).window_ends(self._app.db.reader, device_id)
        return None if ends is None else stamp(ends)

    def listening(self, port: int) -> None:
        """Now that we listen, the names we answer to are known."""
        self.hosts.listening(port)
        self._app.listening = port

    def close(self) -> None:
        """This process answers no more: what it began may be begun again."""
        self._lock.close()
        self._app.listening = None

    def part(self) -> Part:
        """The routes of pairing, the session and devices."""
        return Part(
            controllers=(PairingController, SessionController, DevicesController),
            given={"reception": self.reception},
        )

    def door(
        self,
        routes: "ASGIApp",
        methods: Methods,
        *,
        rates: Rates | None = None,
        is_asset: Callable[[str], bool] | None = None,
    ) -> Door:
        """The door before the routes, with what is done to every request in between."""
        app, config = self._app, self._app.config.server
        locks = app.home.locks_dir
        if rates is None:
            rates = Rates(time.monotonic, per_minute=config.requests_per_minute)
        requests = Requests(
            ETags(routes),
            db=app.db,
            clock=app.clock,
            worker=self._lock.path.stem,
            gone=lambda worker: holder_is_gone(locks / f"{worker}.lock"),
        )
        return Door(
            requests,
            hosts=self.hosts,
            tokens=self.tokens,
            page_keys=self.page_keys,
            rates=rates,
            bodies=Bodies(most=config.max_body_bytes, seconds=config.body_seconds),
            methods=methods,
            say=app.observe,
            is_asset=is_asset or (lambda _: False),
        )
