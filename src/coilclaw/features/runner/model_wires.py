"""The wires that coding programs speak to their models: which requests pass, and with what in them. Pure.

A body is read and written anew. Fields we do not know are left out, because a provider does more for some of them than
answer: its hosted tools, and content that it fetches by address, would be a way out of a box without network.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from coilclaw.config import AnthropicModel, GoogleModel, OpenAIModel, ResponsesModel, ServerModel
from coilclaw.features.runner.model_http import BadHttp
from coilclaw.packets.canonical import Json

SessionWire: TypeAlias = Literal["responses", "messages", "generate", "completions"]
Body: TypeAlias = dict[str, Json]

_MARKS: Final = 1_500_000
"""Brackets and commas of one body: more of them would take hundreds of megabytes to read."""
_VERSION = "2023-06-01"


class ModelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that may be asked of a model's server."""

    method: Literal["GET", "POST"]
    path: re.Pattern[str]
    """Path and query as a program sends them, whole."""
    to: str
    """Where it goes under the provider's base URL; `{}` is the model in the path."""
    fields: frozenset[str] = frozenset()
    """The fields of its body that are passed on."""
    answers: bool = False
    """Whether it makes the model answer, which costs tokens."""


_RESPONSES = frozenset(
    {
        "model",
        "instructions",
        "input",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
        "store",
        "stream",
        "stream_options",
        "include",
        "prompt_cache_key",
        "text",
        "client_metadata",
        "metadata",
        "max_output_tokens",
        "temperature",
        "top_p",
        "truncation",
    }
)
_COUNTED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "thinking", "context_management", "output_config"}
)
_MESSAGES = _COUNTED | frozenset(
    {"max_tokens", "metadata", "stop_sequences", "stream", "temperature", "top_k", "top_p", "output_format"}
)
_GENERATE = frozenset(
    {
        "contents",
        "systemInstruction",
        "system_instruction",
        "tools",
        "toolConfig",
        "tool_config",
        "safetySettings",
        "safety_settings",
        "generationConfig",
        "generation_config",
    }
)
_COMPLETIONS = frozenset({"model", "messages", "tools", "max_tokens", "temperature", "stream"})
_M = r"([A-Za-z0-9][A-Za-z0-9._-]{0,127})"

ROUTES: Final[dict[SessionWire, tuple[ModelRoute, ...]]] = {
    "responses": (
        ModelRoute(method="GET", path=re.compile(r"/v1/models(?:\?client_version=[0-9A-Za-z.-]{1,64})?"), to="/models"),
        ModelRoute(method="POST", path=re.compile("/v1/responses"), to="/responses", fields=_RESPONSES, answers=True),
    ),
    "messages": (
        ModelRoute(
            method="POST",
            path=re.compile(r"/v1/messages(?:\?beta=true)?"),
            to="/messages?beta=true",
            fields=_MESSAGES,
            answers=True,
        ),
        ModelRoute(
            method="POST",
            path=re.compile(r"/v1/messages/count_tokens(?:\?beta=true)?"),
            to="/messages/count_tokens?beta=true",
            fields=_COUNTED,
        ),
    ),
    "generate": (
        ModelRoute(
            method="POST",
            path=re.compile(rf"/v1beta/models/{_M}:generateContent"),
            to="/models/{}:generateContent",
            fields=_GENERATE,
            answers=True,
        ),
        ModelRoute(
            method="POST",
            path=re.compile(rf"/v1beta/models/{_M}:streamGenerateContent\?alt=sse"),
            to="/models/{}:streamGenerateContent?alt=sse",
            fields=_GENERATE,
            answers=True,
        ),
        ModelRoute(
            method="POST",
            path=re.compile(rf"/v1beta/models/{_M}:countTokens"),
            to="/models/{}:countTokens",
            fields=frozenset({"contents"}),
        ),
    ),
    "completions": (
        ModelRoute(
            method="POST",
            path=re.compile("/v1/chat/completions"),
            to="/chat/completions",
            fields=_COMPLETIONS,
            answers=True,
        ),
    ),
}
KINDS: Final[dict[SessionWire, tuple[type[ServerModel], str]]] = {
    "responses": (ResponsesModel, "openai-responses"),
    "messages": (AnthropicModel, "anthropic"),
    "generate": (GoogleModel, "google"),
    "completions": (OpenAIModel, "openai-compatible"),
}
"""The providers that speak a wire, and how config.toml calls them."""
_KEPT_HEADERS: Final[dict[SessionWire, tuple[tuple[str, re.Pattern[str]], ...]]] = {
    "responses": (("openai-beta", re.compile(r"[a-z0-9=,._ -]{1,500}")),),
    "messages": (
        ("anthropic-version", re.compile(r"\d{4}-\d\d-\d\d")),
        ("anthropic-beta", re.compile(r"[a-z0-9,._ -]{1,2000}")),
    ),
    "generate": (),
    "completions": (),
}
"""What a program may say about its request, beside its body. Everything else stays in the box."""


def route_of(wire: SessionWire, method: str, target: str) -> tuple[ModelRoute, str, str]:
    """What is asked for: the route, where it goes and the model named there; raises BadHttp."""
    there = [(each, found) for each in ROUTES[wire] if (found := each.path.fullmatch(target))]
    if not there:
        raise BadHttp(404, "NOT_FOUND", "this listener serves the model of its session and nothing else")
    route, found = there[0]
    if route.method != method:
        raise BadHttp(405, "METHOD", f"use {route.method}")
    model = found[1] if found.re.groups else ""
    return route, route.to.format(model), model


def key_header(wire: SessionWire, key: str) -> tuple[tuple[str, str], ...]:
    """The header that carries the key."""
    if not key:
        return ()
    name, value = {
        "responses": ("authorization", f"Bearer {key}"),
        "messages": ("x-api-key", key),
        "generate": ("x-goog-api-key", key),
        "completions": ("authorization", f"Bearer {key}"),
    }[wire]
    return ((name, value),)


def kept_headers(wire: SessionWire, header: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    """What is passed on of a program's headers; never a key."""
    kept = [(name, header(name)) for name, shape in _KEPT_HEADERS[wire] if shape.fullmatch(header(name))]
    if wire == "messages" and "anthropic-version" not in dict(kept):
        kept.append(("anthropic-version", _VERSION))
    return tuple(kept)


def error_body(wire: SessionWire, status: int, code: str, message: str) -> bytes:
    """An error in the shape of the wire, so that a program shows its text and stops."""
    match wire:
        case "responses" | "completions":
            kind = "invalid_request_error" if status < 429 else "server_error"
            body: Json = {"error": {"message": message, "type": kind, "param": None, "code": code.lower()}}
        case "messages":
            kind = {404: "not_found_error", 429: "rate_limit_error"}.get(
                status, "invalid_request_error" if status < 500 else "api_error"
            )
            body = {"type": "error", "error": {"type": kind, "message": message}}
        case "generate":
            kind = {404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}.get(
                status, "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE"
            )
            body = {"error": {"code": status, "message": message, "status": kind}}
    return msgspec.json.encode(body)


# What leaves


def passed_body(wire: SessionWire, route: ModelRoute, data: bytes) -> tuple[bytes, str]:
    """A body as it may leave, and the model it names; raises BadHttp."""
    if sum(data.count(mark) for mark in (b"{", b"[", b",")) > _MARKS:
        raise BadHttp(413, "TOO_LARGE", "the body has too many parts")
    try:
        given = msgspec.json.decode(data, type=dict[str, Json])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadHttp(400, "BAD_BODY", "the body is not a JSON object") from None
    body: Body = {name: value for name, value in given.items() if name in route.fields}
    _BODIES[wire](body)
    model = body.get("model")
    return msgspec.json.encode(body), model if isinstance(model, str) else ""


def _responses_body(body: Body) -> None:
    body["store"] = False  # what is not stored under the owner's key cannot be asked for by another session
    _keep_tools(body, _responses_tools)
    given = body.get("input")
    if isinstance(given, list):
        for item in given:
            kind = item.get("type", "message") if isinstance(item, Mapping) else None
            if kind not in _ITEMS:
                raise _fetches(f"an item of type {kind!r:.60}")
    _walk(given, _responses_fault)


_ITEMS: Final = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "compaction",
        "compaction_summary",
    }
)


def _responses_tools(tools: "list[Json]") -> "list[Json]":
    kept: list[Json] = []
    for tool in tools:
        if not isinstance(tool, Mapping):
            continue
        nested = tool.get("tools")
        if tool.get("type") == "namespace" and isinstance(nested, list):
            kept.append({**tool, "tools": _responses_tools(nested)})
        elif tool.get("type") in ("function", "custom", "local_shell", "apply_patch"):
            kept.append(tool)
    return kept


def _responses_fault(node: "Mapping[str, Json]") -> str:
    image = node.get("image_url")
    if image is not None and not (isinstance(image, str) and image.startswith("data:")):
        return "a picture by its address"
    return next((f"`{name}`" for name in ("file_url", "file_id") if node.get(name)), "")


def _messages_body(body: Body) -> None:
    _keep_tools(body, _messages_tools)
    _walk([body.get("messages"), body.get("system")], _messages_fault)


_CLIENT_TOOL = re.compile(r"custom|(?:bash|text_editor|computer|memory)_\d{8}")


def _messages_tools(tools: "list[Json]") -> "list[Json]":
    def stays(tool: Json) -> bool:
        return isinstance(tool, Mapping) and bool(_CLIENT_TOOL.fullmatch(str(tool.get("type") or "custom")))

    return [tool for tool in tools if stays(tool)]


def _messages_fault(node: "Mapping[str, Json]") -> str:
    source = node.get("source")
    if isinstance(source, Mapping) and source.get("type") not in ("base64", "text", "content"):
        return "content by its address"
    return "`file_id`" if node.get("file_id") else ""


def _generate_body(body: Body) -> None:
    _keep_tools(body, _generate_tools)
    _walk([body.get("contents"), body.get("systemInstruction"), body.get("system_instruction")], _generate_fault)


def _generate_tools(tools: "list[Json]") -> "list[Json]":
    names = ("functionDeclarations", "function_declarations")
    parts = [tool for tool in tools if isinstance(tool, Mapping)]
    return [kept for tool in parts if (kept := {name: tool[name] for name in names if name in tool})]


def _generate_fault(node: "Mapping[str, Json]") -> str:
    return next((f"`{name}`" for name in ("fileData", "file_data") if name in node), "")


def _completions_body(body: Body) -> None:
    """Text and functions alone: whatever else a message holds, such as a picture by its address, is refused."""
    _keep_tools(body, lambda tools: [each for each in tools if isinstance(each, Mapping) and "function" in each])
    if body.get("stream"):
        raise BadHttp(400, "STREAM", "answers come whole here: ask without `stream`")
    _walk(body.get("messages"), _completions_fault)


def _completions_fault(node: "Mapping[str, Json]") -> str:
    kind = node.get("type", "text")
    return "" if kind in ("text", "function") else f"content of type {kind!r:.60}"


def _keep_tools(body: Body, choose: "Callable[[list[Json]], list[Json]]") -> None:
    """Leave only tools that the program itself runs, in its box."""
    tools = body.pop("tools", None)
    kept = choose(tools) if isinstance(tools, list) else []
    if kept:
        body["tools"] = kept


_DATA: Final = frozenset({"input", "args", "response"})
"""Arguments and results of calls: data of any shape, which a provider does not interpret."""
_CALLS: Final = frozenset({"functionCall", "function_call", "functionResponse", "function_response"})


def _walk(value: Json, fault: "Callable[[Mapping[str, Json]], str]") -> None:
    """Look at every object of a conversation, except in the arguments and results of calls."""
    left: list[tuple[Json, bool]] = [(value, False)]
    while left:
        node, call = left.pop()
        if isinstance(node, list):
            left.extend((each, False) for each in node if isinstance(each, list | dict))
        elif isinstance(node, dict):
            if found := fault(node):
                raise _fetches(found)
            call = call or node.get("type") == "tool_use"
            left.extend(
                (each, name in _CALLS)
                for name, each in node.items()
                if isinstance(each, list | dict) and not (call and name in _DATA)
            )


def _fetches(what: str) -> BadHttp:
    return BadHttp(400, "FETCHES", f"{what} is not passed on: the provider would fetch it. Send the content itself")


_BODIES: Final[dict[SessionWire, Callable[[Body], None]]] = {
    "responses": _responses_body,
    "messages": _messages_body,
    "generate": _generate_body,
    "completions": _completions_body,
}
