"""Addresses: whether a GET repeats a known address or one that the model constructed. Pure.

An address that the model puts together can carry anything it has read. One that stands word for word in the owner's
words, on a page or in search results carries nothing but the choice. An echo must not turn the first into the second:
no longer part of the address may have been written by the model before somebody else wrote it. Comparison looks past
escapes, letter case, compatibility forms and the two spellings of international names.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal, TypeAlias
from urllib.parse import unquote_plus

from coilclaw.airlock.url import Refusal, Target, parse_url
from coilclaw.gate.decision_input import FOLLOWED
from coilclaw.gate.tainted_values import plain
from coilclaw.packets.http import Origin
from coilclaw.store.conversation import Conversation, Said

Place: TypeAlias = Literal["owner", "search", "page"]
"""Where an address appears word for word."""

PAGES, PAGE_LINKS = 5, 64
"""How many of the latest pages count, and how many addresses of each."""
SEARCHES, SEARCH_LINKS = 3, 10
PART = 16
"""From this many characters in a row, a text can carry data."""
_BLOCK = PART // 2
_MOST_HITS = 64
_ROUNDS = 5
_ESCAPES = re.compile("[%+&]")
_URL = re.compile(r"https?://[^\s<>\"'`\\\x00-\x20]+", re.IGNORECASE)
_AFTER = ".,;:!?)]}'\"»*_"
"""Punctuation that more often follows an address in a sentence than belongs to it."""


def origin_of(url: str, talk: Conversation) -> tuple[Origin, int]:
    """Where an address comes from, and how many from there this turn already followed without asking."""
    found = places(url, talk)
    if "owner" in found and not _asked_before(url, talk):
        return "owner", 0
    if not found:
        return "constructed", 0
    if "search" in found and (count := _count("search", talk)) < FOLLOWED["search"]:
        return "search", count
    if found == ("search",):
        return "search", FOLLOWED["search"]
    return "page", _count("page", talk)


def _asked_before(url: str, talk: Conversation) -> bool:
    """Whether this turn requested it before: repeated requests can signal something, too."""
    wanted = parse_url(url)
    return any(parse_url(each.url) == wanted for each in talk.followed)


def _count(place: Place, talk: Conversation) -> int:
    return sum(each.rule == f"address.{place}" for each in talk.followed)


def places(url: str, talk: Conversation) -> tuple[Place, ...]:
    """Every place where an address appears word for word; none when the model composed it."""
    target = parse_url(url)
    if isinstance(target, Refusal):
        return ()
    found = tuple(_standing(target, talk))
    return () if not found or not talk.complete or _written(target, talk.said) else found


def _standing(target: Target, talk: Conversation) -> Iterator[Place]:
    if any(each.writer == "owner" and _named(target, each.text) for each in talk.said):
        yield "owner"
    searches = [each for each in talk.said if each.writer == "search"][-SEARCHES:]
    if any(_is(target, link) for each in searches for link in each.links[:SEARCH_LINKS]):
        yield "search"
    pages = [each for each in talk.said if each.writer == "page"][-PAGES:]
    if any(_on(target, page) for page in pages if not talk.sent or _host(page.url) == target.host):
        yield "page"


def _is(target: Target, text: str) -> bool:
    read = parse_url(text)
    return isinstance(read, Target) and read.url == target.url


def _host(url: str) -> str:
    read = parse_url(url)
    return read.host if isinstance(read, Target) else ""


def _on(target: Target, page: Said) -> bool:
    """Whether an address is among the first of a page."""
    found = dict.fromkeys(match[0] for match in islice(_URL.finditer(page.text), PAGE_LINKS * 8))
    return any(_is(target, each) for text in islice(found, PAGE_LINKS) for each in _spellings(text))


def _spellings(text: str) -> set[str]:
    """An address in a text, with and without what follows it there, as markup or not."""
    bare = text.rstrip(_AFTER)
    return {text, bare, text.replace("&amp;", "&"), bare.replace("&amp;", "&")}


def _named(target: Target, text: str) -> bool:
    """Whether the owner wrote the address; a person leaves `https://` out."""
    for host in {target.host, _decoded(target.host)}:
        if host not in text.casefold():
            continue
        pattern = rf"(?:(?<=://)|(?<![\w.@/-])){re.escape(host)}(?![\w-])[^\s<>\"'`\\]*"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            rest = match[0][len(host) :]
            for each in _spellings(rest):
                read = parse_url(f"{target.scheme}://{target.host}{each}")
                if isinstance(read, Target) and read.url == target.url:
                    return True
    return False


def _decoded(host: str) -> str:
    """A host with its international labels in their own letters."""
    if "xn--" not in host:
        return host
    return ".".join(_label(label) for label in host.split("."))


def _label(label: str) -> str:
    try:
        return label[4:].encode().decode("punycode") if label.startswith("xn--") else label
    except UnicodeError:
        return label


# What the model wrote


def _written(target: Target, said: tuple[Said, ...]) -> bool:
    """Whether the model wrote some longer part of the address before anybody else did."""
    parts = [part for part in _parts(target, said) if len(part) >= PART]
    if not parts:
        return False
    heard: list[str] = []
    waiting: list[str] = []
    for each in said:
        if each.writer != "model":
            waiting.append(each.text)
            continue
        text = _normal(each.text)
        for run in (run for part in parts for run in _runs(part, text)):
            heard += map(_normal, waiting)
            waiting.clear()
            if not _stands(run, heard):
                return True
    return False


def _parts(target: Target, said: tuple[Said, ...]) -> Iterator[str]:
    """What of an address can carry data: path and query as one, the names below a domain, and long names by themselves.

    Short folders are left out where a page of the same host was asked for below them: the host knows them already.
    """
    path, mark, query = target.path.partition("?")
    segments = path.split("/")[1:]
    asked = [page.path.partition("?")[0].split("/")[1:] for page in _pages_of(target.host, said)]
    shared = max((_shared(segments, other) for other in asked), default=0)
    yield _normal("/".join(segments[shared:]) + mark + query)
    for host in {target.host, _decoded(target.host)}:
        labels = host.split(".")
        yield plain(".".join(labels[:-2]))
        yield from (plain(label) for label in labels[-2:])


def _pages_of(host: str, said: tuple[Said, ...]) -> Iterator[Target]:
    for each in said:
        if each.writer == "page" and host in each.url:
            page = parse_url(each.url)
            if isinstance(page, Target) and page.host == host:
                yield page


def _shared(segments: list[str], other: list[str]) -> int:
    count = 0
    for ours, theirs in zip(segments[:-1], other[:-1], strict=False):
        if ours != theirs or len(ours) >= PART:
            break
        count += 1
    return count


def _normal(text: str) -> str:
    """A text normalized for comparison: nothing escaped, one letter case, one spelling."""
    if _ESCAPES.search(text):
        for _ in range(_ROUNDS):
            before, text = text, unquote_plus(text.replace("&amp;", "&"))
            if text == before:
                break
    return plain(text)


def _runs(part: str, text: str) -> Iterator[str]:
    """Stretches of a part that stand in a text and can carry data. Each holds one of the part's blocks whole."""
    for start in range(0, len(part) - _BLOCK + 1, _BLOCK):
        block = part[start : start + _BLOCK]
        at = text.find(block)
        for _ in range(_MOST_HITS):
            if at < 0:
                break
            run = _around(part, start, text, at)
            if len(run) >= PART:
                yield run
            at = text.find(block, at + 1)
        else:
            yield part  # too often to tell


def _around(part: str, start: int, text: str, at: int) -> str:
    """The longest stretch around a position that both texts share."""
    left = 0
    while left < min(start, at) and part[start - left - 1] == text[at - left - 1]:
        left += 1
    right = _BLOCK
    most = min(len(part) - start, len(text) - at)
    while right < most and part[start + right] == text[at + right]:
        right += 1
    return part[start - left : start + right]


def _stands(run: str, heard: list[str]) -> bool:
    """Whether others wrote all of it: as a whole, or every stretch of it that could carry data."""
    if any(run in text for text in heard):
        return True
    windows = (run[at : at + PART] for at in range(len(run) - PART + 1))
    return len(run) < _MOST_HITS * 4 and all(any(window in text for text in heard) for window in windows)
