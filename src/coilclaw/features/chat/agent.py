"""The turn loop over an open home."""

from functools import partial
from typing import TYPE_CHECKING

from coilclaw.agent.loop import Agent, LoopLimits
from coilclaw.providers.structured import read_structured
from coilclaw.runtime.owner_prompt import owner_prompt
from coilclaw.runtime.tool_specs import offered_tools

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime


def agent_of(runtime: "Runtime", conveyor: "Conveyor") -> Agent:
    """The agent of a home, whose calls go over this conveyor."""
    provider = runtime.provider()
    runtime.observe("provider_selected", {"provider": provider.name})
    bounds = runtime.config.agent
    return Agent(
        db=runtime.db,
        conveyor=conveyor,
        provider=provider,
        model=runtime.config.default_model,
        fallback_model=runtime.config.fallback_model,
        tools=offered_tools(runtime, runtime.allowed_tools),
        owner_prompt=partial(owner_prompt, runtime),
        read_proposal=read_structured,
        estop=runtime.estop,
        clock=runtime.clock,
        limits=LoopLimits(
            max_tool_rounds=bounds.max_tool_rounds,
            turn_token_budget=bounds.turn_token_budget,
            max_message_bytes=bounds.max_message_bytes,
            recent_messages=runtime.config.memory.recent_messages,
            daily_tokens=runtime.config.budgets.daily_tokens,
        ),
        observe=runtime.observe,
        redact=runtime.redact,
        seal=runtime.redactor.registered,
    )
