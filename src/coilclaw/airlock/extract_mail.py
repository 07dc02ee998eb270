"""One mail made readable, as a program: Google's JSON with the raw message on standard input, JSON on standard output.

It runs as a child with hard limits, like `extract.py`, because it reads hostile bytes: MIME, character sets, HTML. It
imports none of our code but that one file beside it, opens nothing else and starts nothing. No attachment leaves it:
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
    shown: dict[str, Any] = given.get("message") or given
    raw = base64.urlsafe_b64decode(shown["raw"] + "=" * (-len(shown["raw"]) % 4))
    read = {"id": shown.get("id", ""), "thread_id": shown.get("threadId", ""), **read_mail(raw, cap)}
    sys.stdout.write(json.dumps(read))


def read_mail(raw: bytes, cap: int) -> dict[str, Any]:
    """Its headers, its text, what was left out of that, and its attachments."""
    page = _page_reader()
    mail = BytesParser(policy=compat32).parsebytes(raw)
    plain: list[str] = []
    html: list[str] = []
    source: list[tuple[str, str]] = []
    attachments: list[dict[str, Any]] = []
    long = False
    dropped = {"hidden": 0, "images": 0, "scripts": 0, "parts": 0}
    found = list(_parts(mail, dropped))
    for part in found:
        kind, name = part.get_content_type(), line_of(page, part.get_filename() or "")
        data = part.get_payload(decode=True)
        content = data if isinstance(data, bytes) else b""
        inline = not name and part.get_content_disposition() != "attachment"
        if inline and kind in ("text/plain", "text/html"):
            text = page.decode(content[: 8 * cap], f"charset={part.get_content_charset() or 'utf-8'}")
            long = long or len(content) > 8 * cap
            source.append((kind, text))
            if kind == "text/plain":
                plain.append(page.clean(text))
            else:
                html.append(page.mail_text(text, partial(_count, dropped)))
        elif len(attachments) < MOST_ATTACHMENTS:
            digest = hashlib.sha256(content).hexdigest()
            attachments.append({"name": name[:200], "type": kind[:100], "size": len(content), "sha256": digest})
        else:
            dropped["parts"] += 1
    text = "\n\n".join(plain if any(each.strip() for each in plain) else html).strip("\n")
    whole = "\n\n".join(body for _, body in source)
    return {
        "sha256": hashlib.sha256(raw).hexdigest(),
        "size": len(raw),
        "lines": {name: line_of(page, str(mail[name] or "")) for name in _LINES},
        "people": {name: people_of(page, _values(mail, name)) for name in _PEOPLE},
        "references": _IDS.findall(str(mail["References"] or "")[-20_000:])[-20:],
        "text": _cut(text, cap),
        "whole": not long and len(text.encode("utf-8", "replace")) <= cap,
        "source": source if not long and len(whole) <= cap else None,
        "certain": _is_plain(page, mail)
        and all(_is_certain(mail, name) for name in ("to", "cc", "bcc"))
        and all(_reads_alike(page, part) for part in found),
        "attachments": attachments,
        "dropped": dropped,
    }


def _page_reader() -> Any:
    """`extract.py`, which lies beside this file: an isolated child does not find it by name."""
    spec = importlib.util.spec_from_file_location("extract", Path(__file__).with_name("extract.py"))
    assert spec is not None  # noqa: S101 - the file ships with this one
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _parts(mail: Message, dropped: dict[str, int]) -> Iterator[Message]:
    """The leaves in order, without recursion: what is nested too deep, or is too much, is counted."""
    waiting: list[tuple[Message, int]] = [(mail, 0)]
    given = 0
    while waiting:
        part, depth = waiting.pop()
        inner = part.get_payload()
        if not isinstance(inner, list):
            given += 1
            if given > MOST_PARTS:
                dropped["parts"] += 1 + len(waiting)
                return
            yield part
        elif depth >= MOST_DEPTH:
            dropped["parts"] += 1
        else:
            dropped["parts"] += _hides_something(part)
            waiting += [(each, depth + 1) for each in reversed(cast("list[Message]", inner))]


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
    return " ".join(page.clean(_decoded(value)).split())[:HEADER]


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
