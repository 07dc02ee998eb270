"""Webhook addresses, which act as keys: anyone who knows one can use it. Slashes may be escaped or encoded."""

import re
from typing import NamedTuple

from coilclaw.secrets.encodings import BREAKS, next_line
from coilclaw.secrets.labels import mark
from coilclaw.secrets.stream_engine import LOOKBACK, Hit, More, Window

LONGEST = 2_048
BEFORE = 24
_MOST_LINES = 6
_REST = re.compile(r"[\w.:/\\%@+=~-]*", re.ASCII)
_HALF = re.compile(r"[\w.:/\\%@+=~-]{0,512}", re.ASCII)
_LABEL = re.compile(r"(?:[a-z0-9-]+\.)*([a-z0-9-]+)\Z")
_SLASH = r"(?:\\{0,8}/|%(?:25){0,4}2[fF]){1,4}"
_PART = r"(?:[\w@+=.~-]|\\{0,8}/|%(?:25){0,4}2[fF])"
_PORT = r"(?::\d{1,5})?"
_KEY = rf"(?P<key>{_PART}{{16,2048}})"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_TEAMS = rf"(?P<key>{_UUID}@{_UUID}{_SLASH}IncomingWebhook{_SLASH}[0-9a-fA-F]{{32}}{_SLASH}{_UUID})"
_ESCAPED = re.compile(r"\\{1,8}[rn]")


class _Address(NamedTuple):
    """What a webhook's address looks like from its anchor on; the group `key` is replaced."""

    kind: str
    path: str
    whole: str = ""
    """All of it, where a line end may leave a beginning that would pass for the rest."""


_COM = {
    ("slack", "slack-gov"): _Address("slack", rf"(?:services|workflows|triggers){_SLASH}{_KEY}"),
    ("discord", "discordapp"): _Address(
        "discord", rf"api{_SLASH}(?:v\d+{_SLASH})?webhooks{_SLASH}\d{{10,20}}{_SLASH}{_KEY}"
    ),
    ("office", "office365"): _Address("webhook", rf"webhook(?:b2)?{_SLASH}{_KEY}", rf"webhook(?:b2)?{_SLASH}{_TEAMS}"),
    ("zapier",): _Address("webhook", rf"hooks{_SLASH}(?:catch|standard){_SLASH}(?P<key>\d+{_SLASH}{_PART}{{5,200}})"),
    ("ifttt",): _Address("webhook", rf"trigger{_SLASH}[\w-]+{_SLASH}(?:json{_SLASH})?with{_SLASH}key{_SLASH}{_KEY}"),
    ("make",): _Address("webhook", r"(?P<key>[A-Za-z0-9]{24,200})"),
    ("hc-ping",): _Address("webhook", _KEY),
}
_NTFY = _Address("webhook", rf"\.(?i:sh){_PORT}{_SLASH}(?=[A-Za-z_-]*\d)(?P<key>[\w-]{{8,64}})")
_MATTERMOST = _Address("webhook", rf"hooks{_SLASH}(?=[a-z]*\d)(?P<key>[a-z0-9]{{26}})(?![A-Za-z0-9])")
_ANCHOR = re.compile(r"\.(?:com|COM|sh|SH)[:/\\%]|\.m\.pipedream|hooks")
_PIPEDREAM = re.compile(r"[a-zA-Z0-9]{8,63}\Z")


def is_anchor(text: str, at: int) -> bool:
    """Whether the distinctive part of such an address starts here."""
    return _ANCHOR.match(text, at) is not None


def webhook(window: Window, at: int) -> Hit | None:
    """The part of the address that is its key."""
    text = window.text
    if text.startswith(".m.pipedream.net", at):  # the name of the host is the key
        found = _PIPEDREAM.search(text[max(0, at - LOOKBACK) : at])
        return Hit(at - len(found[0]), at, mark("webhook")) if found else None
    row = _row(text, at)
    if row is None:
        return None
    end = min(window.page.run_end(_REST, at), at + LONGEST)
    if end >= len(text) and not window.final:
        raise More(_REST, at)
    found = re.compile(row.path, re.ASCII).match(text, at, end)  # re caches compiled patterns
    broken = _joined(window, row, at) if found is None or row.whole else None
    if found is None or broken is not None:
        return broken
    start, stop = found.span("key")
    return Hit(start, start + len(text[start:stop].rstrip(".")), mark(row.kind))


def _joined(window: Window, row: _Address, at: int) -> Hit | None:
    """An address that line ends break."""
    pattern = re.compile(row.whole or row.path, re.ASCII)
    joined, places = "", list[tuple[int, int]]()
    for _ in range(_MOST_LINES):
        end, after = _line(window, at)
        places.append((len(joined), at))
        joined += window.text[at:end]
        found = pattern.match(joined) if len(places) > 1 else None
        if found is not None:
            first, last = found.start("key"), found.end("key") - 1
            return Hit(_place(places, first), _place(places, last) + 1, mark(row.kind))
        if after == end:
            break
        at = after
    return None


def _line(window: Window, at: int) -> tuple[int, int]:
    """Where the line that starts here ends, however it is broken, and where the next one starts."""
    end = window.run(_HALF, at)
    escaped = _ESCAPED.search(window.text, at, end)
    if escaped is not None:
        end = escaped.start()
    elif end > at and window.text[end - 1] in "=\\" and window.char(end) in tuple(BREAKS):
        end -= 1
    return end, next_line(window, end)


def _place(places: list[tuple[int, int]], joined: int) -> int:
    """Where in the text a character of the joined lines is."""
    begun, at = next(row for row in reversed(places) if row[0] <= joined)
    return at + joined - begun


def _row(text: str, at: int) -> _Address | None:
    if text[at] == "h":
        return _MATTERMOST
    found = _LABEL.search(text[max(0, at - BEFORE) : at].lower())
    label = found[1] if found else ""
    if text[at + 1] in "sS":
        return _NTFY if label == "ntfy" else None
    host = rf"\.(?i:com){_PORT}{_SLASH}"
    for labels, row in _COM.items():
        if label in labels:
            return row._replace(path=host + row.path, whole=row.whole and host + row.whole)
    return None
