"""Chat: the routes of conversations, turns, uploads, artifacts and memory; turns are answered beside the server."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.features.chat.turns import Turns
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore


def chat_part(serving: "Serving", turns: "Turns | None" = None) -> "Part":
    """The part of the server that one talks to, over turns that somebody else may have made."""
    from coilclaw.features.chat.conversation_context import ConversationContext
    from coilclaw.features.chat.models import ConversationModels
    from coilclaw.features.chat.routes.artifacts import Artifacts
    from coilclaw.features.chat.routes.context import ThreadContext
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
        controllers=(
            Threads,
            ThreadMessages,
            ThreadContext,
            TurnRoutes,
            UploadRoutes,
            Artifacts,
            MemoryRoutes,
            GatewayChat,
        ),
        given={
            "turns": turns,
            "uploads": Uploads(serving.runtime),
            "models": ConversationModels(serving.runtime),
            "context": ConversationContext(serving.runtime, serving.core.conveyor),
        },
        beside=(turns.start,),
        close=turns.close,
    )


def _chores(runtime: "Runtime", conveyor: "Conveyor") -> "tuple[Chore, ...]":
    """A worker goes on with turns whose calls were answered, and with those that a killed process left, where no server
    does, which would stream their text."""
    from coilclaw.server.server_lock import running_address
    from coilclaw.work.worker import Chore

    async def go_on() -> int:
        if running_address(runtime.home.locks_dir) is not None:
            return 0
        from coilclaw.features.chat.turns import Turns

        turns = Turns(runtime, conveyor)
        try:
            return await turns.go_on()
        finally:
            turns.close()

    return (Chore(name="turns", every=1.0, run=go_on),)


FEATURE = Feature(part=chat_part, chores=_chores)
