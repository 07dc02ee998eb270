"""Checks across a webhook's values: where it leads, what is sent along, and who else could see it."""

from urllib.parse import SplitResult, urlsplit

from coilclaw.config.faults import Faults
from coilclaw.config.schema import Webhook
from coilclaw.config.tables import KeyPath

TAKEN = frozenset(
    """
    host content-length content-type content-encoding transfer-encoding connection keep-alive te trailer upgrade expect
    accept-encoding
    """.split()  # noqa: SIM905  a dozen quoted words are harder to read
)
"""Headers that the request itself sets or that control transport."""

KEY = "{key}"
"""Placeholder for the idempotency key in a lookup_url."""


def check_webhook(webhook: Webhook, path: KeyPath, faults: Faults) -> None:
    """Record what is wrong with one webhook. Addresses are never repeated: one may contain a password."""
    there = _check_url(webhook.url, (*path, "url"), faults)
    if webhook.lookup_url:
        asked = _check_url(webhook.lookup_url, (*path, "lookup_url"), faults)
        if asked is not None:
            _check_lookup(webhook, asked, there, (*path, "lookup_url"), faults)
    for name, header in (("header", webhook.header), ("key_header", webhook.key_header)):
        if header.lower() in TAKEN or header.lower().startswith("proxy-"):
            faults.note((*path, name), f"{header} is set by the request itself; name another header")
    if webhook.header.lower() == webhook.key_header.lower():
        faults.note((*path, "key_header"), "is also the header of the secret; name another one")


def _check_url(url: str, path: KeyPath, faults: Faults) -> SplitResult | None:
    fault = webhook_url_fault(url)
    if fault:
        faults.note(path, fault)
        return None
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        faults.warn(path, "is not encrypted: anyone on the network path can read it, secrets included; use https")
    return parts


def webhook_url_fault(url: str) -> str:
    """Why a webhook's address cannot be used, or nothing."""
    if not url:
        return "is missing; give the address to send to, such as https://example.com/hook"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "needs an http:// or https:// address with a host, such as https://example.com/hook"
    strange = any(char.isspace() or not char.isprintable() or char == "\\" for char in url)
    if not usable or strange or set("{}") & set(parts.netloc):
        return "needs an http:// or https:// address with a host, such as https://example.com/hook"
    if "@" in parts.netloc:
        return "contains a user name or password; keep it in the variable that secret_env names"
    if "#" in url:
        return "must not contain a #: what follows it is never sent"
    return ""


def _check_lookup(
    webhook: Webhook, asked: SplitResult, there: SplitResult | None, path: KeyPath, faults: Faults
) -> None:
    if KEY not in asked.path and KEY not in asked.query:
        faults.note(path, f"needs {KEY} where the idempotency key belongs, such as https://example.com/hook/{KEY}")
    elif there is not None and webhook.secret_env and _place(asked) != _place(there):
        faults.warn(path, "points to a different origin than url, and receives the secret too")


def _place(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
