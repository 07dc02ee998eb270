"""Chat: the routes of conversations, turns, uploads, artifacts and memory; turns are answered beside the server."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.features.chat.turns import Turns
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def chat_part(serving: "Serving", turns: "Turns | None" = None) -> "Part":
    """The part of the server that one talks to, over turns that somebody else may have made."""
    from coilclaw.features.chat.routes.artifacts import Artifacts
    from coilclaw.features.chat.routes.gateway_chat import GatewayChat
    from coilclaw.features.chat.routes.memory import MemoryRoutes
    from coilclaw.features.chat.routes.messages import ThreadMessages
    from coilclaw.features.chat.routes.threads import Threads
    from coilclaw.features.chat.routes.turns import TurnRoutes
    from coilclaw.features.chat.routes.uploads import UploadRoutes
    from coilclaw.features.chat.turns import Turns
    from coilclaw.features.chat.uploads import Uploads
    from coilclaw.server.part import Part

    if turns is None:
        turns = Turns(serving.runtime, serving.core.conveyor, serving.feed.say_text)
        serving.feed.partials = turns.partials
    return Part(
        controllers=(Threads, ThreadMessages, TurnRoutes, UploadRoutes, Artifacts, MemoryRoutes, GatewayChat),
        given={"turns": turns, "uploads": Uploads(serving.runtime)},
        beside=(turns.start,),
        close=turns.close,
    )


FEATURE = Feature(part=chat_part)
