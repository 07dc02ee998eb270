"""The turn loop over an open home."""

from functools import partial
from typing import TYPE_CHECKING

from coilclaw.agent.loop import Agent, LoopLimits
from coilclaw.features.chat.models import ConversationModels
from coilclaw.providers.structured import read_structured
from coilclaw.runtime.extensions import skills_of
from coilclaw.runtime.owner_prompt import owner_prompt
from coilclaw.runtime.pictures import picture_reader
from coilclaw.runtime.tool_specs import offered_tools

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime


AT_PANEL = (
    "The owner talks to you in the panel, a page that may be open on a phone. What needs approval appears there as a"
    " card, so never ask them to type a command."
)
AT_TERMINAL = "The owner sits at a terminal and is asked there before a call that needs approval."


def agent_of(runtime: "Runtime", conveyor: "Conveyor", where: str = AT_TERMINAL) -> Agent:
    """The agent of a home, whose calls go over this conveyor; `where` the owner is."""
    provider = runtime.provider()
    runtime.observe("provider_selected", {"provider": provider.name})
    bounds = runtime.config.agent
    return Agent(
        db=runtime.db,
        conveyor=conveyor,
        provider=provider,
        model=runtime.config.default_model,
        fallback_model=runtime.config.fallback_model,
        provider_of=ConversationModels(runtime).provider_of,
        tools=offered_tools(runtime, runtime.allowed_tools),
        owner_prompt=partial(owner_prompt, runtime),
        where=where,
        read_proposal=read_structured,
        estop=runtime.estop,
        clock=runtime.clock,
        limits=LoopLimits(
            max_tool_rounds=bounds.max_tool_rounds,
            turn_token_budget=bounds.turn_token_budget,
            max_message_bytes=bounds.max_message_bytes,
            recent_messages=runtime.config.memory.recent_messages,
            context_tokens=bounds.context_tokens,
            daily_tokens=runtime.config.budgets.daily_tokens,
        ),
        observe=runtime.observe,
        redact=runtime.redact,
        seal=runtime.redactor.registered,
        read_picture=partial(picture_reader, runtime),
        skills=skills_of(runtime),
    )
