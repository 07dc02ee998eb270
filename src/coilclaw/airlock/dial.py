"""Opens a connection to a checked address, and to nothing else."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coilclaw.airlock.ranges import parse_address
from coilclaw.airlock.url import Target
from coilclaw.packets.errors import EgressRefused, TransportError

if TYPE_CHECKING:
    import asyncio
    import socket
    import ssl

MAX_TRIES = 4


async def dial(
    target: Target,
    addresses: Sequence[str],
    *,
    own_ports: frozenset[int],
    tls: "ssl.SSLContext | None",
    connect_seconds: float,
    deadline: float,
) -> "tuple[asyncio.StreamReader, asyncio.StreamWriter]":
    """Connect to the first checked address that answers; TLS keeps the name. No byte of the request is sent here."""
    import asyncio
    import ssl

    until = min(deadline, asyncio.get_running_loop().time() + connect_seconds)
    try:
        async with asyncio.timeout_at(until):
            sock = await _connected(target, addresses[:MAX_TRIES], own_ports, until)
            try:
                return await asyncio.open_connection(
                    sock=sock, ssl=tls, server_hostname=target.host if tls is not None else None, limit=1 << 16
                )
            except BaseException:
                sock.close()
                raise
    except TimeoutError as error:
        raise TransportError(
            f"{target.host} did not answer in time.", sent=False, timeout=True, remedy="Try again later."
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise TransportError(
            f"The certificate of {target.host} is not valid: {error.verify_message}.",
            sent=False,
            remedy="Do not continue; for a private certificate authority, set ca_file.",
        ) from error
    except OSError as error:
        raise TransportError(
            f"Cannot connect to {target.host}:{target.port}: {error.strerror or type(error).__name__}.",
            sent=False,
            remedy="Check that the server is running and the port is right.",
        ) from error


async def _connected(
    target: Target, addresses: Sequence[str], own_ports: frozenset[int], until: float
) -> "socket.socket":
    import asyncio
    import socket

    loop = asyncio.get_running_loop()
    failure: OSError = OSError("no address")
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            now = loop.time()
            async with asyncio.timeout_at(now + (until - now) / left):  # leave time for the next address
                await loop.sock_connect(sock, (address, target.port))
            check_peer(sock, address, target.port, own_ports)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def check_peer(sock: "socket.socket", address: str, port: int, own_ports: frozenset[int]) -> None:
    """Belt and braces: check that the peer is the checked address, and not our own server on this machine."""
    peer, here = sock.getpeername(), sock.getsockname()
    if parse_address(str(peer[0])) != parse_address(address) or peer[1] != port:
        raise EgressRefused(f"Connected to {peer[0]} instead of {address}; nothing was sent.", code="PEER_MISMATCH")
    if port in own_ports and peer[0] == here[0]:
        raise EgressRefused(
            f"Port {port} belongs to CoilClaw's own server, which the agent may never reach.", code="OWN_PORT"
        )
