"""Cuts: where text is left out, what borders the gap may be half of a secret.

A redactor cannot recognise a half, so the words at the gap are removed too: the line it cuts, and the following lines
that may be the rest of a key.
"""

import re

REACH = 4096
"""A line longer than this is taken for one without an end: so much of it goes, which no token outlasts."""
_KEY_LINES = rb"(?:[A-Za-z0-9+/=]{16,}\r?\n|-----END[^\n]*\n)+"
_KEY_REACH = 16_384


def before_gap(data: bytes) -> bytes:
    """What may be shown of the bytes before a gap."""
    end = data.rfind(b"\n", max(0, len(data) - REACH)) + 1
    return data[: end or max(0, len(data) - REACH)]


def after_gap(data: bytes) -> bytes:
    """What may be shown of the bytes behind a gap."""
    end = data.find(b"\n", 0, REACH) + 1
    rest = data[end or REACH :]
    key = re.match(_KEY_LINES, rest[:_KEY_REACH])
    return rest[key.end() :] if key else rest
