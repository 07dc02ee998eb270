"""The event stream as a part of the server."""

from coilclaw.packets.ids import stamp
from coilclaw.server.door.caller import Caller
from coilclaw.server.events.routes import EventsController
from coilclaw.server.events.stream import Streams
from coilclaw.server.part import Part
from coilclaw.server.serving import Serving
from coilclaw.store.devices import token_holds


def events_part(serving: Serving) -> Part:
    """The routes of events. A device revoked by this process is disconnected at once; one revoked by another process
    within a second."""
    runtime = serving.runtime

    def still_valid(caller: Caller) -> bool:
        return token_holds(runtime.db.reader, caller.token_id, stamp(runtime.clock()))

    streams = Streams(serving.feed, still_valid=still_valid, most=runtime.config.server.max_streams)
    serving.on_revoked(lambda _: streams.check())
    return Part(controllers=(EventsController,), given={"streams": streams})
