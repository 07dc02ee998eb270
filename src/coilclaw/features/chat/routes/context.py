"""The context of a conversation: how full the model's window is, and having its oldest part summed up."""

from typing import Annotated

from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import PathParameter

from coilclaw.features.chat.conversation_context import ContextUse, ConversationContext
from coilclaw.features.chat.routes.lookups import found_thread
from coilclaw.server.core import Core
from coilclaw.server.problems import problems

ThreadId = Annotated[str, PathParameter(max_length=100, description="The conversation.")]


class ThreadContext(Controller):
    """What the model reads of a conversation."""

    path = "/v1/chat/threads/{thread_id:str}"
    tags = ("chat",)

    @get("/context", operation_id="getContext", summary="How full the window is", responses=problems(404))
    async def use(
        self, core: NamedDependency[Core], context: NamedDependency[ConversationContext], thread_id: ThreadId
    ) -> ContextUse:
        """How full the model's window is with a conversation, by about how many tokens."""
        return context.use(found_thread(core, thread_id))

    @post(
        "/compact",
        operation_id="compactThread",
        summary="Sum up the oldest part",
        responses=problems(404, 409),
        status_code=200,
    )
    async def compact(
        self, core: NamedDependency[Core], context: NamedDependency[ConversationContext], thread_id: ThreadId
    ) -> ContextUse:
        """Have the model sum up the oldest part of a conversation now, full or not. Nothing is deleted: the summary is
        what the model reads in its place. Refused while an answer is being given."""
        return await context.compact(found_thread(core, thread_id))
