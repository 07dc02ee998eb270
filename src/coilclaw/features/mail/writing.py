"""The tools that write: a draft that answers a message, and sending a draft of the bot's. Each happens once."""

import base64
import hashlib
import re
from functools import partial
from typing import Annotated

import msgspec

from coilclaw.features.mail.google_api import (
    Fetch,
    GmailMessage,
    GoogleId,
    GoogleThread,
    answer,
    done,
    mail_get,
    mail_post,
    read,
)
from coilclaw.features.mail.mail_tool import BOTH, FetchedForCard, Home, MailTool
from coilclaw.features.mail.message_view import MessageView, Person, in_words, view_of
from coilclaw.features.mail.store import drafts_made, is_being_sent
from coilclaw.packets.action import INTERNAL, Identity, Label
from coilclaw.packets.errors import ToolError
from coilclaw.packets.http import FetchRequest
from coilclaw.packets.mail import MailRead
from coilclaw.packets.ports import Context, Recovery, ToolOutput
from coilclaw.packets.touches import Touches
from coilclaw.runtime.mail_reading import read_mail

KEY = "X-CoilClaw-Key"
_OURS = (KEY, "Message-ID")
MOST_RECIPIENTS = 100
BODY = 64 << 10
SHOWN = 256 << 10
"""What a draft's text may have, so that a card shows all of it."""
SUBJECT = 1900
"""The same for its subject; a header is cut a little later."""


class ReplyArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of gmail_create_draft_reply."""

    message_id: Annotated[GoogleId, msgspec.Meta(description="The message to answer, from a search.")]
    body: Annotated[str, msgspec.Meta(description="Plain text.", min_length=1, max_length=BODY)]
    reply_all: Annotated[bool, msgspec.Meta(description="To everybody it went to.")] = False


class SendDraftArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of gmail_send_draft."""

    draft_id: Annotated[GoogleId, msgspec.Meta(description="From gmail_create_draft_reply.")]


class _Draft(msgspec.Struct, frozen=True):
    id: GoogleId
    message: GmailMessage


class DraftReply(MailTool[ReplyArgs]):
    """gmail_create_draft_reply."""

    def __init__(self, home: Home, identity: Identity | None = None) -> None:
        super().__init__(
            home,
            identity,
            DraftReply,
            self.gmail_create_draft_reply,
            ReplyArgs,
            identities=BOTH,
            effect="WRITE",
            always_ask=True,
            touches=self._touch,
            summary=self._sum_up,
        )
        self._shown = FetchedForCard(home, MessageView, f"{identity}:message")

    def parse(self, args: bytes) -> ReplyArgs:
        """The typed arguments; the text has at most 64 KB."""
        wanted = super().parse(args)
        if len(wanted.body.encode("utf-8", "surrogatepass")) > BODY:
            raise msgspec.ValidationError(f"body has more than {BODY} bytes")
        return wanted

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """The draft can be found by its key."""
        return "lookup"

    async def look_ahead(self, args: msgspec.Struct, *, begun: bool) -> None:
        """Fetch whom it would answer."""
        message_id = _reply_args(args).message_id
        found = partial(view_of, google=self.google, identity=self.identity, message_id=message_id)
        await self._shown.refresh(message_id, found, begun=begun)

    async def gmail_create_draft_reply(self, args: ReplyArgs, context: Context) -> ToolOutput:
        """Write a draft that answers a message. Recipients and subject come from that message; nothing is sent."""
        view = msgspec.json.decode(context.inputs[0], type=MessageView)
        raw = self._mail(args, view, context.idempotency_key)
        encoded = base64.urlsafe_b64encode(raw).decode()
        body = msgspec.json.encode({"message": {"raw": encoded, "threadId": view.thread_id}})
        made = await done(context.fetch, self._request(body), _Draft)
        return ToolOutput(  # it counts as ours: no name or address, which a stranger wrote, stands in it
            text=f"The draft is in the mailbox of {self.identity}: draft_id {made.id}. Nothing was sent.",
            label=INTERNAL,
            metadata={"draft_id": made.id, "thread_id": view.thread_id},
        )

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """Whether one of the conversation's messages carries the key."""
        view = msgspec.json.decode(context.inputs[0], type=MessageView)
        try:
            thread = await read(context.fetch, self._look(view.thread_id), GoogleThread)
        except ToolError:
            return None
        key = key_of(context.idempotency_key)
        return any(_carries(message, key) for message in thread.messages)

    def _look(self, thread_id: str) -> FetchRequest:
        return msgspec.structs.replace(
            mail_get(self.google, self.identity, f"/threads/{thread_id}", headers=_OURS, format="metadata"),
            purpose="lookup",
        )

    def _request(self, body: bytes) -> FetchRequest:
        made = mail_post(self.google, self.identity, "/drafts", body, made_later=True)
        return msgspec.structs.replace(made, further=1)

    def _touch(self, args: ReplyArgs) -> Touches:
        view = self._shown(args.message_id)
        if isinstance(view, ToolError):
            return Touches(requests=(self._request(b""),), fault=view, subject=f"a draft of {self.who}")
        to, cc, note = self._recipients(args, view)
        fault = _recipient_fault([*to, *cc])
        lines = [f"A draft in the mailbox of {self.who}. Nothing is sent.", f"To: {in_words(to)}"]
        lines += [f"Cc: {in_words(cc)}"] if cc else []
        lines += [f"Subject: {answered(view.subject)}", *note, "", args.body, "", "In answer to:", view.told]
        return Touches(
            requests=(self._request(b""),),
            subject=f"To {', '.join(address for _, address in (*to, *cc))}",
            says="\n".join(lines),
            content=(msgspec.json.encode(view),),
            foreign=_foreign([*to, *cc], answered(view.subject)),
            fault=fault,
        )

    def _sum_up(self, args: ReplyArgs) -> str:
        return f"As {self.who}: write a draft that answers {'everybody in ' if args.reply_all else ''}a message."

    def _recipients(self, args: ReplyArgs, view: MessageView) -> tuple[list[Person], list[Person], list[str]]:
        """To, Cc and what the owner should know about them; all from the message answered."""
        own = self.mailbox.casefold()
        ours = bool(own) and any(address.casefold() == own for _, address in view.sender)
        to = view.to if ours else view.reply_to or view.sender
        note: list[str] = []
        asked, wrote = ({address.casefold() for _, address in people} for people in (view.reply_to, view.sender))
        if asked and asked != wrote and not ours:
            note.append(f"Note: the answer goes where Reply-To says, not to the sender ({in_words(view.sender)}).")
        cc = [*view.to, *view.cc] if args.reply_all else []
        taken = {own, *(address.casefold() for _, address in to)}
        rest: list[Person] = []
        for shown, address in cc:
            if address and address.casefold() not in taken:
                taken.add(address.casefold())
                rest.append((shown, address))
        return list(to), rest, note

    def _mail(self, args: ReplyArgs, view: MessageView, key: str) -> bytes:
        """The message as bytes: plain text, and headers that cannot be broken out of.

        The older of the standard library's policies writes headers as they are; the newer one decodes RFC 2047 words
        in what it is given, and a line break that a stranger put into one would begin a header.
        """
        from email.header import Header
        from email.message import Message
        from email.policy import compat32

        mail = Message(policy=compat32.clone(linesep="\r\n", max_line_length=990))
        to, cc, _ = self._recipients(args, view)
        mail["To"] = ", ".join(address for _, address in to)
        if cc:
            mail["Cc"] = ", ".join(address for _, address in cc)
        if self.mailbox:
            mail["From"] = self.mailbox
        subject = answered(view.subject)
        plain = subject.isascii() and "=?" not in subject
        mail["Subject"] = subject if plain else Header(subject, "utf-8", header_name="Subject").encode()
        domain = self.mailbox.rpartition("@")[2] or "coilclaw.invalid"
        mail["Message-ID"] = f"<{key_of(key)}@{domain}>"
        mail[KEY] = key_of(key)
        if view.header_id:
            mail["In-Reply-To"] = view.header_id
            mail["References"] = " ".join([*view.references, view.header_id])
        mail["MIME-Version"] = "1.0"
        mail["Content-Type"] = 'text/plain; charset="utf-8"'
        mail["Content-Transfer-Encoding"] = "base64"
        lines = args.body.encode().splitlines()
        mail.set_payload(base64.encodebytes(b"".join(line + b"\r\n" for line in lines)).decode())
        return mail.as_bytes()


class SendDraft(MailTool[SendDraftArgs]):
    """gmail_send_draft."""

    def __init__(self, home: Home, identity: Identity | None = None) -> None:
        super().__init__(
            home,
            identity,
            SendDraft,
            self.gmail_send_draft,
            SendDraftArgs,
            identities=frozenset({"bot"}),
            effect="EXFILTRATION",
            always_ask=True,
            touches=self._touch,
            summary=lambda args: f"As {self.who}: send this mail.",
        )
        self._shown = FetchedForCard(home, MailRead, f"{identity}:draft")

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """A draft that is still there was not sent; one that is gone is looked for among the sent messages."""
        return "lookup"

    async def look_ahead(self, args: msgspec.Struct, *, begun: bool) -> None:
        """Fetch the draft as it is now: that, and nothing else, is what the owner approves."""
        wanted = _send_args(args)

        async def fetch_draft(fetch: Fetch) -> MailRead:
            if is_being_sent(self._home().db.reader, wanted.draft_id):  # looking it up needs what was shown then
                raise ToolError(
                    "An earlier send of this draft is not settled yet.",
                    remedy="Wait until it is: a second one could send it twice.",
                    code="BEING_SENT",
                    begun=False,
                )
            return await read_mail(await answer(fetch, self._draft(wanted)), max_bytes=SHOWN)

        await self._shown.refresh(wanted.draft_id, fetch_draft, begun=begun)

    async def gmail_send_draft(self, args: SendDraftArgs, context: Context) -> ToolOutput:
        """Send one of the bot's drafts, exactly as the owner was shown it."""
        shown = msgspec.json.decode(context.inputs[0], type=MailRead)
        now = await read_mail(await answer(context.fetch, self._draft(args)), max_bytes=SHOWN)
        if now.sha256 != shown.sha256:
            raise ToolError(
                "The draft has changed since it was shown.",
                remedy="Propose it again: the owner sees what it says now.",
                code="DIGEST_CHANGED",
                begun=False,
            )
        sent = await done(context.fetch, self._send(args), GmailMessage)
        return ToolOutput(
            text=f"Sent to {_counted(len(_addresses(shown)))}, as it was shown.",
            label=INTERNAL,
            metadata={"message_id": sent.id, "thread_id": sent.thread_id},
        )

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """Not sent while the draft is there; sent if the conversation has it among its sent messages."""
        wanted = _send_args(args)
        shown = msgspec.json.decode(context.inputs[0], type=MailRead)
        there = msgspec.structs.replace(
            mail_get(self.google, self.identity, f"/drafts/{wanted.draft_id}", format="minimal"), purpose="lookup"
        )
        try:
            await answer(context.fetch, there)
        except ToolError as error:
            if error.code != "NOT_FOUND":
                return None
        else:
            return False
        path = f"/threads/{shown.thread_id}"
        thread = mail_get(self.google, self.identity, path, headers=_OURS, format="metadata")
        try:
            found = await read(context.fetch, msgspec.structs.replace(thread, purpose="lookup"), GoogleThread)
        except ToolError:
            return None
        key, header_id = shown.lines["x-coilclaw-key"], shown.lines["message-id"]
        sent = (message for message in found.messages if "SENT" in message.label_ids)
        return True if any(_carries(message, key, header_id) for message in sent) else None

    def _draft(self, args: SendDraftArgs) -> FetchRequest:
        return mail_get(self.google, self.identity, f"/drafts/{args.draft_id}", further=2, format="raw")

    def _send(self, args: SendDraftArgs) -> FetchRequest:
        return mail_post(self.google, self.identity, "/drafts/send", msgspec.json.encode({"id": args.draft_id}))

    def _touch(self, args: SendDraftArgs) -> Touches:
        mail = self._shown(args.draft_id)
        requests = (self._draft(args), self._send(args))
        if isinstance(mail, ToolError):
            return Touches(requests=requests, fault=mail, subject=f"a draft of {self.who}")
        return Touches(
            requests=requests,
            subject=f"To {', '.join(_addresses(mail))}",
            says=_told(mail, self.who),
            content=(msgspec.json.encode(mail),),
            foreign=_foreign([("", address) for address in _addresses(mail)], mail.lines["subject"]),
            text="\n".join(text for _, text in mail.source or []).strip(),
            labels=self._labels(mail.lines["x-coilclaw-key"]),
            fault=_draft_fault(mail),
        )

    def _labels(self, key: str) -> tuple[Label, ...]:
        """What had a hand in the draft when it was made, in whichever conversation that was."""
        made = drafts_made(self._home().db.reader) if key else []
        return next((taint for idempotency_key, taint in made if key_of(idempotency_key) == key), ())


def key_of(idempotency_key: str) -> str:
    """The key as a message carries it: nothing can be read off it, and it fits a header."""
    return hashlib.sha256(idempotency_key.encode()).hexdigest()[:40]


def answered(subject: str) -> str:
    """The subject of an answer."""
    plain = re.sub(r"(?i)^(?:\s*(?:re|aw|sv)\s*:)+\s*", "", subject)
    return f"Re: {plain}"[:900].rstrip()


def _carries(message: GmailMessage, key: str, header_id: str = "") -> bool:
    """Whether a message has our key, in its own header or in its Message-ID."""
    if key and key in (value.strip() for value in message.values(KEY.lower())):
        return True
    ids = [value.strip() for value in message.values("message-id")]
    return bool(header_id and header_id in ids) or bool(key and any(each.startswith(f"<{key}@") for each in ids))


def _foreign(people: list[Person], subject: str) -> tuple[str, ...]:
    """What the account put into a mail: whom it goes to, and its subject."""
    shown = dict.fromkeys(in_words([person]) if person[0] else person[1] for person in people)
    return (*shown, subject) if subject else tuple(shown)


def _counted(number: int) -> str:
    return "1 person" if number == 1 else f"{number} people"


def _addresses(mail: MailRead) -> list[str]:
    return [address for name in ("to", "cc", "bcc") for _, address in mail.people[name]]


def _told(mail: MailRead, who: str) -> str:
    """All of a draft: nothing that would be sent is left out."""
    lines = [f"Sends this mail as {who}."]
    named = [name for name in ("to", "cc", "bcc", "from", "reply-to") if mail.people[name]]
    lines += [f"{name.capitalize()}: {in_words(mail.people[name])}" for name in named]
    lines.append(f"Subject: {mail.lines['subject']}")
    for each in mail.attachments:
        lines.append(f"Attachment: {each.name or '(no name)'}, {each.type}, {each.size} bytes, sha256 {each.sha256}")
    for kind, text in mail.source or []:
        lines += ["", *(["(HTML, as it is written:)"] if kind == "text/html" else [])]
        lines.append(text.replace("\r\n", "\n").strip("\n"))
    return "\n".join(lines)


def _draft_fault(mail: MailRead) -> ToolError | None:
    """Why a draft is not sent from here: what cannot be shown whole cannot be approved."""
    if mail.source is None or mail.dropped["parts"] or len(mail.lines["subject"]) >= SUBJECT:
        return _refused("The draft is too long or too nested to be shown whole.", "TOO_LARGE")
    if not mail.certain:
        return _refused("The draft has recipients or text that cannot be read reliably.", "BAD_RECIPIENTS")
    return _recipient_fault([("", address) for address in _addresses(mail)])


def _recipient_fault(people: list[Person]) -> ToolError | None:
    if not people or not all(address for _, address in people):
        return _refused("The message has no recipient with a valid address.", "BAD_RECIPIENTS")
    if len(people) > MOST_RECIPIENTS:
        return _refused(f"It would go to {len(people)} people; {MOST_RECIPIENTS} are the limit.", "TOO_MANY_RECIPIENTS")
    return None


def _refused(text: str, code: str) -> ToolError:
    return ToolError(text, remedy="The owner can do it in the mailbox itself.", code=code, begun=False)


def _reply_args(args: msgspec.Struct) -> ReplyArgs:
    assert isinstance(args, ReplyArgs)  # noqa: S101 - only parse() makes them
    return args


def _send_args(args: msgspec.Struct) -> SendDraftArgs:
    assert isinstance(args, SendDraftArgs)  # noqa: S101 - only parse() makes them
    return args
