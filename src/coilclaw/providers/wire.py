"""What is written to an OpenAI-compatible server: one JSON body per request."""

import re
from collections.abc import Set

import msgspec

from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes, parse_object
from coilclaw.packets.chat import ChatMessage, ChatRequest, ProposedCall, ToolSpec


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The points on which servers differ; a server that objects to one is asked again in the other way."""

    usage_in_stream: bool = True
    """Send stream_options to get usage at the end of a stream."""
    limit_key: str = "max_tokens"
    """Newer models only know max_completion_tokens."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider is configured with for every request; the request's own values win."""

    model: str
    temperature: float | None = None
    max_output_tokens: int | None = None


def request_body(request: ChatRequest, options: Options, dialect: Dialect, *, stream: bool) -> bytes:
    """The body of POST /chat/completions."""
    messages: list[Json] = []
    if request.system_prompt:
        messages.append({"role": "system", "content": request.system_prompt})
    known = {tool.name for tool in request.tools}
    messages.extend(_message(message, known) for message in request.messages)
    body: dict[str, Json] = {"model": request.model or options.model, "messages": messages, "stream": stream}
    if stream and dialect.usage_in_stream:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    temperature = options.temperature if request.temperature is None else request.temperature
    if temperature is not None:
        body["temperature"] = temperature
    limit = options.max_output_tokens if request.max_output_tokens is None else request.max_output_tokens
    if limit is not None:
        body[dialect.limit_key] = limit
    return msgspec.json.encode(body)


def other_dialect(dialect: Dialect, complaint: str) -> Dialect | None:
    """The dialect to try after a 400 with this text, or None when the complaint is about something else."""
    if dialect.usage_in_stream and ("stream_options" in complaint or "include_usage" in complaint):
        return msgspec.structs.replace(dialect, usage_in_stream=False)
    if dialect.limit_key == "max_tokens" and "max_completion_tokens" in complaint:
        return msgspec.structs.replace(dialect, limit_key="max_completion_tokens")
    return None


def _message(message: ChatMessage, known: Set[str]) -> Json:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if message.role == "assistant" and message.tool_calls:
        calls: list[Json] = [_call(call, known) for call in message.tool_calls]
        return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    return {"role": message.role, "content": message.content}


def _call(call: ProposedCall, known: Set[str]) -> Json:
    """A past call. One bad name or argument text would make servers refuse this conversation for ever."""
    name = call.tool if call.tool in known else re.sub(r"[^A-Za-z0-9_-]", "_", call.tool)[:64] or "unnamed"
    return {"id": call.call_id, "type": "function", "function": {"name": name, "arguments": _arguments(call)}}


def _arguments(call: ProposedCall) -> str:
    try:
        parse_object(call.arguments)
    except NotCanonical:
        return canonical_bytes({"unreadable_arguments": call.arguments[:2000]}).decode("utf-8", "replace")
    return call.arguments


def _tool(tool: ToolSpec) -> Json:
    function: Json = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
