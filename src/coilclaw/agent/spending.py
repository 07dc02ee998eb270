"""Spending: what every answer of a model cost, and the day's budget that all work shares."""

import msgspec

from coilclaw.gate.turn import Turn
from coilclaw.packets.chat import ChatRequest, ChatResponse
from coilclaw.packets.errors import BudgetSpent
from coilclaw.packets.ids import Clock
from coilclaw.packets.pictures import PICTURE_TOKENS
from coilclaw.store.tx import Tx
from coilclaw.store.usage import add_usage, day_began, tokens_since

BYTES_PER_TOKEN = 4


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one answer."""

    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    estimated: bool
    """The provider did not say; this was guessed from the length."""
    cached_tokens: int = 0
    """How many of the input tokens came from the provider's cache."""

    @property
    def total(self) -> int:
        """Both directions."""
        return self.input_tokens + self.output_tokens


def spent_on(request: ChatRequest, response: ChatResponse) -> Spent:
    """What an answer cost: as the provider says, else as its length suggests."""
    if response.usage is not None:
        read, written, estimated = response.usage.input_tokens, response.usage.output_tokens, False
    else:
        plain = [
            msgspec.structs.replace(message, images=()) if message.images else message for message in request.messages
        ]
        said = len(msgspec.json.encode(plain)) + len(request.system_prompt.encode("utf-8", "replace"))
        said += sum(len(message.images) for message in request.messages) * PICTURE_TOKENS * BYTES_PER_TOKEN
        if request.tools:
            said += len(msgspec.json.encode(request.tools))
        answered = len(response.final_text.encode("utf-8", "replace"))
        answered += sum(len(call.arguments.encode("utf-8", "replace")) for call in response.tool_calls)
        read, written, estimated = said // BYTES_PER_TOKEN + 1, answered // BYTES_PER_TOKEN + 1, True
    return Spent(
        provider=response.provider,
        model=response.model,
        input_tokens=max(0, read),
        output_tokens=max(0, written),
        estimated=estimated,
        cached_tokens=response.usage.cached_tokens if response.usage is not None else 0,
    )


def write_spent(tx: Tx, clock: Clock, turn: Turn, spent: list[Spent]) -> None:
    """Record what a turn spent."""
    for each in spent:
        add_usage(
            tx,
            clock,
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            job_id=turn.job.job_id if turn.job is not None else None,
            provider=each.provider,
            model=each.model,
            input_tokens=each.input_tokens,
            output_tokens=each.output_tokens,
            estimated=each.estimated,
            cached_tokens=each.cached_tokens,
        )


def check_day(db: Tx, clock: Clock, daily_tokens: int | None) -> None:
    """Refuse when the day's tokens are used up."""
    if daily_tokens is None:
        return
    used = tokens_since(db, day_began(clock()))
    if used >= daily_tokens:
        raise BudgetSpent(
            f"today's budget of {daily_tokens} tokens is used up ({used} since midnight UTC).",
            remedy="Wait for the next day, or raise budgets.daily_tokens.",
        )
