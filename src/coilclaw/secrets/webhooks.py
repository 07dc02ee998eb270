"""Webhook addresses, which act as keys: anyone who knows one can use it. Slashes may be escaped or encoded."""

import re

from coilclaw.secrets.encodings import next_line
from coilclaw.secrets.labels import mark
from coilclaw.secrets.stream_engine import Hit, More, Window

LONGEST = 2_048
BEFORE = 24
_REST = re.compile(r"[\w.:/\\%@+=~-]*", re.ASCII)
_HALF = re.compile(r"[\w.:/\\%@+=~-]{0,512}", re.ASCII)
_LABEL = re.compile(r"(?:[a-z0-9-]+\.)*([a-z0-9-]+)\Z")
_SLASH = r"(?:\\{0,8}/|%(?:25){0,4}2[fF]){1,4}"
_PART = r"(?:[\w@+=.~-]|\\{0,8}/|%(?:25){0,4}2[fF])"
_KEY = rf"(?P<key>{_PART}{{16,2048}})"
_PATHS = {
    ("slack", "slack-gov"): ("slack", rf"(?:services|workflows|triggers){_SLASH}{_KEY}"),
    ("discord", "discordapp"): ("discord", rf"api{_SLASH}(?:v\d+{_SLASH})?webhooks{_SLASH}\d{{10,20}}{_SLASH}{_KEY}"),
    ("office", "office365"): ("webhook", rf"webhook(?:b2)?{_SLASH}{_KEY}"),
    ("zapier",): ("webhook", rf"hooks{_SLASH}(?:catch|standard){_SLASH}(?P<key>\d+{_SLASH}{_PART}{{5,200}})"),
    ("ifttt",): ("webhook", rf"trigger{_SLASH}[\w-]+{_SLASH}(?:json{_SLASH})?with{_SLASH}key{_SLASH}{_KEY}"),
    ("make",): ("webhook", r"(?P<key>[A-Za-z0-9]{24,200})"),
    ("hc-ping",): ("webhook", _KEY),
}


def is_anchor(text: str, at: int) -> bool:
    """Whether a dot may precede the `com` of such an address."""
    return text[at] == "." and text.startswith(("com", "COM"), at + 1)


def webhook(window: Window, at: int) -> Hit | None:
    """The part of the address that is its key."""
    text = window.text
    label = _LABEL.search(text[max(0, at - BEFORE) : at].lower())
    row = _row(label[1]) if label else None
    if row is None:
        return None
    end = min(window.page.run_end(_REST, at), at + LONGEST)
    if end >= len(text) and not window.final:
        raise More(_REST, at)
    found = row[1].match(text, at, end)
    if found is not None:
        start, stop = found.span("key")
        return Hit(start, start + len(text[start:stop].rstrip(".")), mark(row[0]))
    after = next_line(window, end)  # a line may end between its parts
    stop = window.run(_HALF, after) if after > end else end
    found = row[1].match(text[at:end] + text[after:stop])
    if found is None:
        return None
    start, stop = (at + place if at + place < end else after + at + place - end for place in found.span("key"))
    return Hit(start, stop, mark(row[0]))


def _row(label: str) -> tuple[str, re.Pattern[str]] | None:
    for labels, (kind, path) in _PATHS.items():
        if label in labels:
            source = rf"\.(?i:com)(?::\d{{1,5}})?{_SLASH}{path}"
            return kind, re.compile(source, re.ASCII)  # re caches compiled patterns
    return None
