"""Names of guests' tools on their way to a provider and back: `NAME.tool` has a dot, which none of them takes."""

from collections.abc import Callable

import msgspec

from coilclaw.packets.chat import ChatRequest, ChatResponse, ProposedCall
from coilclaw.packets.names import wire_name


def outgoing(request: ChatRequest) -> ChatRequest:
    """The request with names that every provider takes, in the tools offered and in the conversation so far."""
    if not _has_guests(request):
        return request
    messages = tuple(
        msgspec.structs.replace(each, tool_calls=_renamed(each.tool_calls, wire_name)) if each.tool_calls else each
        for each in request.messages
    )
    tools = tuple(msgspec.structs.replace(each, name=wire_name(each.name)) for each in request.tools)
    return msgspec.structs.replace(request, messages=messages, tools=tools)


def incoming(response: ChatResponse, request: ChatRequest) -> ChatResponse:
    """The answer with our own tool names; an unknown name stays as it is, and the gate refuses it."""
    names = {wire_name(each.name): each.name for each in request.tools if "." in each.name}
    if not names or not response.tool_calls:
        return response
    calls = _renamed(response.tool_calls, lambda name: names.get(name, name))
    return msgspec.structs.replace(response, tool_calls=calls)


def _has_guests(request: ChatRequest) -> bool:
    return any("." in each.name for each in request.tools) or any(
        "." in call.tool for message in request.messages for call in message.tool_calls
    )


def _renamed(calls: tuple[ProposedCall, ...], rename: Callable[[str], str]) -> tuple[ProposedCall, ...]:
    return tuple(msgspec.structs.replace(call, tool=rename(call.tool)) for call in calls)
