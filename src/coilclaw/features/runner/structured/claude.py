"""Claude Code in stream-json: messages in lines, its questions by the permission tool on standard output."""

import json

import msgspec

from coilclaw.features.runner.adapters.claude import ADAPTER
from coilclaw.features.runner.adapters.contract import (
    MCP_NAME,
    MCP_URL,
    CliLaunch,
    CliPlace,
    HookAsk,
    HookDecision,
)
from coilclaw.features.runner.structured.contract import (
    Heard,
    Message,
    StructuredDriver,
    Talk,
    number,
    part,
    parts,
    words,
)
from coilclaw.packets.canonical import Json

_GREETING = "coilclaw-1"
_MCP = "/etc/claude-code/coilclaw-mcp.json"
_OWN = f"mcp__{MCP_NAME}__"
"""Tools of ours: the only server it has. They are asked where they are carried out."""
_ASKS = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "WebSearch")


def launch(place: CliPlace) -> CliLaunch:
    """Without hooks. Its own rules only ask: what a repository allows is not read."""
    made = ADAPTER.launch(msgspec.structs.replace(place, prompt=""))
    managed = {
        "allowManagedHooksOnly": True,
        "allowManagedPermissionRulesOnly": True,
        "permissions": {"defaultMode": "default", "disableBypassPermissionsMode": "disable", "ask": list(_ASKS)},
        "env": {name: value for name, value in made.environment if name.startswith("ANTHROPIC_")},
    }
    servers = {"mcpServers": {MCP_NAME: {"type": "http", "url": MCP_URL}}}
    return msgspec.structs.replace(
        made,
        # the tools of its one server are there from the first request on, and not looked for
        environment=(*made.environment, ("ENABLE_TOOL_SEARCH", "false"), ("MCP_CONNECTION_NONBLOCKING", "false")),
        argv=(
            made.argv[0],
            *("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
            *("--permission-prompt-tool", "stdio", "--permission-mode", "default"),
            *("--setting-sources", "user", "--strict-mcp-config", "--mcp-config", _MCP),
            *(("--model", place.model) if place.model else ()),
        ),
        managed=(("/etc/claude-code/managed-settings.json", json.dumps(managed)), (_MCP, json.dumps(servers))),
    )


def begin(talk: Talk) -> tuple[Message, ...]:
    """The greeting and the task."""
    return (
        {"type": "control_request", "request_id": _GREETING, "request": {"subtype": "initialize"}},
        say(talk, talk.place.prompt),
    )


def say(talk: Talk, text: str) -> Message:
    """One more message of a person."""
    del talk
    return {"type": "user", "message": {"role": "user", "content": text}}


def hear(talk: Talk, message: Message) -> Heard:
    """Read one message."""
    match message["type"]:
        case "control_request":
            return _asked(talk, message)
        case "control_response":
            response = part(message, "response")
            if response.get("subtype") == "error":
                return Heard(talk=talk, outcome=talk.outcome("FAILED", f"It refused to start: {response.get('error')}"))
            return Heard(talk=talk)
        case "assistant":
            return _said(talk, part(message, "message"))
        case "user":
            return _results(talk, part(message, "message"))
        case "result":
            return _ended(talk, message)
        case _:
            return Heard(talk=talk)


def _asked(talk: Talk, message: Message) -> Heard:
    request = part(message, "request")
    if request["subtype"] != "can_use_tool":
        raise ValueError(f"{request['subtype']} is not known")
    given = part(request, "input")
    call_id = words(request, "tool_use_id")
    ask = _ask_of(words(request, "tool_name"), given, call_id)
    return Heard(talk=talk, ask=ask, reply=lambda decision: _decided(message, given, decision))


def _ask_of(tool: str, given: Message, call_id: str) -> HookAsk:
    if tool.startswith(_OWN):
        return HookAsk(kind="read", tool=tool, call_id=call_id, text=json.dumps(given)[:10_000])
    told: dict[str, object] = {
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": dict(given),
        "tool_use_id": call_id,
    }
    return ADAPTER.read(told)


def _decided(message: Message, given: Message, decision: HookDecision) -> Message:
    """The answer: a yes is to exactly the input that was asked about."""
    answer: Json = (
        {"behavior": "allow", "updatedInput": given}
        if decision.allow
        else {"behavior": "deny", "message": decision.reason or "It was denied."}
    )
    return _response(message, answer)


def _response(message: Message, answer: Json) -> Message:
    body: Json = {"subtype": "success", "request_id": message.get("request_id"), "response": answer}
    return {"type": "control_response", "response": body}


def refuse(message: Message) -> Message | None:
    """Deny what cannot be read."""
    if message.get("type") != "control_request":
        return None
    request = message.get("request")
    if isinstance(request, dict) and request.get("subtype") == "can_use_tool":
        return _response(message, {"behavior": "deny", "message": "The question could not be read."})
    body: Json = {"subtype": "error", "request_id": message.get("request_id"), "error": "not offered"}
    return {"type": "control_response", "response": body}


def _said(talk: Talk, message: Message) -> Heard:
    shown: list[str] = []
    for block in parts(message.get("content")):
        if block.get("type") == "text":
            text = words(block, "text")
            talk = msgspec.structs.replace(talk, said=text)
            shown.append(text)
        elif block.get("type") == "tool_use":
            ask = _ask_of(words(block, "name"), part(block, "input"), words(block, "id"))
            talk = talk.knows(ask)
            shown.append(f"$ {ask.command}" if ask.command else f"{ask.tool}: {', '.join(ask.paths) or ask.text[:500]}")
    return Heard(talk=talk, shown=tuple(shown))


def _results(talk: Talk, message: Message) -> Heard:
    """Results of calls: one that was not asked for must be a read, or else the desk is asked afterwards."""
    shown: list[str] = []
    unasked: list[HookAsk] = []
    for block in parts(message.get("content")):
        if block.get("type") != "tool_result":
            continue
        content = block.get("content")
        text = content if isinstance(content, str) else "\n".join(str(each.get("text", "")) for each in parts(content))
        shown.append(text)
        call_id = words(block, "tool_use_id")
        done = talk.known.get(call_id) or HookAsk(kind="other", tool="unknown", call_id=call_id)
        if call_id not in talk.allowed and block.get("is_error") is not True and done.kind != "read":
            unasked.append(done)
        talk = talk.done(call_id)
    return Heard(talk=talk, shown=tuple(shown), unasked=tuple(unasked))


def _ended(talk: Talk, message: Message) -> Heard:
    usage = message.get("usage")
    if isinstance(usage, dict):
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        read, written = sum(number(usage, name) for name in names), number(usage, "output_tokens")
        talk = msgspec.structs.replace(talk, input_tokens=read, output_tokens=written)
    text = message.get("result")
    text = text if isinstance(text, str) else str(message.get("subtype"))
    good = message.get("subtype") == "success" and message.get("is_error") is not True
    return Heard(talk=talk, outcome=talk.outcome("FINISHED" if good else "FAILED", text))


DRIVER = StructuredDriver(name="claude", launch=launch, begin=begin, hear=hear, say=say, refuse=refuse)
