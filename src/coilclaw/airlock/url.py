"""Strict URL parsing: what is parsed here is what is judged, looked up, dialled and put on the request line.

Nothing is guessed or repaired. A spelling that two programs could parse differently is refused with its remedy.
"""

import re
from typing import Final, Literal, TypeAlias

import msgspec

Scheme: TypeAlias = Literal["http", "https"]
HostKind: TypeAlias = Literal["name", "v4", "v6"]
DEFAULT_PORTS: Final[dict[str, int]] = {"http": 80, "https": 443}

MAX_URL = 8192
MAX_HOST = 253

_ASCII = re.compile(r"[!-~]+\Z")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_NUMBERISH = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_QUAD = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!\Z)|\Z)){4}\Z")
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z")
_UNSENT = re.compile(r"[^!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]")
"""Characters to percent-encode: quotes, angle brackets, braces, bars, carets, and everything beyond ASCII."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a URL or an address is refused: a stable code, and a sentence with what to do instead."""

    code: str
    reason: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A strictly parsed URL. `host` is lower case and is exactly what is resolved, named in TLS and dialled."""

    scheme: Scheme
    host: str
    kind: HostKind
    port: int
    path: str
    """Path and query for the request line, always starting with a slash."""
    explicit: bool = False
    """The owner listed exactly this scheme, host and port; set by the judge, never by the parser."""

    @property
    def authority(self) -> str:
        """The Host header: with the port only if it is not the scheme's default."""
        host = f"[{self.host}]" if self.kind == "v6" else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The one spelling of this target."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """The origin, without the path."""
        return (self.scheme, self.host, self.port)


def parse_url(text: str) -> Target | Refusal:
    """Parse an absolute http or https URL, or say why it is not one."""
    fault = _bad_characters(text)
    if fault:
        return fault
    match = _SCHEME.match(text)
    if not match:
        return Refusal("BAD_URL", "this is not an absolute URL; write https://host/path")
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme not in ("http", "https"):
        return Refusal("SCHEME", f"only https (and listed http) is allowed, not {scheme[:20]}:")
    if not rest.startswith("//"):
        return Refusal("BAD_URL", "the scheme must be followed by two slashes; write https://host/path")
    rest = rest[2:].partition("#")[0]
    cut = min((place for mark in "/?" if (place := rest.find(mark)) >= 0), default=len(rest))
    place = _authority(rest[:cut], DEFAULT_PORTS[scheme])
    if isinstance(place, Refusal):
        return place
    host, kind, port = place
    path = rest[cut:] if rest[cut:].startswith("/") else "/" + rest[cut:]
    return Target(
        scheme="https" if scheme == "https" else "http", host=host, kind=kind, port=port, path=_sendable(path)
    )


def follow(base: Target, location: str) -> Target | Refusal:
    """Where a Location header leads from `base`; the result is parsed as strictly as any other URL."""
    fault = _bad_characters(location)
    if fault:
        return fault
    if _SCHEME.match(location):
        return parse_url(location)
    if location.startswith("//"):
        return parse_url(f"{base.scheme}:{location}")
    origin = f"{base.scheme}://{base.authority}"
    path, mark, query = location.partition("#")[0].partition("?")
    if not path:
        return parse_url(origin + base.path.partition("?")[0] + mark + query) if mark else base
    if not path.startswith("/"):
        path = base.path.partition("?")[0].rpartition("/")[0] + "/" + path
    return parse_url(origin + _without_dots(path) + mark + query)


def _bad_characters(text: str) -> Refusal | None:
    if not text or len(text) > MAX_URL:
        return Refusal("BAD_URL", f"a URL must have between 1 and {MAX_URL} characters")
    if "\\" in text:
        return Refusal("BACKSLASH", "a URL must not contain a backslash; write / or %5C")
    if _ASCII.match(text):
        return None
    import unicodedata

    for char in text:
        if char <= " " or char == "\x7f" or not char.isprintable() or char.isspace():
            return Refusal(
                "CONTROL", f"a URL must not contain spaces or control characters (U+{ord(char):04X}); percent-encode it"
            )
        if char > "~" and any(folded <= "~" and not folded.isalnum() for folded in unicodedata.normalize("NFKC", char)):
            return Refusal(
                "LOOKALIKE", f"U+{ord(char):04X} looks like a delimiter to other programs; percent-encode it"
            )
    return None


def _authority(text: str, default_port: int) -> tuple[str, HostKind, int] | Refusal:
    if not text:
        return Refusal("NO_HOST", "the URL names no host")
    if "@" in text:
        return Refusal("USERINFO", "a user name or password in a URL is refused; credentials go in a header")
    if not text.isascii():
        return Refusal("NON_ASCII_HOST", "write an international host name in its xn-- form")
    if "%" in text:
        return Refusal("BAD_HOST", "a host name is never percent-encoded, and an IPv6 zone is not accepted")
    if text.startswith("["):
        return _bracketed(text, default_port)
    host, colon, digits = text.partition(":")
    port = _port(digits, default_port) if colon else default_port
    if isinstance(port, Refusal):
        return port
    return _host(host.lower(), port)


def _port(digits: str, default_port: int) -> int | Refusal:
    if not digits:
        return Refusal("BAD_PORT", f"the port is empty; omit the colon or write :{default_port}")
    if not _PORT.match(digits) or int(digits) > 65535:
        return Refusal("BAD_PORT", "a port is a plain number from 1 to 65535")
    return int(digits)


def _host(host: str, port: int) -> tuple[str, HostKind, int] | Refusal:
    if not host:
        return Refusal("NO_HOST", "the URL names no host")
    if len(host) > MAX_HOST:
        return Refusal("BAD_HOST", f"a host name has at most {MAX_HOST} characters")
    if host.endswith("."):
        return Refusal("TRAILING_DOT", "write the host name without a trailing dot")
    labels = host.split(".")
    if not all(_LABEL.match(label) for label in labels):
        return Refusal("BAD_HOST", "a host name is letters, digits and inner hyphens, in labels of 1 to 63 characters")
    if _NUMBERISH.match(labels[-1]):
        if _QUAD.match(host):
            return host, "v4", port
        return Refusal(
            "IP_SPELLING", "this host is an IP address in an unusual notation; only decimal a.b.c.d is accepted"
        )
    return host, "name", port


def _bracketed(text: str, default_port: int) -> tuple[str, HostKind, int] | Refusal:
    from coilclaw.airlock.ranges import address_text, parse_address

    inner, bracket, tail = text[1:].partition("]")
    number = parse_address(inner) if bracket and ":" in inner else None
    if number is None:
        return Refusal("BAD_HOST", "the brackets do not contain an IPv6 address")
    if not tail:
        return address_text(*number), "v6", default_port
    if not tail.startswith(":"):
        return Refusal("BAD_HOST", "only a port may follow the closing bracket")
    port = _port(tail[1:], default_port)
    return port if isinstance(port, Refusal) else (address_text(*number), "v6", port)


def _sendable(path: str) -> str:
    """The path in the characters allowed on a request line; encoded parts stay as they are."""
    return _UNSENT.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), path)


def _without_dots(path: str) -> str:
    """RFC 3986 section 5.2.4: `.` and `..` segments resolved, never above the root."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
