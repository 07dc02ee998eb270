"""The tools that read: search, a message in short or in full, the calendar. Everything they bring is untrusted."""

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from coilclaw.features.mail.google_api import (
    LISTED_BYTES,
    GmailMessage,
    GmailPart,
    GoogleId,
    GoogleThread,
    answer,
    mail_get,
    read,
    sender_label,
)
from coilclaw.features.mail.mail_tool import BOTH, FetchedForCard, Home, MailTool
from coilclaw.features.mail.message_view import MessageView, view_of
from coilclaw.packets.action import Identity, Label, untrusted
from coilclaw.packets.errors import ToolError, TryLater
from coilclaw.packets.http import FetchRequest
from coilclaw.packets.mail import MailRead, TextRead
from coilclaw.packets.ports import Context, ToolOutput
from coilclaw.packets.touches import Touches
from coilclaw.runtime.mail_reading import header_line, read_mail, read_texts, sender_addresses

TEXT = 50_000
SNIPPET = 200
DESCRIPTION = 1000
MOST_VALUES = 5
"""Of a header that stands there more than once; one is usual."""
AT_ONCE = 5
NOBODY = "(nobody)"
LONGEST = timedelta(days=366)
_NAMES = "id,threadId,snippet,payload(headers,filename,mimeType,body/size,parts(filename,mimeType,body/size,parts))"

_DROPPED = {
    "hidden": "hidden pieces of text",
    "images": "pictures and frames",
    "scripts": "scripts",
    "parts": "parts",
    "versions": "plain texts that say something else",
}


class SearchThreadsArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of gmail_search_threads."""

    query: Annotated[str, msgspec.Meta(description="As in Gmail's search box.", max_length=500)]
    max_results: Annotated[int, msgspec.Meta(ge=1, le=50)] = 10
    page_token: Annotated[
        str, msgspec.Meta(description="From an earlier result, for more.", pattern=r"^[A-Za-z0-9_-]{0,200}$")
    ] = ""


class MessageArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of gmail_get_snippet and gmail_get_full."""

    message_id: Annotated[GoogleId, msgspec.Meta(description="From a search.")]


class EventsArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of gcal_list_events."""

    time_min: Annotated[str, msgspec.Meta(description="Such as 2026-01-31T00:00:00Z.", max_length=40)]
    time_max: Annotated[str, msgspec.Meta(description="At most 366 days later.", max_length=40)]
    calendar_id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_@#-][A-Za-z0-9_.@#-]{0,199}$")] = "primary"
    query: Annotated[str, msgspec.Meta(max_length=500)] = ""
    max_results: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50


class _Found(msgspec.Struct, frozen=True):
    id: str


class _Listed(msgspec.Struct, frozen=True, rename="camel"):
    threads: list[_Found] = []
    next_page_token: str = ""


class _Unread(NamedTuple):
    """A conversation that could not be read: it is named, and hides no other."""

    id: str
    error: ToolError


_CONCERNS_ALL = frozenset({"RECONNECT", "SCOPE_MISSING", "RATE_LIMITED", "NO_CONNECTION", "UNAVAILABLE", "NOT_GRANTED"})
"""Errors that the next conversation would end with too."""
_SHORT = ("From", "To", "Cc", "Date", "Subject")


class SearchThreads(MailTool[SearchThreadsArgs]):
    """gmail_search_threads."""

    def __init__(self, home: Home, identity: Identity | None = None) -> None:
        super().__init__(
            home,
            identity,
            SearchThreads,
            self.gmail_search_threads,
            SearchThreadsArgs,
            identities=BOTH,
            effect="READ",
            always_ask=False,
            touches=lambda args: Touches(requests=(self._request(args),), subject=f"the mail of {self.who}"),
            summary=lambda args: f"Search the mail of {self.who} for {args.query!r}.",
        )

    def _request(self, args: SearchThreadsArgs) -> FetchRequest:
        asked = mail_get(self.google, self.identity, "/threads", q=args.query, maxResults=str(args.max_results))
        more = f"&pageToken={args.page_token}" if args.page_token else ""
        return msgspec.structs.replace(asked, url=asked.url + more, further=args.max_results)

    async def gmail_search_threads(self, args: SearchThreadsArgs, context: Context) -> ToolOutput:
        """Search a mailbox; returns conversations, the newest first, each with its latest message in short."""
        listed = await read(context.fetch, self._request(args), _Listed)
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(found: _Found) -> GoogleThread | _Unread:
            path = f"/threads/{_plain(found.id)}"
            request = mail_get(self.google, self.identity, path, headers=_SHORT, format="metadata")
            async with limit:
                try:
                    return await read(context.fetch, request, GoogleThread)
                except ToolError as error:
                    if error.code in _CONCERNS_ALL:
                        raise
                    return _Unread(id=found.id, error=error)

        asked = [asyncio.ensure_future(one(found)) for found in listed.threads[: args.max_results]]
        try:
            threads = await asyncio.gather(*asked)
        finally:  # one that failed leaves the others asking, out of reach of whatever stops the call
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        unread = [each for each in threads if isinstance(each, _Unread)]
        if unread and len(unread) == len(threads):
            raise unread[0].error
        return await asyncio.to_thread(_found, threads, listed.next_page_token)


class GetSnippet(MailTool[MessageArgs]):
    """gmail_get_snippet."""

    def __init__(self, home: Home, identity: Identity | None = None) -> None:
        super().__init__(
            home,
            identity,
            GetSnippet,
            self.gmail_get_snippet,
            MessageArgs,
            identities=BOTH,
            effect="READ",
            always_ask=False,
            touches=lambda args: Touches(requests=(self._request(args),), subject=f"the mail of {self.who}"),
            summary=lambda args: f"Look at the message {args.message_id} of {self.who} in short.",
        )

    def _request(self, args: MessageArgs) -> FetchRequest:
        path = f"/messages/{args.message_id}"
        return mail_get(self.google, self.identity, path, format="full", fields=_NAMES)

    async def gmail_get_snippet(self, args: MessageArgs, context: Context) -> ToolOutput:
        """Who wrote a message, when, its subject, the first words, and the names of its attachments."""
        message = await read(context.fetch, self._request(args), GmailMessage)
        return await asyncio.to_thread(_snippet, message)


class GetFull(MailTool[MessageArgs]):
    """gmail_get_full."""

    def __init__(self, home: Home, identity: Identity | None = None) -> None:
        super().__init__(
            home,
            identity,
            GetFull,
            self.gmail_get_full,
            MessageArgs,
            identities=BOTH,
            effect="READ",
            always_ask=True,
            touches=self._touch,
            summary=lambda args: f"Read a whole message of {self.who}.",
        )
        self._shown = FetchedForCard(home, MessageView, f"{identity}:message")

    def _touch(self, args: MessageArgs) -> Touches:
        shown = self._shown(args.message_id)
        fault = shown if isinstance(shown, ToolError) and not isinstance(shown, TryLater) else None
        says = "" if isinstance(shown, ToolError) else f"Reads all of this message:\n{shown.told}"
        return Touches(
            requests=(self._request(args),),
            subject=f"the mail of {self.who}",
            says=says or f"Reads all of the message {args.message_id}.",
            fault=fault,
        )

    async def look_ahead(self, args: msgspec.Struct, *, begun: bool) -> None:
        """Which message it is, for the card."""
        assert isinstance(args, MessageArgs)  # noqa: S101 - only parse() makes them
        message_id = args.message_id
        found = partial(view_of, google=self.google, identity=self.identity, message_id=message_id)
        await self._shown.refresh(message_id, found, begun=begun)

    def _request(self, args: MessageArgs) -> FetchRequest:
        return mail_get(self.google, self.identity, f"/messages/{args.message_id}", format="raw")

    async def gmail_get_full(self, args: MessageArgs, context: Context) -> ToolOutput:
        """Read all of a message's text. Pictures, hidden text and attachments are left out, and named or counted."""
        mail = await read_mail(await answer(context.fetch, self._request(args)), max_bytes=TEXT)
        senders = [address for _, address in mail.people["from"]]
        return ToolOutput(text=_whole(mail), label=sender_label([*senders, *mail.forwarded]))


class ListEvents(MailTool[EventsArgs]):
    """gcal_list_events."""

    def __init__(self, home: Home, identity: Identity | None = None) -> None:
        super().__init__(
            home,
            identity,
            ListEvents,
            self.gcal_list_events,
            EventsArgs,
            identities=frozenset({"user"}),
            effect="READ",
            always_ask=False,
            touches=lambda args: Touches(requests=(self._request(args),), subject=f"the calendar {args.calendar_id}"),
            summary=lambda args: f"List events of {self.who} from {args.time_min} to {args.time_max}.",
        )

    def parse(self, args: bytes) -> EventsArgs:
        """The typed arguments; times need a zone, and lie at most 366 days apart."""
        parsed = super().parse(args)
        begin, end = _moment(parsed.time_min), _moment(parsed.time_max)
        if not timedelta(0) < end - begin <= LONGEST:
            raise msgspec.ValidationError("time_max must lie after time_min, at most 366 days")
        return msgspec.structs.replace(parsed, time_min=_as_google_has_it(begin), time_max=_as_google_has_it(end))

    def _request(self, args: EventsArgs) -> FetchRequest:
        query = {"timeMin": args.time_min, "timeMax": args.time_max, "maxResults": str(args.max_results)}
        query |= {"singleEvents": "true", "orderBy": "startTime"} | ({"q": args.query} if args.query else {})
        path = f"/calendar/v3/calendars/{quote(args.calendar_id, safe='')}/events"
        return FetchRequest(
            purpose="read",
            principal="google",
            identity=self.identity,
            method="GET",
            url=f"{self.google.calendar}{path}?{urlencode(query, quote_via=quote)}",
            max_bytes=LISTED_BYTES,
        )

    async def gcal_list_events(self, args: EventsArgs, context: Context) -> ToolOutput:
        """List what stands in a calendar between two times."""
        found = await read(context.fetch, self._request(args), _Events)
        events = found.items[: args.max_results]
        texts = iter(await read_texts([each.description for each in events if each.description], max_bytes=DESCRIPTION))
        lines = [each.told(next(texts) if each.description else None) for each in events]
        return ToolOutput(text="\n\n".join(lines) or "Nothing in that time.", label=untrusted("gcal"))


class _When(msgspec.Struct, frozen=True, rename="camel"):
    date_time: str = ""
    date: str = ""


class _Person(msgspec.Struct, frozen=True, rename="camel"):
    email: str = ""
    response_status: str = ""


class _Event(msgspec.Struct, frozen=True):
    id: str = ""
    summary: str = ""
    location: str = ""
    description: str = ""
    start: _When = _When()
    end: _When = _When()
    organizer: _Person = _Person()
    attendees: list[_Person] = []

    def told(self, description: TextRead | None) -> str:
        """The event in lines; whoever invited the owner wrote most of it."""
        begin, end = self.start.date_time or self.start.date, self.end.date_time or self.end.date
        lines = [f"{header_line(begin)} to {header_line(end)}: {header_line(self.summary) or '(no title)'}"]
        if self.location:
            lines.append(f"Where: {header_line(self.location)}")
        if self.organizer.email:
            lines.append(f"By: {header_line(self.organizer.email)}")
        if self.attendees:
            lines.append(f"With: {', '.join(header_line(each.email) for each in self.attendees[:20])}")
        if description is not None:
            lines += [line for line in (" ".join(description.text.split()), _left_out(description.dropped)) if line]
        return "\n".join(lines)


class _Events(msgspec.Struct, frozen=True):
    items: list[_Event] = []


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise msgspec.ValidationError(f"{text!r} is not a time such as 2026-01-31T00:00:00Z") from error
    if not 1900 <= moment.year < 9000:
        raise msgspec.ValidationError(f"{text!r} is too far away")
    if moment.tzinfo is None:
        raise msgspec.ValidationError(f"{text!r} has no time zone; write Z or +01:00 at its end")
    return moment


def _as_google_has_it(moment: datetime) -> str:
    """RFC 3339, of which what people and models write is only a relative."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _plain(given: str) -> str:
    """An id that Google gave, which goes into the next address: anything but an id is refused."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", given):
        raise ToolError("Google's answer has an unknown shape.", code="BAD_ANSWER")
    return given


def _found(threads: list[GoogleThread | _Unread], next_page: str) -> ToolOutput:
    """What a search shows. In a thread: reading other people's headers takes its time."""
    more = f"\n\nThere are more: page_token {header_line(next_page)}" if next_page else ""
    shown = [each for each in threads if isinstance(each, _Unread) or each.messages]
    text = "\n\n".join(_thread(each) for each in shown) + more
    senders = _label([message for each in shown if isinstance(each, GoogleThread) for message in each.messages])
    return ToolOutput(text=text or "Nothing found.", label=senders if text else "internal")


def _snippet(message: GmailMessage) -> ToolOutput:
    names = [header_line(name)[:100] for name in _attachments(message.payload)]
    lines = [_in_short(message), f"Attachments: {', '.join(names)}" if names else "No attachments."]
    return ToolOutput(text="\n".join(lines), label=_label([message]))


def _label(messages: list[GmailMessage]) -> Label:
    return sender_label(sender_addresses([",".join(message.values("from")) for message in messages]))


def _in_short(message: GmailMessage) -> str:
    from html import unescape  # what a mail costs nobody pays who reads none

    lines = [f"Message {header_line(message.id)} in conversation {header_line(message.thread_id)}"]
    for name in ("from", "to", "cc", "date", "subject"):
        values = [header_line(value)[:300] for value in message.values(name)[:MOST_VALUES]]
        if values or name == "from":  # which always comes first, so that no text passes for it
            lines.append(f"{name.capitalize()}: {', '.join(values) or NOBODY}")
    first_words = unescape(message.snippet[: 10 * SNIPPET])  # Google writes them with entities, as if for a page
    return "\n".join([*lines, header_line(first_words)[:SNIPPET]])


def _thread(thread: GoogleThread | _Unread) -> str:
    if isinstance(thread, _Unread):
        return f"Conversation {thread.id} could not be read ({thread.error.code})."
    latest = thread.messages[-1]
    count = len(thread.messages)
    earlier = f"\n{count} messages; earlier: {', '.join(header_line(m.id) for m in thread.messages[-6:-1])}"
    return _in_short(latest) + (earlier if count > 1 else "")


def _attachments(part: GmailPart) -> Iterable[str]:
    """The names of the parts that have one, without recursion."""
    waiting, found = [part], list[str]()
    for each in waiting:  # which grows meanwhile
        waiting += each.parts
        if each.filename and len(found) < 100:
            found.append(each.filename)
    return found


def _whole(mail: MailRead) -> str:
    named = [name for name in ("from", "reply-to", "to", "cc") if mail.people[name] or name == "from"]
    lines = [f"Message {header_line(mail.id)} in conversation {header_line(mail.thread_id)}"]
    lines += [f"{name.capitalize()}: {_people(mail, name) or NOBODY}" for name in named]
    lines += [f"{name.capitalize()}: {mail.lines[name]}" for name in ("date", "subject") if mail.lines[name]]
    for each in mail.attachments:
        lines.append(f"Attachment: {each.name or '(no name)'}, {each.type}, {each.size} bytes, sha256 {each.sha256}")
    left = _left_out(mail.dropped)
    if left:
        lines.append(left)
    if not mail.whole:
        lines.append("Only its beginning is shown.")
    return "\n".join([*lines, "", mail.text or "(no text)"])


def _left_out(dropped: dict[str, int]) -> str:
    left = [f"{count} {_DROPPED[kind]}" for kind, count in dropped.items() if count]
    return f"Left out: {', '.join(left)}." if left else ""


def _people(mail: MailRead, name: str) -> str:
    people = [shown if shown == address else f"{shown} <{address or '?'}>" for shown, address in mail.people[name]]
    more = f" and {len(people) - 20} more" if len(people) > 20 else ""
    return ", ".join(people[:20]) + more
