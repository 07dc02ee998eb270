"""The listener: uvicorn inside our own event loop, stopped by our own signal."""

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from litestar.types import ASGIApp

from coilclaw.packets.errors import UsageError
from coilclaw.server.door.slow_clients import Limits, TimedConnection, patient, room_for

_TWINS = {"127.0.0.1": "::1", "::1": "127.0.0.1"}
QUEUED = 2048
"""Connections that the system queues until they are accepted."""
GRACE_SECONDS = 10
"""The grace period for running requests at shutdown."""


@dataclass(frozen=True, kw_only=True)
class Tls:
    """The TLS certificate and key, and the authorities of client certificates if every client must show one."""

    cert: Path
    key: Path
    client_ca: Path | None = None


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the caller, and reports why it cannot listen instead of exiting."""

    listening = False
    """Whether every address is taken and queues as much as it will; uvicorn's own `started` comes before that."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: Any = None) -> None:
        """Start listening."""
        try:
            await super().startup(sockets)
        except SystemExit as leaving:
            cause = leaving.__context__
            error = cause if isinstance(cause, OSError) else OSError("it did not start")
            raise _cannot_listen(self.config.host, self.config.port, error) from None
        other = _TWINS.get(self.config.host)
        if other is not None:
            await self._listen_beside(other, self.servers[0].sockets[0].getsockname()[1])
        for server in self.servers:
            for taken in server.sockets:
                with taken.dup() as listening:  # the event loop accepts `backlog` at a time; the system may queue more
                    listening.listen(QUEUED)
        self.listening = True

    async def _listen_beside(self, host: str, port: int) -> None:
        """Bind the same port of the other loopback address: browsers may mean either by `localhost`, and a program
        there could imitate the panel."""
        config = self.config

        def protocol() -> asyncio.Protocol:
            kind: Any = config.http_protocol_class
            return kind(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        try:
            server = await asyncio.get_running_loop().create_server(
                protocol, host=host, port=port, ssl=config.ssl, backlog=config.backlog
            )
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return  # this machine has no such address, so nobody else can have it
            for each in self.servers:
                each.close()
            raise _cannot_listen(host, port, error) from None
        self.servers.append(server)


def _cannot_listen(host: str, port: int, error: OSError) -> UsageError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"another program is already listening on {place}.",
            remedy="Stop it, or choose another port: `--addr`, or `coilclaw config set server.http_addr`.",
        )
    return UsageError(
        f"cannot listen on {place} ({error.strerror or error}).",
        remedy="Choose an address of this machine: `--addr`, or `coilclaw config set server.http_addr`.",
    )


def _ask_for_certificates(config: uvicorn.Config, authorities: Path) -> None:
    """End every handshake in which the client shows no certificate of these authorities."""
    assert config.ssl is not None  # noqa: S101 - it was loaded with a certificate
    try:
        config.ssl.load_verify_locations(authorities)
    except OSError as error:
        raise UsageError(
            f"the authorities of client certificates cannot be read ({error.strerror or type(error).__name__}).",
            remedy=f"Check server.tls_client_ca: {authorities} must be a readable PEM file.",
        ) from error
    if not config.ssl.get_ca_certs():
        raise UsageError(
            f"{authorities} holds no authority, so no client could connect.",
            remedy="Name the certificate that signed the clients': `coilclaw config set server.tls_client_ca FILE`.",
        )
    config.ssl.verify_mode = ssl.CERT_REQUIRED


def _quiet() -> None:
    """The door logs errors without content; uvicorn's own messages would contain tracebacks."""
    for name in ("uvicorn.error", "coilclaw.http"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


async def listen(
    app: ASGIApp,
    host: str,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[int], None],
    *,
    protocol: type[TimedConnection] | None = None,
    tls: Tls | None = None,
) -> None:
    """Serve until `stop` is set; `ready` gets the port as soon as requests are accepted."""
    from coilclaw.server.door.timed_socket import MESSAGE_BYTES, PING_SECONDS, timed_socket

    _quiet()
    protocol = protocol or patient(Limits(connections=room_for(Limits().connections)))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=protocol,
        backlog=protocol.limits.at_once,
        ws=timed_socket(protocol.limits),
        ws_max_size=MESSAGE_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # a few compressed bytes could become megabytes
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # forwarding headers are not trusted
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=None if tls is None else tls.cert,
        ssl_keyfile=None if tls is None else tls.key,
    )
    try:
        config.load()
    except OSError as error:  # certificate errors are OSErrors too
        raise UsageError(
            f"TLS cannot be set up with these files ({error.strerror or type(error).__name__}).",
            remedy="Check server.tls_cert and server.tls_key: readable PEM files that match.",
        ) from error
    if tls is not None and tls.client_ca is not None:
        _ask_for_certificates(config, tls.client_ca)
    server = _Uvicorn(config)
    serving = asyncio.ensure_future(server.serve())
    try:
        while not server.listening and not serving.done():
            await asyncio.sleep(0.005)
        if not serving.done():
            ready(server.servers[0].sockets[0].getsockname()[1])
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
    finally:
        server.should_exit = True
        await serving
