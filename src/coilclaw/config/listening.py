"""Checks across [server]: beyond this machine only with TLS, and under a known name."""

import ipaddress
from urllib.parse import urlsplit

from coilclaw.config.faults import Faults
from coilclaw.config.schema import Server

BEYOND_LOOPBACK = (
    "is reachable from other machines, which needs TLS: set tls_cert and tls_key, or tls_proxy and an https public_url;"
    ' or listen on "127.0.0.1:8377"'
)


def split_address(address: str) -> tuple[str, int]:
    """The host and port of a valid address (see `address_fault`), without brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect there."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def exposure_fault(server: Server, address: str) -> str:
    """Why we must not listen on an address with this configuration, or nothing."""
    if is_loopback(split_address(address)[0]):
        return ""
    own_tls = server.tls_cert is not None and server.tls_key is not None
    by_proxy = bool(server.tls_proxy) and server.public_url.startswith("https://")
    return "" if own_tls or by_proxy else BEYOND_LOOPBACK


def check_server(server: Server, faults: Faults, *, address_holds: bool) -> None:
    """Record what is wrong with [server] as a whole."""
    if (server.tls_cert is None) != (server.tls_key is None):
        missing = "tls_key" if server.tls_key is None else "tls_cert"
        faults.note(("server", missing), "is missing; set both the certificate and its key")
    if server.tls_client_ca is not None and server.tls_cert is None and server.tls_key is None:
        text = "needs tls_cert and tls_key: a proxy that terminates TLS must ask for client certificates itself"
        faults.note(("server", "tls_client_ca"), text)
    fault = public_url_fault(server.public_url)
    if fault:
        faults.note(("server", "public_url"), fault)
    _check_proxy(server, faults)
    if address_holds and (fault := exposure_fault(server, server.http_addr)):
        faults.note(("server", "http_addr"), fault)


def _check_proxy(server: Server, faults: Faults) -> None:
    if not server.tls_proxy:
        return
    key = ("server", "tls_proxy")
    try:
        ipaddress.ip_address(server.tls_proxy)
    except ValueError:
        faults.note(key, "needs the proxy's IP address, such as 10.0.0.2: a name could resolve to another machine")
    if not server.public_url.startswith("https://"):
        faults.note(key, "needs an https public_url, such as https://coil.example.net: the address of the proxy")
    if server.tls_cert is not None:
        faults.note(key, "terminates TLS at the proxy, but tls_cert terminates it here; remove one of them")


def public_url_fault(url: str) -> str:
    """Why a browser could not open an address, or nothing."""
    if not url:
        return ""
    example = "such as https://coil.example.net"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return f"needs an https:// address with a host, {example}"
    host = parts.hostname or ""
    plain = url.isascii() and url.isprintable() and url == url.lower() and " " not in url and "\\" not in url
    if parts.scheme not in ("http", "https") or not host or not plain or port == 0:
        return f"needs an https:// address with a lower-case host, {example}"
    if "@" in parts.netloc or parts.path not in ("", "/") or "?" in url or "#" in url:
        return f"needs an address that ends after its host and port, {example}"
    if parts.scheme == "http" and not is_loopback(host):
        return f"must begin with https://: passkeys and cookies need it, {example}"
    return ""
