"""The mock provider: deterministic answers from a script, or from a few built-in rules. Nothing leaves the machine."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.chat import (
    DEFAULT_CONTEXT_WINDOW,
    NOTICE,
    ChatMessage,
    ChatRequest,
    ChatResponse,
    ProposedCall,
    ProviderCapabilities,
    Usage,
)
from coilclaw.packets.errors import ModelOutputError, ProviderError, ProviderRefused, ProviderUnavailable

if TYPE_CHECKING:
    from coilclaw.providers.script import Reply, Script, ScriptedError  # imported only for a script


class MockProvider:
    """Answers from a script; without one, from a plain request in the last user message."""

    def __init__(
        self,
        name: str,
        model: str,
        script: "Script | None",
        *,
        sleep: Callable[[float], Awaitable[None]],
        context_window: int = DEFAULT_CONTEXT_WINDOW,
    ) -> None:
        self.name = name
        self._context_window = context_window
        self._model = model
        self._script = script
        self._sleep = sleep
        self._passed: dict[str, int] = {}
        """Errors and broken outputs already given for a repeated request."""

    def __repr__(self) -> str:
        return f"MockProvider({self.name!r}, {self._model!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """Everything but vision, locally."""
        return ProviderCapabilities(tool_calls=True, streaming=True, local=True, context_window=self._context_window)

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """The next reply for this conversation."""
        if self._script is not None:
            return await self._play(self._script, request, on_text)
        from coilclaw.providers.intent import answer

        text, calls = answer(request)
        _show(words(text), on_text)
        return self._response(request, text, calls, None)

    async def check(self) -> str:
        """Describe what would answer."""
        if self._script is None:
            return "The built-in mock is ready; it needs no network and no key."
        return f"The mock script is ready; it contains {len(self._script.replies)} replies."

    async def _play(
        self, script: "Script", request: ChatRequest, on_text: Callable[[str], None] | None
    ) -> ChatResponse:
        turn = script.turn(last_user(request))
        if not turn:
            raise ProviderRefused(
                f"The script of {self.name} has no reply for this message.",
                remedy='Add a reply without "match", which answers everything else.',
            )
        key = sha256_hex(msgspec.json.encode(request.messages))
        reply = turn[min(position(turn, request) + self._passed.get(key, 0), len(turn) - 1)]
        if reply.passing:
            self._passed[key] = self._passed.get(key, 0) + 1
        else:
            self._passed.pop(key, None)
        if reply.delay:
            await self._sleep(reply.delay)
        if reply.raw is not None:
            _show((reply.raw,), on_text)
            return self._response(request, reply.raw, (), reply.usage)
        pieces = tuple(_filled(piece, request) for piece in reply.pieces)
        _show(words(pieces[0]) if len(pieces) == 1 else pieces, on_text)
        if reply.error is not None:
            raise _error(self.name, reply.error)
        return self._response(request, "".join(pieces), _calls(reply, request), reply.usage)

    def _response(
        self, request: ChatRequest, text: str, calls: tuple[ProposedCall, ...], usage: Usage | None
    ) -> ChatResponse:
        written = text + "".join(call.arguments for call in calls)
        read = request.system_prompt + "".join(message.content for message in request.messages)
        estimate = Usage(input_tokens=len(read) // 4 + 1, output_tokens=len(written) // 4 + 1)
        return ChatResponse(
            final_text=text,
            tool_calls=calls,
            usage=usage or estimate,
            provider=self.name,
            model=request.model or self._model,
        )


def last_user(request: ChatRequest) -> str:
    """The last thing the user said."""
    return next((message.content for message in reversed(request.messages) if _is_owners(message)), "")


def since_last_user(request: ChatRequest) -> tuple[ChatMessage, ...]:
    """The messages of this turn so far."""
    start = max((index for index, message in enumerate(request.messages) if _is_owners(message)), default=-1)
    return request.messages[start + 1 :]


def _is_owners(message: ChatMessage) -> bool:
    """Whether the user wrote it: a message with only notices is the runtime's."""
    return message.role == "user" and not all(part.startswith(NOTICE) for part in message.content.split("\n\n"))


def position(turn: "tuple[Reply, ...]", request: ChatRequest) -> int:
    """The next reply, derived only from the conversation, so that a new process continues where the old one was.

    Each assistant message since the last user message used one reply. Errors leave no message, and raw
    output may not, so those are skipped unless the message is exactly that output.
    """
    place = 0
    for message in since_last_user(request):
        if message.role != "assistant":
            continue
        while place < len(turn) - 1 and turn[place].passing and turn[place].raw != message.content:
            place += 1
        place += 1
    return place


def words(text: str) -> tuple[str, ...]:
    """Text in the pieces in which it is streamed: each word with the space after it."""
    return tuple(re.findall(r"\S+\s*|\s+", text))


def _show(pieces: tuple[str, ...], on_text: Callable[[str], None] | None) -> None:
    if on_text is not None:
        for piece in pieces:
            on_text(piece)


def _filled(text: str, request: ChatRequest) -> str:
    """Replace both placeholders in one pass, so that inserted text is never expanded."""
    results = [message.content for message in since_last_user(request) if message.role == "tool"]
    values = {"{last_user}": last_user(request), "{last_tool_result}": results[-1] if results else ""}
    return re.sub(r"\{last_user\}|\{last_tool_result\}", lambda found: values[found[0]], text)


def _calls(reply: "Reply", request: ChatRequest) -> tuple[ProposedCall, ...]:
    return tuple(
        ProposedCall(
            call_id=call.call_id or f"call_{len(request.messages)}_{index}",
            tool=call.tool,
            arguments=call.arguments,
            justification=call.justification,
        )
        for index, call in enumerate(reply.calls)
    )


def _error(name: str, kind: "ScriptedError") -> ProviderError:
    if kind == "timeout":
        return ProviderUnavailable(f"{name} did not answer in time (scripted).", remedy="Try again.")
    if kind == "unavailable":
        return ProviderUnavailable(f"{name} is not available (scripted).", remedy="Try again later.")
    if kind == "rate_limit":
        return ProviderUnavailable(f"{name} is rate limited (scripted).", remedy="Try again later.", retry_after=1.0)
    if kind == "auth":
        return ProviderRefused(f"{name} refused the key (scripted).", remedy="Put a valid key into its variable.")
    return ModelOutputError(f"{name} sent a response that cannot be read (scripted).")
