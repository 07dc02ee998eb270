"""What a phone would meet: the name, the certificate, the server behind it, the origin. For the owner's doctor."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from coilclaw.airlock.resolver import Resolver, system_resolver
from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError, TransportError
from coilclaw.runtime.panel_address import panel_origin

if TYPE_CHECKING:
    from coilclaw.packets.http import HttpResponse
    from coilclaw.runtime.runtime import Runtime

GUIDE = "`coilclaw docs phone` says how, step by step."
SOON = timedelta(days=14)
_AUTHORITY = "tls-ca.crt"


async def examine_phone(app: "Runtime", running: str | None, resolve: Resolver = system_resolver) -> list[Probe]:
    """Every probe; `running` is where the server of this home says it is reached, if it runs."""
    return [
        _address(app),
        *_certificate(app),
        *_client_authority(app),
        await _name(app, resolve),
        await _server(app, running),
        *await _outside(app, running, resolve),
    ]


def _address(app: "Runtime") -> Probe:
    server = app.config.server
    host = urlsplit(server.public_url).hostname or ""
    if not host or host in ("localhost", "127.0.0.1", "::1"):
        detail = "there is no public_url, so the panel is for this machine alone"
        return Probe(name="address", state="warn", detail=detail, remedy=GUIDE)
    if server.tls_cert is None and not server.tls_proxy:
        detail = f"{server.public_url} is announced, but nothing here speaks TLS for it"
        return Probe(
            name="address", state="warn", detail=detail, remedy=f"Set tls_cert and tls_key, or tls_proxy. {GUIDE}"
        )
    if is_address(host):
        detail = (
            f"{server.public_url} is an address, and passkeys need a name: the phone could approve nothing of weight"
        )
        # The panel works all the same, and the health check of a container goes by this.
        return Probe(name="address", state="warn", detail=detail, remedy=f"Use a name for public_url. {GUIDE}")
    return Probe(name="address", state="ok", detail=f"{server.public_url}; passkeys belong to {host}")


def is_address(host: str) -> bool:
    """Whether a host is given by its address, which browsers let no passkey belong to."""
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _certificate(app: "Runtime") -> list[Probe]:
    """What the configured certificate states; a proxy's is read when connecting."""
    from coilclaw.secrets.certificates import standing_of

    server = app.config.server
    if server.tls_cert is None:
        return []
    again = (
        "Make a new one: `coilclaw tls make --again`, or renew it where it came from; then start `coilclaw up` again."
    )
    try:
        found = standing_of(server.tls_cert.read_bytes())
    except (OSError, ValueError):
        return [Probe(name="certificate", state="fail", detail=f"{server.tls_cert} cannot be read", remedy=again)]
    now, host = app.clock(), urlsplit(server.public_url).hostname or "localhost"
    until = f"until {found.ends:%Y-%m-%d}"
    if not found.begins <= now <= found.ends:
        return [Probe(name="certificate", state="fail", detail=f"it is not valid now (good {until})", remedy=again)]
    if not _covers(found.names, host):
        names = ", ".join(found.names[:5]) or "no name"
        return [Probe(name="certificate", state="fail", detail=f"it is for {names}, not for {host}", remedy=again)]
    if found.ends - now < SOON:
        return [Probe(name="certificate", state="warn", detail=f"it ends soon ({until})", remedy=again)]
    return [Probe(name="certificate", state="ok", detail=f"for {host}, {until}")]


def _client_authority(app: "Runtime") -> list[Probe]:
    """Whether clients can have a certificate that the server accepts."""
    from coilclaw.secrets.certificates import standing_of

    file = app.config.server.tls_client_ca
    if file is None:
        return []
    name, remedy = "clients", "Put the authority's certificate (PEM) there; then start `coilclaw up` again."
    try:
        found = standing_of(file.read_bytes())
    except (OSError, ValueError):
        return [Probe(name=name, state="fail", detail=f"tls_client_ca {file} cannot be read", remedy=remedy)]
    until = f"until {found.ends:%Y-%m-%d}"
    if not found.begins <= app.clock() <= found.ends:
        return [Probe(name=name, state="fail", detail=f"tls_client_ca is not valid now (good {until})", remedy=remedy)]
    if found.ends - app.clock() < SOON:
        return [Probe(name=name, state="warn", detail=f"tls_client_ca ends soon ({until})", remedy=remedy)]
    return [Probe(name=name, state="ok", detail=f"each needs a certificate of the authority in {file}, {until}")]


def _covers(names: Sequence[str], host: str) -> bool:
    wild = f"*.{host.partition('.')[2]}"
    return host in names or ("." in host and wild in names)


async def _name(app: "Runtime", resolve: Resolver) -> Probe:
    host = urlsplit(app.config.server.public_url).hostname or "localhost"
    try:
        found = await resolve(host)
    except TransportError:
        detail = f"{host} has no address on this machine; the phone must find one"
        return Probe(name="name", state="warn", detail=detail, remedy="Add it to the DNS that the phone asks.")
    return Probe(name="name", state="ok", detail=f"{host} is {', '.join(found[:4])} here")


async def _server(app: "Runtime", running: str | None) -> Probe:
    """Whether our own port answers on this machine, under the name that the phone uses."""
    if running is None:
        detail = "`coilclaw up` is not running on this home"
        return Probe(name="server", state="fail", detail=detail, remedy="Start it: `coilclaw up`.")
    server = app.config.server
    here = urlsplit(running).port if not server.public_url else None
    port = here or int(server.http_addr.rpartition(":")[2])
    bound = server.http_addr.rpartition(":")[0].strip("[]")
    address = "127.0.0.1" if bound in ("0.0.0.0", "::", "localhost", "") else bound  # noqa: S104 - compared, not bound
    scheme = "http" if server.tls_cert is None else "https"
    host = (urlsplit(server.public_url).hostname if server.tls_cert is not None else "") or "localhost"

    async def loopback(_: str) -> tuple[str, ...]:
        return (address,)

    state, detail = await _asked(app, f"{scheme}://{_bracketed(host)}:{port}/health", "", loopback)
    if state == "refused" and server.tls_proxy:
        return Probe(name="server", state="ok", detail=f"port {port} answers, and only to {server.tls_proxy}")
    if state == "certificate":
        return Probe(name="server", state="ok", detail=f"port {port} answers, and only to clients with a certificate")
    if state in ("ok", "refused"):  # it may be published under another port; the next probe connects as a phone would
        return Probe(name="server", state="ok", detail=f"port {port} answers")
    return Probe(name="server", state="fail", detail=detail, remedy=_remedy(detail))


async def _outside(app: "Runtime", running: str | None, resolve: Resolver) -> list[Probe]:
    """The whole path: by name, through any proxy, with the origin that the phone's page would have."""
    server = app.config.server
    if running is None or not server.public_url.startswith("https://"):
        return []
    origin = panel_origin(server, None)
    state, detail = await _asked(app, f"{origin}/health", origin, resolve)
    if state == "ok":
        return [
            Probe(
                name="as a phone",
                state="ok",
                detail=f"{origin} answers, with a valid certificate, and takes its own origin",
            )
        ]
    if state == "certificate":
        detail = f"{origin} has a valid certificate; the phone needs one too, of the authority in tls_client_ca"
        return [Probe(name="as a phone", state="ok", detail=detail)]
    if state == "refused":
        remedy = "Have the proxy pass Host and Origin on unchanged, and public_url be what the phone opens."
        return [Probe(name="as a phone", state="fail", detail=detail, remedy=remedy)]
    # A certificate that fails here fails on a phone too; an address may well be reachable from elsewhere only.
    level: Literal["fail", "warn"] = "fail" if "certificate" in detail else "warn"
    return [Probe(name="as a phone", state=level, detail=detail, remedy=_remedy(detail))]


def _remedy(detail: str) -> str:
    if "certificate" in detail:
        return "Put the whole chain into tls_cert; an authority of your own is made by `coilclaw tls make`."
    return f"Check the firewall, the port and the proxy. {GUIDE}"


async def _asked(
    app: "Runtime", url: str, origin: str, resolve: Resolver
) -> tuple[Literal["ok", "refused", "certificate", "unreachable"], str]:
    """Request /health through an airlock that allows only that address. The agent's own never allows our port."""
    from coilclaw.airlock import Airlock, Listing
    from coilclaw.packets.http import HttpRequest

    own = app.home.keys_dir / _AUTHORITY
    used = app.config.server.tls_cert
    authority = str(own) if used is not None and used.parent == own.parent and own.exists() else None
    airlock = Airlock(
        Listing.build(providers=[url]), log=lambda _: None, clock=app.clock, resolve=resolve, ca_file=authority
    )
    headers = (("origin", origin),) if origin else ()
    request = HttpRequest(
        principal="provider",
        method="GET",
        url=url,
        headers=headers,
        timeout_seconds=8.0,
        max_bytes=1 << 16,
        same_host=True,
    )
    try:
        answer = await airlock.send(request)
    except CoilclawError as error:
        # We accepted its certificate and sent the request; it hung up because it requires a client certificate.
        if app.config.server.tls_client_ca is not None and isinstance(error, TransportError) and error.sent:
            return ("unreachable", error.message.rstrip(".")) if error.timeout else ("certificate", "")
        return "unreachable", error.message.rstrip(".")
    if answer.status == 200 and b'"status"' in answer.body:
        return "ok", ""
    return "refused", f"{url} answers {answer.status}{_reason(answer)}"


def _reason(answer: "HttpResponse") -> str:
    from coilclaw.packets.canonical import NotCanonical, parse_object
    from coilclaw.packets.text import one_line

    try:
        detail = parse_object(answer.body).get("detail", "")
    except NotCanonical:
        return ""
    return f": {one_line(detail)[:200].rstrip('.')}" if isinstance(detail, str) and detail else ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
