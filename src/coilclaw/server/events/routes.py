"""GET /v1/events: what happens, as it happens."""

from typing import Annotated

from litestar import Controller, Response, get
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter

from coilclaw.server.door.caller import Caller
from coilclaw.server.events.reader import Reader
from coilclaw.server.events.stream import EventStream, Streams
from coilclaw.server.events.stream_messages import MEDIA_TYPE
from coilclaw.server.events.topics import TOPICS, Topic

_ONE = f"(?:{'|'.join(TOPICS)})"
_LARGEST = (1 << 63) - 1


def _topics(words: str | None) -> list[Topic] | None:
    return None if words is None else [topic for topic in TOPICS if topic in words.split(",")]


class EventsController(Controller):
    """The event stream."""

    path = "/v1/events"
    tags = ("events",)

    @get(
        operation_id="followEvents",
        summary="Event stream",
        media_type=MEDIA_TYPE,
        response_description="Server-Sent Events until either side ends it.",
    )
    async def follow_events(
        self,
        streams: NamedDependency[Streams],
        caller: NamedDependency[Caller],
        topics: Annotated[
            str | None,
            QueryParameter(
                pattern=rf"^{_ONE}(?:,{_ONE}){{0,{len(TOPICS) - 1}}}$",
                description=f"Only events about these, separated by commas: {', '.join(TOPICS)}.",
            ),
        ] = None,
        thread_id: Annotated[
            str | None, QueryParameter(min_length=1, max_length=200, description="Only events of this conversation.")
        ] = None,
        text_of: Annotated[
            str | None,
            QueryParameter(
                min_length=1,
                max_length=200,
                description="Stream text as it is written from this conversation only; `none` for no text at all."
                " Events are not affected. Without it, text of every conversation the stream follows.",
            ),
        ] = None,
        after: Annotated[
            int | None,
            QueryParameter(
                ge=0, le=_LARGEST, description="Start with the events after this number, as Last-Event-ID does."
            ),
        ] = None,
        last_event_id: Annotated[
            str | None,
            HeaderParameter(
                name="Last-Event-ID",
                pattern=r"^[0-9]{0,19}$",
                description="The last `id` that was seen: the stream starts with the events after it. Overrides"
                " `after`.",
            ),
        ] = None,
        follow: Annotated[
            bool,
            QueryParameter(description="Keep the stream open; otherwise it ends after the events so far."),
        ] = True,
    ) -> Response[str]:
        """Everything that happens, from any process, as Server-Sent Events.

        Each message is a StreamMessage: `hello` first, then a LiveEvent under its topic with its number as
        `id`, `text` and `command_output` without a number for the output of models and commands, and `gap` where
        numbers are missing. Reconnecting with `Last-Event-ID` loses and repeats nothing. A comment is sent every
        15 seconds. A client that does not read is disconnected and may reconnect.
        """
        streams.room_for(caller)
        seen = int(last_event_id) if last_event_id else after
        reader = Reader(topics=_topics(topics), thread_id=thread_id, text_of=text_of, seq=min(seen or 0, _LARGEST))
        return EventStream(streams, reader, caller, fresh=seen is None, follow=follow)
