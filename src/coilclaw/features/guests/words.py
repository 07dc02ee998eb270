"""A guest in words: what its card shows, and how an offer differs from the pinned one, word by word."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

import msgspec

from coilclaw.features.guests.names import tool_name
from coilclaw.features.guests.offer import GuestGrant, GuestOffer, OfferedTool, Pin, ToolClass
from coilclaw.packets.canonical import Json
from coilclaw.packets.text import one_line

CLASS_WORDS: dict[ToolClass, str] = {
    "reads": "only reads",
    "writes": "changes something",
    "sends": "tells somebody something",
}
_CLAIMS = {
    "readOnlyHint": "it only reads",
    "destructiveHint": "it may destroy something",
    "idempotentHint": "repeating it changes nothing",
    "openWorldHint": "it reaches the outside world",
}
WORDS_COMPARED = 4000
_INSIDE_A_MARK = re.compile(r"(?<=\[)(?=-)|(?<=-)(?=\])|(?<=\{)(?=\+)|(?<=\+)(?=\})")


def card_text(offer: GuestOffer, classes: dict[str, ToolClass], before: Pin | None) -> str:
    """All that an approval covers; a changed guest begins with what changed."""
    parts = [_changes(before, offer, classes)] if before is not None else []
    return "\n".join([*parts, *_whole(offer, classes)])


def _whole(offer: GuestOffer, classes: dict[str, ToolClass]) -> Iterator[str]:
    yield from grant_words(offer.grant)
    let_in = [tool for tool in offer.tools if tool.original in classes]
    others = [tool for tool in offer.tools if tool.original not in classes]
    for title, tools in (("Tools", let_in), ("Not let in", others)):
        if tools:
            yield f"{title} ({len(tools)}):"
        for tool in tools:
            yield from _tool_words(offer.name, tool, classes.get(tool.original))
    yield from (f"Cannot be let in: {one_line(fault)}" for fault in offer.faults)


def grant_words(grant: GuestGrant) -> Iterator[str]:
    """What a guest is and may do, a sentence a line."""
    if grant.kind == "http":
        yield f"It is reached at {one_line(grant.url)}: everything it is asked leaves this machine."
        for header, secret in grant.headers:
            yield f"It gets the secret {secret} as the header {header}."
        if grant.oauth_hosts:
            scopes = ", ".join(grant.oauth_scopes) or "its default scopes"
            yield f"You sign in to it at {', '.join(grant.oauth_hosts)}, for {one_line(scopes)}."
        return
    if grant.command:
        yield f"It runs {one_line(' '.join(grant.command))} in a box."
    else:
        yield "Each call runs one of its programs in a box."
    yield f"It may reach {', '.join(grant.domains)}." if grant.domains else "It has no network."
    yield f"It gets the secrets {', '.join(grant.env)}." if grant.env else "It gets no secrets."
    yield from (f"It may read {one_line(folder)}." for folder in grant.read)
    yield from (
        f"It may change {one_line(folder)}; that cannot be undone, and your shell, editor and git may run what it"
        " leaves there."
        for folder in grant.write
    )
    named = [word for word in grant.command[1:] if word.startswith("/") and not _is_given(word, grant)]
    if named:  # their folders are mounted as parts of the program
        yield f"It may read the folders of {', '.join(one_line(word) for word in named)}, if they exist."
    if not grant.read and not grant.write:
        yield f"It sees {'no other files of yours' if named else 'none of your files'}."
    if grant.program:
        data = " Other files in those folders may change." if grant.command and (grant.read or grant.write) else ""
        yield f"Program: sha256 {grant.program[:16]}…; if a file of it changes, you are asked again.{data}"


def _is_given(word: str, grant: GuestGrant) -> bool:
    return any(word == folder or word.startswith(f"{folder}/") for folder in (*grant.read, *grant.write))


def claim_words(claims: dict[str, Json]) -> str:
    """What a guest says of a tool, in words."""
    said = [words for key, words in _CLAIMS.items() if claims.get(key) is True]
    return ", ".join(said) or "nothing"


def _tool_words(guest: str, tool: OfferedTool, kind: ToolClass | None) -> Iterator[str]:
    said = "" if kind is None else f"you say it {CLASS_WORDS[kind]}; "
    yield f"  {tool_name(guest, tool.original)}: {said}it claims {claim_words(tool.claims)}"
    yield f"    says: {one_line(tool.description) or '(nothing)'}"
    yield f"    arguments: {one_line(_compact(tool.parameters))}"
    if tool.output is not None:
        yield f"    results: {one_line(_compact(tool.output))}"
    if tool.command:
        yield f"    runs: {one_line(' '.join(tool.command))}"


def _changes(before: Pin, offer: GuestOffer, classes: dict[str, ToolClass]) -> str:
    """What differs from the pin: `[-gone-]` and `{+new+}`."""
    old, new = "\n".join(_whole(before.offer, before.classes)), "\n".join(_whole(offer, classes))
    if old == new:
        return "Nothing visible changed since you approved it.\n"
    lines = [f"  {line}" for line in marked(old, new).split("\n") if "[-" in line or "{+" in line]
    return "\n".join(["What changed since you approved it ([-gone-], {+new+}):", *lines, ""])


def marked(old: str, new: str) -> str:
    """The new text with what went marked `[-…-]` and what came `{+…+}`, word by word; a guest cannot forge a mark."""
    old, new = (_INSIDE_A_MARK.sub(r"\\", text) for text in (old, new))
    before, after = re.findall(r"\S+|\s+", old), re.findall(r"\S+|\s+", new)
    if len(before) + len(after) > WORDS_COMPARED:  # comparing takes the square of it: then by lines
        before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    made: list[str] = []
    for op, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        gone, came = "".join(before[i1:i2]), "".join(after[j1:j2])
        if op == "equal":
            made.append(came)
            continue
        made += [_wrapped(gone, "[-", "-]"), _wrapped(came, "{+", "+}")]
    return "".join(made)


def _wrapped(text: str, left: str, right: str) -> str:
    """Marks on every line of the text, so that each can be shown by itself."""
    return "\n".join(f"{left}{line}{right}" if line.strip() else line for line in text.split("\n")) if text else ""


def _compact(schema: dict[str, Json]) -> str:
    return msgspec.json.encode(schema).decode()
