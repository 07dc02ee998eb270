"""What goes to a model and what comes back."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.canonical import Json

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class ProposedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call as the model wrote it: the arguments are still unparsed text."""

    call_id: str
    tool: str
    arguments: str
    identity: Literal["user", "bot"] | None = None
    justification: str = ""


def unique_ids(ids: Sequence[str], prefix: str) -> list[str]:
    """The ids of the calls of one answer; a missing or repeated one is made of the prefix and a free number."""
    taken = set(ids)
    named: list[str] = []
    for number, brought in enumerate(ids):
        made = (f"{prefix}_{at}" for at in count(number))
        call_id = brought if brought and brought not in named else next(each for each in made if each not in taken)
        taken.add(call_id)
        named.append(call_id)
    return named


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A picture for a model with vision."""

    data: bytes
    media_type: str
    """Such as `image/png`."""

    def __repr__(self) -> str:
        return f"Image({self.media_type}, {len(self.data)} bytes)"


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation as a provider sees it."""

    role: Role
    content: str
    tool_calls: tuple[ProposedCall, ...] = ()
    tool_call_id: str = ""
    """For role `tool`: which call this answers."""
    images: tuple[Image, ...] = ()
    """Pictures of a `user` or `tool` message; a model without vision gets a line of text instead."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as advertised to the model."""

    name: str
    description: str
    parameters: dict[str, Json]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens spent on one answer."""

    input_tokens: int = 0
    """Everything the model read, cached or not."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """How many of the input tokens came from the provider's cache, at its lower price."""

    @property
    def total(self) -> int:
        """Both directions."""
        return self.input_tokens + self.output_tokens


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a provider needs for one answer."""

    system_prompt: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    model: str
    may_call: bool = True
    """False asks for words alone. The tools are still sent: past calls need them, and the cache begins with them."""
    temperature: float | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] = {}
    """Hints for a router, such as {"hint": "plan"}; docs/providers.md lists them."""


class ChatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: text, proposed calls, or both."""

    final_text: str
    tool_calls: tuple[ProposedCall, ...] = ()
    raw_provider_payload: dict[str, Json] | None = None
    usage: Usage | None = None
    finish_reason: str = ""
    """`stop`, `tool_calls`, `length` (cut by a limit), `refusal`, or the server's own word."""
    provider: str = ""
    model: str = ""
    """Which provider and model actually answered."""


NOTICE = "[runtime notice]"
"""Prefix of what the runtime tells the model in the user's role."""
DEFAULT_CONTEXT_WINDOW = 32_768
"""Tokens assumed for an unknown model: small enough for most."""


class ProviderCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider can do."""

    tool_calls: bool
    streaming: bool
    local: bool
    """True when nothing leaves this machine."""
    sees: bool = False
    """Whether it can take the pictures of a message."""
    context_window: int = DEFAULT_CONTEXT_WINDOW
    """Tokens that a request and its answer may have together."""

    @classmethod
    def shared(cls, each: Iterable["ProviderCapabilities"]) -> "ProviderCapabilities":
        """What all of several providers can do, since any of them may answer; pictures are for those that see."""
        parts = list(each)
        return cls(
            tool_calls=all(one.tool_calls for one in parts),
            streaming=all(one.streaming for one in parts),
            local=all(one.local for one in parts),
            sees=any(one.sees for one in parts),  # one that does not gets a line instead
            context_window=min(one.context_window for one in parts),
        )
