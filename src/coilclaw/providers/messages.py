"""Anthropic's Messages: one JSON body per request, with cache marks at the stable beginning."""

from collections.abc import Callable, Sequence, Set

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatMessage, ChatRequest, Image, ToolSpec
from coilclaw.providers.history import PastIds, base64_text, past_arguments, past_tool, shown
from coilclaw.providers.messages_answer import MessagesAnswer
from coilclaw.providers.remote import Asked, Headers

VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 16_000
"""The API requires a limit. Thinking counts towards it, so a small one would leave no room for an answer."""
_CACHE: Json = {"type": "ephemeral"}
_STABLE_MESSAGES = 2
"""The API allows four marks: the tools and the system prompt have one each."""


class MessagesWire:
    """Requests and answers of Anthropic's Messages."""

    speaks = "Anthropic's API or one that speaks its Messages"
    path = "/messages"
    models_path = "/models?limit=1000"
    sees = True
    """Whether an unknown model is assumed to have vision."""

    def headers(self, key: str | None) -> Headers:
        """The credentials header and the API version."""
        version = ("anthropic-version", VERSION)
        return (("x-api-key", key), version) if key else (version,)

    def body(self, request: ChatRequest, asked: Asked) -> bytes:
        """The body of POST /messages."""
        body: dict[str, Json] = {
            "model": asked.model,
            "max_tokens": asked.max_output_tokens or DEFAULT_MAX_TOKENS,
            "stream": asked.stream,
        }
        if system := _system(request):
            body["system"] = system
        if request.tools:
            body["tools"] = [_tool(tool, last=tool is request.tools[-1]) for tool in request.tools]
            if not request.may_call:
                body["tool_choice"] = {"type": "none"}
        if asked.temperature is not None:
            body["temperature"] = asked.temperature
        body["messages"] = _conversation(request, sees=asked.sees)
        return msgspec.json.encode(body)

    def adapt(self, complaint: str) -> bool:
        """There is only one dialect."""
        del complaint
        return False

    def answer(self, on_text: Callable[[str], None] | None) -> MessagesAnswer:
        """The parser of the answer."""
        return MessagesAnswer(on_text)


def _system(request: ChatRequest) -> list[Json]:
    """The marked system prompt, then the conversation's system messages, which the API does not have."""
    blocks: list[Json] = []
    if request.system_prompt.strip():
        blocks.append({"type": "text", "text": request.system_prompt, "cache_control": _CACHE})
    said = [message.content for message in request.messages if message.role == "system" and message.content.strip()]
    blocks.extend({"type": "text", "text": text} for text in said)
    return blocks


def _tool(tool: ToolSpec, *, last: bool) -> Json:
    made: dict[str, Json] = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
    return {**made, "cache_control": _CACHE} if last else made


def _conversation(request: ChatRequest, *, sees: bool) -> list[Json]:
    """Alternating turns. Results come first in the turn after their calls, as the API requires."""
    known, ids = {tool.name for tool in request.tools}, PastIds()
    turns: list[tuple[str, list[dict[str, Json]]]] = []
    for message in request.messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _assistant(message, known, ids) if role == "assistant" else _said(message, ids, sees=sees)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        elif blocks:
            turns.append((role, blocks))
    if request.tools:  # without tools there is no next round to read the cache
        _mark([blocks for role, blocks in turns if role == "user"])
    return [{"role": role, "content": blocks} for role, blocks in turns]


def _mark(turns: Sequence[list[dict[str, Json]]]) -> None:
    """Mark the last turn for the next request, and the one before it, whose mark this request reads."""
    for blocks in turns[-_STABLE_MESSAGES:]:
        blocks[-1]["cache_control"] = _CACHE


def _assistant(message: ChatMessage, known: Set[str], ids: PastIds) -> list[dict[str, Json]]:
    blocks: list[dict[str, Json]] = [{"type": "text", "text": message.content}] if message.content.strip() else []
    blocks.extend(
        {
            "type": "tool_use",
            "id": ids.called(call.call_id),
            "name": past_tool(call, known),
            "input": past_arguments(call),
        }
        for call in message.tool_calls
    )
    return blocks


def _said(message: ChatMessage, ids: PastIds, *, sees: bool) -> list[dict[str, Json]]:
    text, images = shown(message, sees=sees)
    parts: list[dict[str, Json]] = [{"type": "text", "text": text}] if text.strip() else []
    parts.extend(_picture(image) for image in images)
    if message.role != "tool":
        return parts
    result: dict[str, Json] = {"type": "tool_result", "tool_use_id": ids.answered(message.tool_call_id)}
    return [{**result, "content": parts} if parts else result]


def _picture(image: Image) -> dict[str, Json]:
    source: Json = {"type": "base64", "media_type": image.media_type, "data": base64_text(image)}
    return {"type": "image", "source": source}
