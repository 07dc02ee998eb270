"""Headers of every response: no framing, no sniffing, no caching, no access from other origins."""

from typing import Any, TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]

_PANEL_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types default coilclaw svelte-trusted-html",
    )
).encode()
_API_POLICY = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"

_OFF = (
    "accelerometer autoplay browsing-topics camera display-capture encrypted-media"
    " fullscreen geolocation gyroscope hid idle-detection local-fonts magnetometer microphone midi payment"
    " picture-in-picture screen-wake-lock serial storage-access usb xr-spatial-tracking"
)
_PERMISSIONS = ", ".join(
    (
        "publickey-credentials-get=(self)",
        "publickey-credentials-create=(self)",
        *(f"{name}=()" for name in _OFF.split()),
    )
).encode()

_EVERYWHERE: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", _PERMISSIONS),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_NEVER = (b"access-control-", b"server", b"x-powered-by")


def _ours(*, panel: bool, secure: bool) -> Headers:
    return [
        (b"content-security-policy", _PANEL_POLICY if panel else _API_POLICY),
        *_EVERYWHERE,
        *((_HSTS,) if secure else ()),
        *(() if panel else ((b"cache-control", b"no-store"),)),
    ]


_SETS = {
    (panel, secure): (ours, frozenset(name for name, _ in ours))
    for panel in (False, True)
    for secure in (False, True)
    for ours in (_ours(panel=panel, secure=secure),)
}


def guarded(found: Headers, *, panel: bool, secure: bool) -> Headers:
    """A response's headers with ours, without any that would open it to other origins."""
    ours, names = _SETS[panel, secure]
    kept = [
        (name, value) for name, value in found if (small := name.lower()) not in names and not small.startswith(_NEVER)
    ]
    return kept + ours


def headers_of(message: Any) -> Headers:
    """The headers of a response's first message."""
    return [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
