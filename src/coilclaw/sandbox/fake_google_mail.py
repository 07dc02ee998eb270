"""The mailboxes of `fake_google`: real send semantics, Google's shapes, and nothing it would not do."""

import base64
import hashlib
import html
import itertools
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import SMTP, compat32
from email.utils import formatdate, getaddresses
from typing import Literal, TypeAlias, cast

import msgspec

from coilclaw.packets.canonical import Json

Mood: TypeAlias = Literal["keeps", "renames", "strips"]
"""What sending does to a draft's headers: keeps them, replaces the Message-ID, or drops every `X-` header too."""

MOST_RECIPIENTS = 500
SNIPPET = 200


class MailError(Exception):
    """A refusal in Google's words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class FakeMail(msgspec.Struct, kw_only=True):
    """One message of a mailbox."""

    message_id: str
    thread_id: str
    raw: bytes
    labels: list[str]
    internal_date: int
    draft_id: str = ""

    @property
    def parsed(self) -> Message:
        """Its headers and parts."""
        return BytesParser(policy=compat32).parsebytes(self.raw)

    def header(self, name: str) -> str:
        """The first header of that name, or nothing."""
        return str(self.parsed[name] or "")


def compose(
    *,
    sender: str,
    to: str,
    subject: str,
    text: str = "",
    html: str = "",
    headers: Mapping[str, str] | None = None,
    attachments: Iterable[tuple[str, str, bytes]] = (),
) -> bytes:
    """A well-formed mail as bytes; hostile ones are written by hand."""
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"], mail["Subject"] = sender, to, subject
    mail["Date"] = formatdate(1_790_000_000)
    given = dict(headers or {})
    mail["Message-ID"] = given.pop("Message-ID", f"<{secrets.token_hex(8)}@mail.example>")
    for name, value in given.items():
        mail[name] = value
    mail.set_content(text)
    if html:
        mail.add_alternative(html, subtype="html")
    for name, kind, data in attachments:
        main, _, sub = kind.partition("/")
        mail.add_attachment(data, maintype=main, subtype=sub, filename=name)
    return mail.as_bytes()


class Mailbox:
    """The mail of one address."""

    def __init__(self, address: str, mood: Mood = "keeps") -> None:
        self.address = address
        self.mood: Mood = mood
        self.mails: list[FakeMail] = []
        self.sent: list[FakeMail] = []
        """What went out, in order, never shortened: the count of real effects."""
        self._count = itertools.count(1)

    def add(self, raw: bytes, *, thread_id: str = "", labels: Iterable[str] = ("INBOX", "UNREAD")) -> FakeMail:
        """Put a mail in, as if it had just arrived (or been sent, by its labels)."""
        number = next(self._count)
        message_id = self._new_id("m", number)
        mail = FakeMail(
            message_id=message_id,
            thread_id=thread_id or self._thread_for(raw) or message_id,
            raw=raw,
            labels=list(labels),
            internal_date=1_790_000_000_000 + number * 60_000,
        )
        self.mails.append(mail)
        return mail

    def message(self, message_id: str) -> FakeMail:
        """By its id, or notFound."""
        return self._one(mail for mail in self.mails if mail.message_id == message_id)

    def thread(self, thread_id: str) -> list[FakeMail]:
        """Its messages in order, or notFound."""
        found = [mail for mail in self.mails if mail.thread_id == thread_id]
        if not found:
            raise _not_found()
        return found

    def draft(self, draft_id: str) -> FakeMail:
        """By its id, or notFound."""
        return self._one(mail for mail in self.mails if draft_id and mail.draft_id == draft_id)

    @property
    def drafts(self) -> list[FakeMail]:
        """Every draft, the newest first."""
        return [mail for mail in reversed(self.mails) if mail.draft_id]

    def search(self, query: str) -> list[FakeMail]:
        """Messages that match, the newest first; drafts only when asked for."""
        wanted = [_term(word) for word in re.findall(r'[a-z0-9]+:"[^"]*"|"[^"]*"|\S+', query)]
        plain = not re.search(r"\bin:(draft|anywhere)", query)
        found = [mail for mail in reversed(self.mails) if not (plain and mail.draft_id)]
        return [mail for mail in found if all(term(mail) for term in wanted)]

    def create_draft(self, raw: bytes, thread_id: str) -> FakeMail:
        """Store a draft. One in a thread must answer a message of that thread."""
        parsed = BytesParser(policy=compat32).parsebytes(raw)
        if thread_id:
            known = {mail.header("Message-ID").strip() for mail in self.thread(thread_id)}
            if str(parsed["In-Reply-To"] or "").strip() not in known:
                raise MailError(400, "invalidArgument", "In-Reply-To names no message of that thread")
        mail = self.add(self._from_me(raw), thread_id=thread_id, labels=("DRAFT",))
        mail.draft_id = self._new_id("r", len(self.mails))
        return mail

    def send_draft(self, draft_id: str) -> FakeMail:
        """Send a draft: it is deleted, and the message sent has a new id."""
        draft = self.draft(draft_id)
        people = recipients(draft.parsed)
        if not people:
            raise MailError(400, "invalidArgument", "Recipient address required")
        if len(people) > MOST_RECIPIENTS:
            raise MailError(400, "invalidArgument", "Too many recipients")
        self.mails.remove(draft)
        mail = self.add(self._as_sent(draft.raw), thread_id=draft.thread_id, labels=("SENT",))
        self.sent.append(mail)
        return mail

    def change_draft(self, draft_id: str, raw: bytes) -> None:
        """Replace a draft's content, as its owner does in a browser."""
        draft = self.draft(draft_id)
        draft.raw, draft.message_id = raw, self._new_id("m", next(self._count))

    def delete_draft(self, draft_id: str) -> None:
        """Throw a draft away, as its owner does in a browser."""
        self.mails.remove(self.draft(draft_id))

    def _one(self, found: Iterable[FakeMail]) -> FakeMail:
        mail = next(iter(found), None)
        if mail is None:
            raise _not_found()
        return mail

    def _new_id(self, kind: str, number: int) -> str:
        digest = hashlib.sha256(f"{self.address} {kind} {number}".encode()).hexdigest()[:16]
        return f"r-{int(digest, 16)}" if kind == "r" else digest

    def _thread_for(self, raw: bytes) -> str:
        answered = str(BytesParser(policy=compat32).parsebytes(raw, headersonly=True)["In-Reply-To"] or "").strip()
        return next((mail.thread_id for mail in self.mails if answered and mail.header("Message-ID") == answered), "")

    def _from_me(self, raw: bytes) -> bytes:
        """Nobody sends under another's name: From becomes the account's own address."""
        parsed = BytesParser(policy=compat32).parsebytes(raw)
        if self.address in str(parsed["From"] or ""):
            return raw
        del parsed["From"]
        parsed["From"] = self.address
        return parsed.as_bytes()

    def _as_sent(self, raw: bytes) -> bytes:
        if self.mood == "keeps":
            return raw
        parsed = BytesParser(policy=compat32).parsebytes(raw)
        del parsed["Message-ID"]
        parsed["Message-ID"] = f"<{secrets.token_hex(12)}@mail.gmail.example>"
        if self.mood == "strips":
            for name in [name for name in parsed.keys() if name.lower().startswith("x-")]:  # noqa: SIM118 -- a Message
                del parsed[name]
        return parsed.as_bytes()


def recipients(parsed: Message) -> list[str]:
    """Every address that it would go to."""
    fields = [str(value) for name in ("To", "Cc", "Bcc") for value in parsed.get_all(name, [])]
    return [address for _, address in getaddresses(fields) if address]


def view(mail: FakeMail, form: str, only: list[str] | None = None) -> dict[str, Json]:
    """A message as Google gives it: `minimal`, `metadata`, perhaps with only these headers, `full` or `raw`."""
    shown: dict[str, Json] = {
        "id": mail.message_id,
        "threadId": mail.thread_id,
        "labelIds": list(mail.labels),
        "snippet": snippet(mail),
        "internalDate": str(mail.internal_date),
        "sizeEstimate": len(mail.raw),
    }
    if form == "raw":
        shown["raw"] = base64.urlsafe_b64encode(mail.raw).decode()
    elif form in ("full", "metadata"):
        shown["payload"] = _part(mail.parsed, "", form == "full", only if form == "metadata" else None)
    elif form != "minimal":
        raise MailError(400, "invalidArgument", f"Invalid value for format: {form}")
    return shown


def snippet(mail: FakeMail) -> str:
    """The beginning of its text, as Google cuts it: with entities, as if for a page."""
    for part in mail.parsed.walk():
        if part.get_content_type() == "text/plain" and not part.get_filename():
            data = part.get_payload(decode=True)
            text = data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
            return html.escape(" ".join(text.split())[:SNIPPET])
    return ""


def _part(part: Message, number: str, whole: bool, only: list[str] | None = None) -> dict[str, Json]:
    shown: dict[str, Json] = {
        "partId": number,
        "mimeType": part.get_content_type(),
        "filename": part.get_filename() or "",
        "headers": [
            {"name": name, "value": str(value)} for name, value in part.items() if only is None or name.lower() in only
        ],
        "body": {"size": 0},
    }
    if not whole:
        return shown
    inner = part.get_payload()
    if isinstance(inner, list):
        parts = cast("list[Message]", inner)
        shown["parts"] = [_part(each, f"{number}.{place}".strip("."), whole) for place, each in enumerate(parts)]
        return shown
    data = part.get_payload(decode=True)
    content = data if isinstance(data, bytes) else b""
    if part.get_filename():
        shown["body"] = {"size": len(content), "attachmentId": f"ANGjdJ{number or '0'}"}
    else:
        shown["body"] = {"size": len(content), "data": base64.urlsafe_b64encode(content).decode()}
    return shown


def _term(word: str) -> Callable[[FakeMail], bool]:
    """One word of a search. Operators that the fake does not know are refused: a test must not pass by them."""
    operator, colon, value = word.partition(":")
    value = value.strip('"').lower()
    match operator if colon else "":
        case "":
            plain = word.strip('"').lower()
            return lambda mail: plain in mail.raw.decode("utf-8", "replace").lower()
        case "from" | "to" | "subject":
            return lambda mail: value in mail.header(operator).lower()
        case "rfc822msgid":
            return lambda mail: mail.header("Message-ID").strip("<> ").lower() == value.strip("<>")
        case "in" | "label":
            label = {"draft": "DRAFT", "drafts": "DRAFT"}.get(value, value.upper())
            return lambda mail: value == "anywhere" or label in mail.labels
        case "is":
            return lambda mail: value.upper() in mail.labels
        case _:
            raise MailError(400, "invalidArgument", f"the fake does not know {operator}:")


def _not_found() -> MailError:
    return MailError(404, "notFound", "Requested entity was not found.")
