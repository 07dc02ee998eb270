"""Hosts: our names and origins. Requests for any other are refused."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORT = {"http": 80, "https": 443}


def same_address(written: str, peer: str) -> bool:
    """Whether two spellings are one IP address; an IPv4 address inside IPv6 counts as itself."""
    try:
        return _plain(written) == _plain(peer)
    except ValueError:
        return False


def _plain(text: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address":
    address = ipaddress.ip_address(text.strip("[]"))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _spellings(scheme: str, name: str, port: int) -> set[str]:
    """How a browser writes name and port in `Host`: the scheme's default port may be omitted."""
    return {f"{name}:{port}", *({name} if port == _DEFAULT_PORT[scheme] else ())}


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where we listen and under which names."""

    host: str
    """The configured listening address."""
    tls: bool
    """Whether we terminate TLS ourselves."""
    public_url: str
    """The public address, if not `http://localhost:PORT`."""
    proxy: str
    """The only address that may connect, or empty for any."""


class Hosts:
    """The allowlists. Nothing is allowed until the port is known."""

    def __init__(self, listening: Listening) -> None:
        self._where = listening
        self._hosts: dict[str, str] = {}
        self._origins: frozenset[str] = frozenset()
        self._address = listening.public_url

    def listening(self, port: int) -> None:
        """Fill the lists, now that the port is known."""
        where = self._where
        scheme = "https" if where.tls else "http"
        names = [*LOOPBACK]
        literal = self._bound_literal()
        if literal:
            names.append(literal)
        hosts = {spelling: f"{scheme}://{spelling}" for name in names for spelling in _spellings(scheme, name, port)}
        origins = set(hosts.values())
        if where.public_url:
            parts = urlsplit(where.public_url)
            name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
            spellings = _spellings(parts.scheme, name, parts.port or _DEFAULT_PORT[parts.scheme])
            public = f"{parts.scheme}://{min(spellings, key=len)}"
            hosts |= dict.fromkeys(spellings, public)
            origins.add(public)
            if where.proxy:  # all requests come through the proxy, under that one name
                origins = {public}
                hosts = dict.fromkeys(hosts, public)
        self._hosts = hosts
        self._origins = frozenset(origins)
        self._address = where.public_url or f"{scheme}://localhost:{port}"

    def _bound_literal(self) -> str:
        """A numeric address that we listen on: a stranger can point a name at us, but not a number."""
        try:
            address = ipaddress.ip_address(self._where.host.strip("[]"))
        except ValueError:
            return ""
        if address.is_unspecified:
            return ""
        return f"[{address}]" if address.version == 6 else str(address)

    @property
    def secure(self) -> bool:
        """Whether browsers reach us over TLS."""
        return self._where.tls or self._where.public_url.startswith("https:")

    @property
    def address(self) -> str:
        """The address to open, without a trailing slash."""
        return self._address.rstrip("/")

    def admits_peer(self, client: tuple[str, int] | None) -> bool:
        """Whether this peer may connect: any, or only the configured proxy."""
        if not self._where.proxy:
            return True
        return client is not None and same_address(self._where.proxy, client[0])

    def admits_host(self, host: str) -> bool:
        """Whether a `Host` header names us."""
        return host.lower() in self._hosts

    def admits_origin(self, origin: str) -> bool:
        """Whether an `Origin` header is one of our pages."""
        return origin in self._origins

    def origin_of(self, host: str) -> str:
        """The origin of our pages under an accepted `Host`."""
        return self._hosts[host.lower()]
