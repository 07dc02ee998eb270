"""A real server on a real socket over a home in a temporary folder, and clients that speak to it."""

import asyncio
import os
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx

from coilclaw.app import build_server
from coilclaw.features.devices.feature import devices_part
from coilclaw.features.jobs.background import Background
from coilclaw.packets.ids import new_id, stamp
from coilclaw.server.door.rates import Rates
from coilclaw.server.door.tokens import new_token, token_hash
from coilclaw.server.listener import listen
from coilclaw.server.serving import Serving
from coilclaw.server.site import build_site
from coilclaw.store.devices import add_device, add_token, find_token

COOKIE = "__Host-coilclaw"


def enrol(sample, device_id="dev_test", token_id="tok_test", *, confirmed=True, name="test", key="", way="bearer"):
    """A device and its token, written straight into the database; gives back the token."""
    app = sample.app
    token = new_token(os.urandom)
    expires_at = stamp(app.clock() + timedelta(days=app.config.server.token_days))

    def write(tx):
        known = tx.execute("SELECT 1 FROM devices WHERE device_id = ?", (device_id,)).fetchone()
        if known is None:
            add_device(
                tx,
                app.clock,
                device_id=device_id,
                name=name,
                public_key=key,
                confirmed=confirmed,
                paired_by="terminal",
            )
        tx.execute("DELETE FROM auth_tokens WHERE token_id = ?", (token_id,))
        add_token(
            tx,
            app.clock,
            token_id=token_id,
            device_id=device_id,
            token_hash=token_hash(token),
            way=way,
            expires_at=expires_at,
        )

    app.db.write_now(write)
    return token


class Site:
    """The served home: `sample` is the home, `http` a client of the paired device `dev_test`, `bare` one of nobody."""

    def __init__(self, sample, port, built, token):
        self.sample = sample
        self.serving = built.serving
        self.background = Background(sample.app, built.serving.core.conveyor)
        self.port = port
        self.built = built
        self.token = token
        self.origin = f"http://localhost:{port}"
        self._clients = []
        self.http = self.client(headers={"Authorization": f"Bearer {token}"})
        self.bare = self.client()

    def client(self, **options):
        """Another client of this server; closed with it."""
        made = httpx.AsyncClient(base_url=self.origin, timeout=280, trust_env=False, verify=False, **options)
        self._clients.append(made)
        return made

    def device(self, **options):
        """A client of another device, by bearer."""
        token = enrol(
            self.sample, new_id("dev", self.sample.app.clock()), new_id("tok", self.sample.app.clock()), **options
        )
        return self.client(headers={"Authorization": f"Bearer {token}"})

    def browser(self, token=None, **headers):
        """A client that is a page of the panel: a cookie, the page's own origin, and a key that it was given."""
        if token is None:
            token = enrol(self.sample, token_id="tok_page", way="cookie")
        row = find_token(self.sample.app.db.reader, token_hash(token))
        shown = {"Cookie": f"{COOKIE}={token}", "Origin": self.origin, "Sec-Fetch-Site": "same-origin"}
        if row is not None:
            shown["X-CoilClaw-Page"] = self.serving.page_keys.grant(row.token_id)
        return self.client(headers={**shown, **headers})

    async def close(self):
        for each in self._clients:
            await each.aclose()


def served(sample, *makers, rates=None, is_asset=None, protocol=None):
    """Serve the parts that the makers make (the `part` of features), on a free port of loopback.

    The door is the real one; pairing, devices and passkeys are always there. `rates` lifts its limits where needed.
    """
    makers = (devices_part, *makers)
    build = lambda runtime: build_site(Serving(runtime), makers, rates=rates, is_asset=is_asset)  # noqa: E731
    return serving(sample, build, protocol)


def served_whole(sample, *more):
    """Serve everything there is, and more, without limits on how often; turns are answered."""
    return serving(sample, lambda runtime: build_server(runtime, *more, rates=unlimited()))


def unlimited():
    """Rates that never refuse, for tests that ask a lot."""
    return Rates(time.monotonic, per_minute=10_000_000, routes=())


@asynccontextmanager
async def serving(sample, build, protocol=None):
    """Listen on what `build` makes of a home, for as long as the test needs it."""
    token = enrol(sample)
    built = build(sample.app)
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()

    def ready(number):
        built.serving.listening(number)
        port.set_result(number)

    listening = asyncio.ensure_future(listen(built.door, "127.0.0.1", 0, stop, ready, protocol=protocol))
    beside = [asyncio.ensure_future(run(stop)) for run in built.beside]
    try:
        await asyncio.wait({listening, port}, return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            await listening
        site = Site(sample, port.result(), built, token)
        try:
            yield site
        finally:
            await site.close()
    finally:
        stop.set()
        await asyncio.gather(listening, *beside)
        built.close()
