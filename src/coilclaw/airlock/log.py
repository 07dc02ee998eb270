"""The log line of every request: who went where and what came back, never a path, a query, a header or a body."""

from typing import Literal

import msgspec

from coilclaw.packets.http import Principal


class EgressLine(msgspec.Struct, frozen=True, kw_only=True):
    """One hop of one request."""

    time: str
    principal: Principal
    host: str
    """Empty if the URL could not be parsed: its text is not repeated."""
    port: int
    verdict: Literal["pass", "block"]
    code: str
    """How it ended: OK, REDIRECTED, PARTIAL, TIMEOUT, NO_CONNECTION, BROKEN, CAPPED, CANCELLED, or what blocked it."""
    status: int
    """0 if there was no response."""
    bytes: int
    """Of the decoded body that was returned."""
    sha256: str
    """Of those bytes; empty if none were read."""


def line_json(line: EgressLine) -> bytes:
    """One line of JSON, without its newline."""
    return msgspec.json.encode(line)
