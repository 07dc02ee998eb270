"""How full the model's window is with a conversation, and summing up its oldest part on the owner's word."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.chat.store.turns import count_open
from coilclaw.packets.errors import Conflict

if TYPE_CHECKING:
    from coilclaw.agent.loop import Agent
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime


class ContextUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the model reads with the next message of a conversation, in about so many tokens."""

    window: int
    """What fits, with the answer."""
    used: int
    """Of all of it together."""
    prompt: int
    tools: int
    messages: int
    summarised: int
    """How many messages a summary stands for."""


class ConversationContext:
    """The context of the conversations of a served home."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._conveyor = conveyor
        self._compacting: set[str] = set()

    def use(self, thread_id: str) -> ContextUse:
        """How full the window is."""
        return self._use(self._agent(), thread_id)

    async def compact(self, thread_id: str) -> ContextUse:
        """Have the oldest part summed up now, unless an answer is being given; how full the window is then."""
        from coilclaw.agent.spending import check_day

        if thread_id in self._compacting or count_open(self._app.db.reader, thread_id)[0]:
            raise Conflict("this conversation is being worked on.", remedy="Wait for it, or stop the answer.")
        check_day(self._app.db.reader, self._app.clock, self._app.config.budgets.daily_tokens)
        agent = self._agent()
        self._compacting.add(thread_id)
        try:
            await agent.compact(thread_id)
        finally:
            self._compacting.discard(thread_id)
        return self._use(agent, thread_id)

    def _agent(self) -> "Agent":
        from coilclaw.features.chat.agent import AT_PANEL, agent_of
        from coilclaw.features.chat.turns import NOBODY_THERE

        return agent_of(self._app, self._conveyor, AT_PANEL).without(NOBODY_THERE)

    def _use(self, agent: "Agent", thread_id: str) -> ContextUse:
        use = agent.context_use(thread_id)
        return ContextUse(
            window=use.window,
            used=use.prompt + use.tools + use.messages,
            prompt=use.prompt,
            tools=use.tools,
            messages=use.messages,
            summarised=use.summarised,
        )
