"""OpenAI's Responses: one JSON body per request. The server stores nothing; the conversation is sent each time."""

from collections.abc import Callable, Set

import msgspec

from coilclaw.packets.canonical import Json, canonical_bytes
from coilclaw.packets.chat import ChatMessage, ChatRequest, Image, ProposedCall, ToolSpec
from coilclaw.providers.history import PastIds, data_url, past_arguments, past_tool, shown
from coilclaw.providers.remote import Asked, Headers
from coilclaw.providers.responses_answer import ResponsesAnswer


class ResponsesWire:
    """Requests and answers of OpenAI's Responses."""

    speaks = "OpenAI's API or one that speaks its Responses"
    path = "/responses"
    models_path = "/models"
    sees = True
    """Whether an unknown model is assumed to have vision."""

    def headers(self, key: str | None) -> Headers:
        """The credentials header."""
        return (("Authorization", f"Bearer {key}"),) if key else ()

    def body(self, request: ChatRequest, asked: Asked) -> bytes:
        """The body of POST /responses."""
        known, ids = {tool.name for tool in request.tools}, PastIds()
        items = [item for message in request.messages for item in _items(message, known, ids, sees=asked.sees)]
        body: dict[str, Json] = {"model": asked.model, "input": items, "stream": asked.stream, "store": False}
        if request.system_prompt:
            body["instructions"] = request.system_prompt
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            if not request.may_call:
                body["tool_choice"] = "none"
        if asked.temperature is not None:
            body["temperature"] = asked.temperature
        if asked.max_output_tokens is not None:
            body["max_output_tokens"] = asked.max_output_tokens
        return msgspec.json.encode(body)

    def adapt(self, complaint: str) -> bool:
        """There is only one dialect."""
        del complaint
        return False

    def answer(self, on_text: Callable[[str], None] | None) -> ResponsesAnswer:
        """The parser of the answer."""
        return ResponsesAnswer(on_text)


def _items(message: ChatMessage, known: Set[str], ids: PastIds, *, sees: bool) -> list[Json]:
    if message.role == "assistant":
        said: list[Json] = [{"role": "assistant", "content": message.content}] if message.content else []
        return [*said, *(_call(call, known, ids) for call in message.tool_calls)]
    text, images = shown(message, sees=sees and message.role != "system")
    content: Json = _parts(text, images) if images else text
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": ids.answered(message.tool_call_id), "output": content}]
    return [{"role": message.role, "content": content}]


def _parts(text: str, images: tuple[Image, ...]) -> list[Json]:
    parts: list[Json] = [{"type": "input_text", "text": text}] if text else []
    return [*parts, *({"type": "input_image", "image_url": data_url(image)} for image in images)]


def _call(call: ProposedCall, known: Set[str], ids: PastIds) -> Json:
    """A past call without an item id: with an id the API would require the reasoning before it."""
    arguments = canonical_bytes(past_arguments(call)).decode("utf-8", "replace")
    return {
        "type": "function_call",
        "call_id": ids.called(call.call_id),
        "name": past_tool(call, known),
        "arguments": arguments,
    }


def _tool(tool: ToolSpec) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }
