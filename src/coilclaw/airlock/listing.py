"""Who may reach what: an immutable snapshot of the owner's configuration, narrowed by a skill or a job."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from coilclaw.airlock.names import local_name
from coilclaw.airlock.ranges import special
from coilclaw.airlock.url import Refusal, Scheme, Target, parse_url
from coilclaw.packets.errors import ConfigError
from coilclaw.packets.http import Principal


class Endpoint(msgspec.Struct, frozen=True):
    """One exact origin that the owner listed."""

    scheme: Scheme
    host: str
    port: int


class DomainSet(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's domains, parsed once: `example.com`, `*.example.com`, `http://localhost:8080`."""

    names: frozenset[str] = frozenset()
    """Exact names, over https on 443."""
    suffixes: frozenset[str] = frozenset()
    """`.example.com` for `*.example.com`: any name below, never the apex, over https on 443."""
    endpoints: frozenset[Endpoint] = frozenset()
    """Exact scheme, host and port; the only form that can name plain http, another port, or a local host."""

    @classmethod
    def of(cls, entries: Iterable[str]) -> "DomainSet":
        """Parse the entries, or raise ConfigError naming every invalid one."""
        names: set[str] = set()
        suffixes: set[str] = set()
        endpoints: set[Endpoint] = set()
        problems: list[str] = []
        for entry in entries:
            read = _entry(entry)
            if isinstance(read, Endpoint):
                endpoints.add(read)
            elif isinstance(read, Refusal):
                problems.append(f"{entry!r}: {read.reason}")
            else:
                (suffixes if read.startswith(".") else names).add(read)
        if problems:
            raise ConfigError(problems, remedy="Write example.com, *.example.com or https://host:port.")
        return cls(names=frozenset(names), suffixes=frozenset(suffixes), endpoints=frozenset(endpoints))

    def has_endpoint(self, target: Target) -> bool:
        """Whether exactly this scheme, host and port is listed."""
        return Endpoint(target.scheme, target.host, target.port) in self.endpoints

    def has_name(self, host: str) -> bool:
        """Whether the name is listed, by itself or by a wildcard that ends at a dot."""
        if host in self.names:
            return True
        parts = host.split(".")
        return any("." + ".".join(parts[start:]) in self.suffixes for start in range(1, len(parts)))

    def admits(self, target: Target) -> bool:
        """Whether the target is listed, exactly or as an https page of a listed name."""
        plain = target.scheme == "https" and target.port == 443 and target.kind == "name"
        return self.has_endpoint(target) or (plain and self.has_name(target.host))

    def covers(self, target: Target) -> bool:
        """For narrowing, which grants nothing: the exact endpoint, or the name with any scheme and port."""
        return self.has_endpoint(target) or (target.kind == "name" and self.has_name(target.host))


Endpoints: TypeAlias = frozenset[Endpoint]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What each principal may reach. Only the configuration grants; `narrowed` only restricts."""

    providers: Endpoints = frozenset()
    """Model servers, exactly as configured."""
    searches: Endpoints = frozenset()
    forges: Endpoints = frozenset()
    webhooks: Endpoints = frozenset()
    notify: Endpoints = frozenset()
    """The owner's notification targets: a message server, a mail server."""
    mcp: frozenset[Target] = frozenset()
    """MCP servers: each by its whole URL, path and query included."""
    oauth: Endpoints = frozenset()
    """Authorization servers that the owner named: tokens, revocation, metadata."""
    google: Endpoints = frozenset()
    """Mail and calendar; `airlock/google.py` lists which requests."""
    domains: DomainSet = DomainSet()
    """The owner's `allowed_domains`, for `http` and for boxes."""
    narrowing: tuple[DomainSet, ...] | None = None
    """Domains that skill and job declare: each set must also allow the target. None means no narrowing."""
    own_ports: frozenset[int] = frozenset()
    """Ports of our own server: never reachable on this machine, even if listed."""

    @classmethod
    def build(
        cls,
        *,
        providers: Iterable[str] = (),
        searches: Iterable[str] = (),
        forges: Iterable[str] = (),
        webhooks: Iterable[str] = (),
        notify: Iterable[str] = (),
        mcp: Iterable[str] = (),
        oauth: Iterable[str] = (),
        google: Iterable[str] = (),
        allowed_domains: Iterable[str] = (),
        own_ports: Iterable[int] = (),
    ) -> "Listing":
        """Parse configured URLs and domains, or raise ConfigError with every fault."""
        return cls(
            providers=endpoints_of(providers),
            searches=endpoints_of(searches),
            forges=endpoints_of(forges),
            webhooks=endpoints_of(webhooks),
            notify=endpoints_of(notify),
            mcp=exact_urls(mcp),
            oauth=named_origins(oauth),
            google=endpoints_of(google),
            domains=DomainSet.of(allowed_domains),
            own_ports=frozenset(own_ports),
        )

    def narrowed(self, entries: Sequence[str] | None) -> "Listing":
        """The same listing, further limited to these entries; None changes nothing, an empty list leaves nothing."""
        if entries is None:
            return self
        return msgspec.structs.replace(self, narrowing=(*(self.narrowing or ()), DomainSet.of(entries)))

    def endpoints_for(self, principal: Principal) -> Endpoints | None:
        """The exact origins of a principal that is limited to some, or None for one that uses domains."""
        match principal:
            case "provider":
                return self.providers
            case "web_search":
                return self.searches
            case "forge":
                return self.forges
            case "webhook":
                return self.webhooks
            case "notify":
                return self.notify
            case "mcp":
                return frozenset(Endpoint(each.scheme, each.host, each.port) for each in self.mcp)
            case "oauth":
                return self.oauth
            case "google":
                return self.google
            case "web_open" | "push" | "http" | "box":
                return None


def endpoints_of(urls: Iterable[str]) -> Endpoints:
    """The scheme, host and port of each configured base URL, or ConfigError with every fault."""
    return frozenset(Endpoint(each.scheme, each.host, each.port) for each in exact_urls(urls))


def exact_urls(urls: Iterable[str]) -> frozenset[Target]:
    """Each configured URL, parsed, or ConfigError with every fault."""
    found: set[Target] = set()
    problems: list[str] = []
    for url in urls:
        read = _listable(url)
        if isinstance(read, Refusal):
            problems.append(f"{url.partition('?')[0]!r}: {read.reason}")
        else:
            found.add(read)
    if problems:
        raise ConfigError(problems, remedy="Write a base URL such as https://host/v1 or http://127.0.0.1:8080/v1.")
    return frozenset(found)


def named_origins(entries: Iterable[str]) -> Endpoints:
    """Exact origins from URLs or plain host names (https on 443); a wildcard is a fault, as in `endpoints_of`."""
    return endpoints_of(entry if "://" in entry else f"https://{entry}" for entry in entries)


def _listable(url: str) -> Target | Refusal:
    target = parse_url(url)
    if isinstance(target, Refusal):
        return target
    if target.kind != "name" and (block := special(target.host)) and block.place == "never":
        return Refusal("SPECIAL_ADDRESS", f"{target.host} is {block.name} ({block.source}) and cannot be listed")
    return target


def _entry(entry: str) -> str | Endpoint | Refusal:
    """An exact name, a `.suffix`, an endpoint, or why it is none of them."""
    if "://" in entry:
        read = _listable(entry)
        if isinstance(read, Refusal):
            return read
        if any(mark in entry.partition("://")[2].rstrip("/") for mark in "/?#"):
            return Refusal("BAD_ENTRY", "an entry must end after the port; a path cannot be listed")
        return Endpoint(read.scheme, read.host, read.port)
    wildcard = entry.startswith("*.")
    target = parse_url(f"https://{entry.removeprefix('*.')}")
    if isinstance(target, Refusal):
        return target
    bare = entry.removeprefix("*.").lower() == target.host
    if not bare:
        return Refusal("BAD_ENTRY", f"a port or a path needs the full form, https://{target.authority}")
    if target.kind != "name" or local_name(target.host):
        kind = "a public suffix or local name" if wildcard else "a local host or an address"
        return Refusal(
            "BAD_ENTRY", f"{kind} must be listed one by one, with scheme and port: http://{target.host}:8080"
        )
    return f".{target.host}" if wildcard else target.host
