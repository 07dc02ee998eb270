"""The event stream, put together from an App."""

from coilclaw.app.fronts.front import Front
from coilclaw.packets.ids import stamp
from coilclaw.server.entry.caller import Caller
from coilclaw.server.events.feed import Feed
from coilclaw.server.events.stream import Streams
from coilclaw.server.part import Part
from coilclaw.server.routes.events import EventsController
from coilclaw.store.devices import token_holds


def make_feed(front: Front) -> Feed:
    """The feed of a process: one, shared by the streams and by whoever has text to say."""
    return Feed(front.app.db, front.app.clock, front.app.redactor)


def events_part(front: Front, feed: Feed | None = None) -> Part:
    """The routes of events, over a feed that others may hold too; over one of their own without."""
    app = front.app

    def still_valid(caller: Caller) -> bool:
        return token_holds(app.db.reader, caller.token_id, stamp(app.clock()))

    streams = Streams(feed or make_feed(front), still_valid=still_valid, most=app.config.server.max_streams)
    return Part(controllers=(EventsController,), given={"streams": streams})
