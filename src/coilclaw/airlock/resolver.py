"""Resolves names, once per request. The answers are not trusted: the judge checks every one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from coilclaw.airlock.names import is_localhost, local_name
from coilclaw.packets.errors import TransportError

Resolver: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
RESOLVE_SECONDS = 5.0
MAX_ANSWERS = 64


def lookup(host: str) -> tuple[str, ...]:
    """Ask the system, blocking. A public name is looked up as absolute, so that no search domain can shadow it."""
    import socket

    # bytes, because text would go through the IDNA codec, which may change the name
    if is_localhost(host):
        return ("127.0.0.1", "::1")
    spellings = (
        (host,) if local_name(host) else (f"{host}.", host)
    )  # the second form finds names that are only in /etc/hosts
    for spelling in spellings:
        try:
            found = socket.getaddrinfo(
                spelling.encode("ascii"), None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
        except (OSError, UnicodeError):
            continue
        return tuple(dict.fromkeys(str(row[4][0]) for row in found))[:MAX_ANSWERS]
    raise TransportError(f"{host} has no address.", sent=False, remedy="Check the name and the network.")


async def system_resolver(host: str) -> tuple[str, ...]:
    """The system's answers, in its order, without repeats."""
    import asyncio

    if is_localhost(host):
        return lookup(host)
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            return await asyncio.get_running_loop().run_in_executor(None, lookup, host)
    except TimeoutError as error:
        raise TransportError(
            f"Looking up {host} timed out.", sent=False, timeout=True, remedy="Check the DNS server, then retry."
        ) from error
