"""One mail made readable, as a program: Google's JSON with the raw message on standard input, JSON on standard output.
Or several texts that may be HTML, as JSON `{"texts": [...]}`.

It runs as a child with hard limits, like `extract.py`, because it reads hostile bytes: MIME, character sets, HTML. It
imports none of our code but two files beside it, opens nothing else and starts nothing. No attachment leaves it:
only names, types, sizes and hashes do.
"""

import base64
import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import getaddresses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

CPU_SECONDS = 15
MEMORY_BYTES = 1 << 30
MOST_DEPTH = 50
MOST_PARTS = 500
MOST_ADDRESSES = 20_000
MOST_ATTACHMENTS = 100
MOST_FORWARDED = 50
HEADER = 2000
ADDRESS = re.compile(
    r"(?!\.|.{0,330}(?:\.\.|\.@|=\?))"  # no dots where none may be, nothing that others would decode
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?"
)
_IDS = re.compile(r"<[!-;=?-~]{1,250}>")
_LINES = ("subject", "date", "message-id", "in-reply-to", "x-coilclaw-key")
_PEOPLE = ("from", "to", "cc", "bcc", "reply-to")
_ONCE = ("content-type", "content-transfer-encoding", "content-disposition")
_NOTE = "This is a multi-part message in MIME format."
_TELLS_OTHERS = (
    "disposition-notification-to",
    "return-receipt-to",
    "x-confirm-reading-to",
    "apparently-to",
    "errors-to",
)
"""Headers that name somebody whom no card shows."""


def main() -> None:
    """Read argv (cap, where the HTML parser is installed) and standard input, write the mail."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cap = int(sys.argv[1])
    sys.path.append(sys.argv[2])
    given: dict[str, Any] = json.load(sys.stdin.buffer)
    if "texts" in given:
        sys.stdout.write(json.dumps([read_text(text, cap) for text in given["texts"]]))
        return
    shown: dict[str, Any] = given.get("message") or given
    raw = base64.urlsafe_b64decode(shown["raw"] + "=" * (-len(shown["raw"]) % 4))
    read = {"id": shown.get("id", ""), "thread_id": shown.get("threadId", ""), **read_mail(raw, cap)}
    sys.stdout.write(json.dumps(read))


def read_text(text: str, cap: int) -> dict[str, Any]:
    """A text that may be HTML, such as the description of an event, and what was left out of it."""
    page, dropped = _beside("extract"), _nothing()
    seen = page.clean(text)
    if re.search(r"<[A-Za-z!/]", text):
        seen = _beside("mail_html").mail_text(page, text, partial(_count, dropped))
    return {"text": _cut(seen, cap), "dropped": dropped}


def _nothing() -> dict[str, int]:
    return {"hidden": 0, "images": 0, "scripts": 0, "parts": 0, "versions": 0}


def read_mail(raw: bytes, cap: int) -> dict[str, Any]:
    """Its headers, its text, what was left out of that, and its attachments."""
    page, html = _beside("extract"), _beside("mail_html")
    mail = BytesParser(policy=compat32).parsebytes(raw)
    texts: list[tuple[int, str, str]] = []
    source: list[tuple[str, str]] = []
    attachments: list[dict[str, Any]] = []
    long = False
    dropped = _nothing()
    forwarded: list[str] = []
    found = list(_parts(mail, dropped, forwarded))
    for part, choice in found:
        kind, name = part.get_content_type(), line_of(page, part.get_filename() or "")
        content = _content(part)
        inline = not name and part.get_content_disposition() != "attachment"
        if inline and kind in ("text/plain", "text/html") and content is not None:
            text = page.decode(content[: 8 * cap], f"charset={part.get_content_charset() or 'utf-8'}")
            long = long or len(content) > 8 * cap
            source.append((kind, text))
            seen = page.clean(text) if kind == "text/plain" else html.mail_text(page, text, partial(_count, dropped))
            texts.append((choice, kind, seen.strip("\n")))
        elif content is not None and len(attachments) < MOST_ATTACHMENTS:
            digest = hashlib.sha256(content).hexdigest()
            attachments.append({"name": name[:200], "type": kind[:100], "size": len(content), "sha256": digest})
        else:
            dropped["parts"] += 1
    text = "\n\n".join(_chosen(texts, dropped))
    whole = "\n\n".join(body for _, body in source)
    return {
        "sha256": hashlib.sha256(raw).hexdigest(),
        "size": len(raw),
        "lines": {name: line_of(page, str(mail[name] or "")) for name in _LINES},
        "people": {name: people_of(page, _values(mail, name)) for name in _PEOPLE},
        "forwarded": _writers(page, forwarded),
        "references": _IDS.findall(str(mail["References"] or "")[-20_000:])[-20:],
        "text": _cut(text, cap),
        "whole": not long and len(text.encode("utf-8", "replace")) <= cap,
        "source": source if not long and len(whole) <= cap else None,
        "certain": _is_plain(page, mail)
        and all(_is_certain(mail, name) for name in ("to", "cc", "bcc"))
        and all(_reads_alike(page, part) for part, _ in found),
        "attachments": attachments,
        "dropped": dropped,
    }


def _beside(name: str) -> Any:
    """A module that lies beside this file: an isolated child does not find it by name."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None  # noqa: S101 - the file ships with this one
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _chosen(texts: list[tuple[int, str, str]], dropped: dict[str, int]) -> list[str]:
    """Every text once. Of versions to choose from the plain one if it says the same as what a reader sees, the HTML:
    programs write "View this mail in a browser" there, and an attacker what nobody else is shown."""
    kinds: dict[int, str] = {}
    for choice in {choice for choice, _, _ in texts if choice}:
        plain, html = (
            _words(" ".join(text for group, kind, text in texts if (group, kind) == (choice, wanted)))
            for wanted in ("text/plain", "text/html")
        )
        same = 2 * len(plain & html) >= len(plain | html)
        kinds[choice] = "text/plain" if plain and (same or not html) else "text/html"
        dropped["versions"] += bool(plain and html and not same)
    return [text for choice, kind, text in texts if kind == kinds.get(choice, kind) and text.strip()]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"https?://\S+", " ", text).lower()))


def _parts(mail: Message, dropped: dict[str, int], forwarded: list[str]) -> Iterator[tuple[Message, int]]:
    """The leaves in order, without recursion: what is nested too deep, or is too much, is counted. Who wrote the
    messages within is noted; one that is attached is a leaf like any other file. With each comes the number of the
    `multipart/alternative` around it, 0 if there is none."""
    waiting: list[tuple[Message, int, int]] = [(mail, 0, 0)]
    given = choices = 0
    while waiting:
        part, depth, choice = waiting.pop()
        inner = part.get_payload()
        if not isinstance(inner, list) or (depth and _is_attached(part)):
            given += 1
            if given > MOST_PARTS:
                dropped["parts"] += 1 + len(waiting)
                return
            yield part, choice
        elif depth >= MOST_DEPTH:
            dropped["parts"] += 1
        else:
            dropped["parts"] += _hides_something(part)
            within = cast("list[Message]", inner)
            if part.get_content_maintype() == "message":
                forwarded += [value[:HEADER] for each in within for value in _values(each, "from")[:1]]
            if part.get_content_subtype() == "alternative":
                choice = choices = choices + 1
            waiting += [(each, depth + 1, choice) for each in reversed(within)]


def _writers(page: Any, values: list[str]) -> list[str]:
    """The addresses in the From of messages within; an empty one for those that are too many."""
    found = [address for value in values[:MOST_FORWARDED] for _, address in people_of(page, [value])]
    return found if len(values) <= MOST_FORWARDED else [*found, ""]


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or bool(part.get_filename())


def _content(part: Message) -> bytes | None:
    """The bytes of a part; of an attached mail the file it would be saved as. None if that is nested too deep."""
    inner = part.get_payload()
    if not isinstance(inner, list):
        data = part.get_payload(decode=True)
        return data if isinstance(data, bytes) else b""
    written = compat32.clone(linesep="\r\n", mangle_from_=False)
    within = cast("list[Message]", inner) if part.get_content_maintype() == "message" else [part]
    try:
        return b"".join(each.as_bytes(policy=written) for each in within)
    except RecursionError:
        return None


def _hides_something(part: Message) -> bool:
    """Whether a part has text around its parts, or headers of its own, like a forwarded message: nobody sees those."""
    around = [(text or "").strip() for text in (part.preamble, part.epilogue)]
    return part.get_content_maintype() == "message" or any(text not in ("", _NOTE) for text in around)


def _count(dropped: dict[str, int], node: "LexborNode") -> None:
    tag = node.tag or ""
    if tag in ("img", "picture", "video", "audio", "svg", "iframe", "object", "embed", "link"):
        dropped["images"] += 1
    elif tag in ("script", "style", "noscript", "template", "meta", "base"):
        dropped["scripts"] += tag == "script"
    elif node.text().strip():
        dropped["hidden"] += 1


def _decoded(value: str) -> str:
    """A header with its RFC 2047 words as text; what cannot be decoded stays as it is."""
    try:
        pieces = decode_header(value[: 4 * HEADER])
        return "".join(
            piece.decode(charset or "ascii", "replace") if isinstance(piece, bytes) else piece
            for piece, charset in pieces
        )
    except (ValueError, LookupError, AssertionError):
        return value
    except Exception as error:  # the standard library's own error for broken base64 is no ValueError
        if type(error).__name__ == "HeaderParseError":
            return value
        raise


def line_of(page: Any, value: str) -> str:
    """A header as one visible line; `page` is the module `extract`."""
    return " ".join(page.clean(_decoded(value[: 4 * HEADER])).split())[:HEADER]


def people_of(page: Any, values: list[str]) -> list[tuple[str, str]]:
    """Every address of a header as name and address; the second is empty where there is no valid one."""
    people: list[tuple[str, str]] = []
    for shown, address in _read_addresses(values)[:MOST_ADDRESSES]:
        valid = address if ADDRESS.fullmatch(address) else ""
        if valid or shown or address:
            people.append((line_of(page, shown or address)[:200], valid))
    return people


def _read_addresses(values: list[str]) -> list[tuple[str, str]]:
    """Every address; the standard library follows nested comments and groups until it falls over, so they are none."""
    try:
        return getaddresses(values)
    except RecursionError:
        return [("(unreadable)", "")]


def _values(mail: Message, name: str) -> list[str]:
    return [str(value).replace("\r", " ").replace("\n", " ") for value in mail.get_all(name, [])]


def _is_plain(page: Any, mail: Message) -> bool:
    """Whether everybody finds the same headers: each that matters at most once, under its very name, and visible."""
    names = [name.lower() for name in mail]
    odd = any(name != name.strip() or name.startswith("resent-") or name in _TELLS_OTHERS for name in names)
    values = [_decoded(value) for name in ("subject", *_PEOPLE) for value in _values(mail, name)]
    seen = all(page.clean(value) == value for value in values)
    return not odd and seen and not mail.defects and all(names.count(name) <= 1 for name in ("subject", *_PEOPLE))


def _reads_alike(page: Any, part: Message) -> bool:
    """Whether every reader takes a part for the same text: one type, one encoding, a known character set that fits."""
    if part.defects or any(len(part.get_all(name, [])) > 1 for name in _ONCE):
        return False
    data = part.get_payload(decode=True)
    if part.get_content_maintype() != "text" or not isinstance(data, bytes):
        return True
    charset = (part.get_content_charset() or "utf-8").lower()
    return bool(page.is_known(charset)) and page.fits(data, charset)


def _is_certain(mail: Message, name: str) -> bool:
    """Whether nobody could read other recipients here than we do: every `@` and every comma belongs to an address."""
    text = ",".join(_values(mail, name))
    found = _read_addresses([text]) if text else []
    plain = re.sub(r'"[^"]*"', "", text)
    if ";" in plain or ":" in plain:  # a group
        return False
    pieces = [piece for piece in plain.split(",") if piece.strip()]
    return all(ADDRESS.fullmatch(address) for _, address in found) and text.count("@") == len(found) == len(pieces)


def _cut(text: str, cap: int) -> str:
    data = text.encode("utf-8", "replace")
    return data.decode() if len(data) <= cap else data[:cap].decode("utf-8", "ignore")


if __name__ == "__main__":
    main()
