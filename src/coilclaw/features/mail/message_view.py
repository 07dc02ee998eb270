"""The headers of a message that a card shows and an answer is made from."""

import asyncio
import re
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.mail.google_api import Fetch, GmailMessage, mail_get, read
from coilclaw.packets.action import Identity
from coilclaw.runtime.mail_reading import header_line, header_people

if TYPE_CHECKING:
    from coilclaw.config.google import Google

_IDS = re.compile(r"<[!-;=?-~]{1,250}>")
MOST_REFERENCES = 20

Person = tuple[str, str]
"""A name and an address; the address is empty where there is no valid one."""


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """A message without its body. Its sender wrote every word of it."""

    message_id: str
    thread_id: str
    sender: list[Person]
    reply_to: list[Person]
    to: list[Person]
    cc: list[Person]
    subject: str
    date: str
    header_id: str
    """Its Message-ID."""
    references: list[str]

    @property
    def told(self) -> str:
        """In a few lines."""
        return f"From: {in_words(self.sender)}\nDate: {self.date}\nSubject: {self.subject}"


async def view_of(fetch: Fetch, google: "Google", identity: Identity, message_id: str) -> MessageView:
    """Fetch the headers of a message."""
    message = await read(fetch, mail_get(google, identity, f"/messages/{message_id}", format="metadata"), GmailMessage)
    people = await asyncio.to_thread(_people, message)
    lines = {name: header_line(" ".join(message.values(name)[:1])) for name in ("subject", "date")}
    ids = _IDS.findall(" ".join(message.values("message-id"))[:1000])
    earlier = _IDS.findall(" ".join(message.values("references"))[-20_000:])
    return MessageView(
        message_id=message.id,
        thread_id=message.thread_id,
        sender=people["from"],
        reply_to=people["reply-to"],
        to=people["to"],
        cc=people["cc"],
        subject=lines["subject"],
        date=lines["date"],
        header_id=ids[0] if ids else "",
        references=earlier[-MOST_REFERENCES:],
    )


def _people(message: GmailMessage) -> dict[str, list[Person]]:
    return {name: header_people(message.values(name)) for name in ("from", "reply-to", "to", "cc")}


def in_words(people: list[Person]) -> str:
    """Every one of them."""
    return ", ".join(shown if shown == address else f"{shown} <{address or '?'}>" for shown, address in people)
