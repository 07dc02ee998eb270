"""Strict parsing of a boxed process's proxy request. Pure.

Anything that two programs could parse differently is refused.
"""

import re
from typing import Final, Literal, TypeAlias

import msgspec

from coilclaw.airlock.url import Refusal

Method: TypeAlias = Literal["CONNECT", "GET", "HEAD", "POST"]

HEAD_BYTES: Final = 16 << 10
END: Final = b"\r\n\r\n"
_MAX_HEADERS = 100
_LINE = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,8192}) HTTP/1\.([01])\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}):[\t ]*((?:[!-~](?:[\t -~]*[!-~])?)?)[\t ]*\Z")
_PLACE = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?:[1-9][0-9]{0,4}\Z")
_LENGTH = re.compile(r"[0-9]{1,12}\Z")
HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "http2-settings"}
)
"""Hop-by-hop headers; `proxy-…` and those named by Connection are too."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request."""

    method: Method
    url: str
    """The URL to judge: the absolute URI, or https://host:port/ for a CONNECT."""
    hosts: frozenset[str]
    """The Host header, if there is one."""
    length: int
    headers: tuple[tuple[str, str], ...]
    """Only headers for the server: names in lower case, without hop-by-hop headers, host and length."""


def read_head(head: bytes) -> Asked | Refusal:
    """Parse a request head, without its final empty line."""
    first, *lines = head.split(b"\r\n")
    line = _LINE.match(first)
    if not line:
        return Refusal("BAD_REQUEST", "this is not a request to a proxy")
    if len(lines) > _MAX_HEADERS:
        return Refusal("BAD_REQUEST", f"more than {_MAX_HEADERS} headers")
    fields: list[tuple[str, str]] = []
    for each in lines:
        field = _FIELD.match(each)
        if not field:
            return Refusal("BAD_REQUEST", "a header is malformed")
        fields.append((field[1].decode("ascii").lower(), field[2].decode("ascii")))
    url = _url(line[1].decode("ascii"), line[2].decode("ascii"))
    if isinstance(url, Refusal):
        return url
    method, address = url
    framing = _framing(method, fields)
    if isinstance(framing, Refusal):
        return framing
    hosts = [value.lower() for name, value in fields if name == "host"]
    if len(hosts) > 1 or (not hosts and method != "CONNECT" and line[3] == b"1"):
        return Refusal("HOST_HEADER", "a request must have exactly one Host header")
    return Asked(method=method, url=address, hosts=frozenset(hosts), length=framing, headers=_forwarded(fields))


def _url(method: str, target: str) -> tuple[Method, str] | Refusal:
    if method == "CONNECT":
        place = target.lower()
        if not _PLACE.match(place):
            return Refusal("BAD_HOST", "CONNECT takes a host name and a port, as in example.com:443")
        return "CONNECT", f"https://{place}/"
    if method not in ("GET", "HEAD", "POST"):
        return Refusal("METHOD", "only CONNECT, GET, HEAD and POST are allowed")
    if not target.lower().startswith("http://"):
        return Refusal("BAD_REQUEST", "a plain request needs an absolute http:// address; use CONNECT for https")
    return ("GET" if method == "GET" else "HEAD" if method == "HEAD" else "POST"), target


def _framing(method: Method, fields: list[tuple[str, str]]) -> int | Refusal:
    """The length of the body. At most one Content-Length: two framings could hide a second request."""
    lengths = [value for name, value in fields if name == "content-length"]
    if any(name == "transfer-encoding" for name, _ in fields):
        return Refusal("FRAMING", "Transfer-Encoding is not accepted; send a Content-Length")
    if len(lengths) > 1 or (lengths and not _LENGTH.match(lengths[0])):
        return Refusal("FRAMING", "a request must have one plain Content-Length")
    length = int(lengths[0]) if lengths else 0
    if length and method != "POST":
        return Refusal("FRAMING", f"a {method} must not have a body")
    return length


def _forwarded(fields: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    named = {part.strip().lower() for name, value in fields if name == "connection" for part in value.split(",")}
    dropped = HOP_BY_HOP | named | {"host", "content-length"}
    return tuple((name, value) for name, value in fields if name not in dropped and not name.startswith("proxy-"))
