"""What goes to a model and what comes back."""

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


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation as a provider sees it."""

    role: Role
    content: str
    tool_calls: tuple[ProposedCall, ...] = ()
    tool_call_id: str = ""
    """For role `tool`: which call this answers."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as advertised to the model."""

    name: str
    description: str
    parameters: dict[str, Json]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens spent on one answer."""

    input_tokens: int = 0
    output_tokens: int = 0

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
    temperature: float | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] = {}
    """Hints for a router, such as {"hint": "plan"}."""


class ChatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: text, proposed calls, or both."""

    final_text: str
    tool_calls: tuple[ProposedCall, ...] = ()
    raw_provider_payload: dict[str, Json] | None = None
    usage: Usage | None = None
    finish_reason: str = ""
    provider: str = ""
    model: str = ""
    """Which provider and model really answered."""


class ProviderCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider can do."""

    tool_calls: bool
    streaming: bool
    local: bool
    """True when nothing leaves this machine."""
