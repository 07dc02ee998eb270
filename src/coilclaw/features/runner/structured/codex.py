"""Codex as an app server: JSON-RPC in lines, without its version. Its own sandbox is off: it cannot nest in ours."""

import json
import shlex

import msgspec

from coilclaw.features.runner.adapters.codex import ADAPTER
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

_SHELLS = ("/bin/sh", "/bin/bash", "/usr/bin/bash", "sh", "bash")
_START, _THREAD, _TURN = 1, 2, 3
_APPROVALS = ("item/commandExecution/requestApproval", "item/fileChange/requestApproval")


def launch(place: CliPlace) -> CliLaunch:
    """Without hooks: they would answer first, and its question would never come.

    The folder counts as untrusted, so that nothing in it is read as settings or rules.
    """
    made = ADAPTER.launch(msgspec.structs.replace(place, prompt=""))
    own = f"[mcp_servers.{MCP_NAME}]\nurl = {json.dumps(MCP_URL)}\ntool_timeout_sec = {place.wait_seconds + 400}\n"
    settings = [(name, text.replace('"trusted"', '"untrusted"') + own) for name, text in made.files]
    return msgspec.structs.replace(
        made,
        argv=(made.argv[0], "app-server"),
        files=tuple(settings),
        managed=(("/etc/codex/requirements.toml", "allow_managed_hooks_only = true\n"),),
    )


def begin(talk: Talk) -> tuple[Message, ...]:
    """The greeting."""
    del talk
    client: Json = {"name": "coilclaw", "title": "CoilClaw", "version": "1"}
    return ({"id": _START, "method": "initialize", "params": {"clientInfo": client}},)


def hear(talk: Talk, message: Message) -> Heard:
    """Read one message."""
    method = message.get("method")
    if "id" in message and method is None:
        return _answered(talk, message)
    match method:
        case "item/commandExecution/requestApproval" | "item/fileChange/requestApproval":
            return _asked(talk, message)
        case "mcpServer/elicitation/request":
            return _asked_for_ours(talk, message)
        case "item/started":
            item = part(message, "params", "item")
            found = _ask_of(item)
            return Heard(talk=talk.knows(found) if found else talk)
        case "item/completed":
            return _completed(talk, part(message, "params", "item"))
        case "thread/tokenUsage/updated":
            total = part(message, "params", "tokenUsage", "total")
            used = {"input_tokens": number(total, "inputTokens"), "output_tokens": number(total, "outputTokens")}
            return Heard(talk=msgspec.structs.replace(talk, **used))
        case "error":
            return Heard(talk=talk, shown=(f"error: {words(message, 'params', 'error', 'message')}",))
        case "turn/completed":
            return _ended(talk, part(message, "params", "turn"))
        case _ if "id" in message:
            raise ValueError(f"{method} is not known")
        case _:
            return Heard(talk=talk)


def _answered(talk: Talk, message: Message) -> Heard:
    if "error" in message:
        text = json.dumps(message["error"])[:500]
        return Heard(talk=talk, outcome=talk.outcome("FAILED", f"It refused to start: {text}"))
    match message["id"]:
        case int(it) if it == _START:
            # "untrusted": it asks for everything but commands that it knows to only read
            wanted: Json = {"cwd": talk.place.cwd, "approvalPolicy": "untrusted", "sandbox": "danger-full-access"}
            start: Message = {"id": _THREAD, "method": "thread/start", "params": wanted}
            return Heard(talk=talk, send=({"method": "initialized"}, start))
        case int(it) if it == _THREAD:
            talk = msgspec.structs.replace(talk, thread=words(message, "result", "thread", "id"))
            return Heard(talk=talk, send=(say(talk, talk.place.prompt),))
        case _:
            return Heard(talk=talk)


def say(talk: Talk, text: str) -> Message:
    """One more turn."""
    given: Json = [{"type": "text", "text": text}]
    return {"id": _TURN, "method": "turn/start", "params": {"threadId": talk.thread, "input": given}}


def _ask_of(item: Message) -> HookAsk | None:
    """What an item is about to do; None if it does nothing."""
    match item.get("type"):
        case "commandExecution":
            return _command(words(item, "id"), words(item, "command"))
        case "fileChange":
            changes = parts(item.get("changes"))
            return HookAsk(
                kind="write",
                tool="apply_patch",
                call_id=words(item, "id"),
                paths=tuple(words(each, "path") for each in changes),
                text="\n".join(f"{words(each, 'path')}\n{each.get('diff', '')}" for each in changes),
            )
        case "mcpToolCall" if item.get("server") == MCP_NAME:  # its only server; asked where it is carried out
            return HookAsk(kind="read", tool=str(item.get("tool")), call_id=words(item, "id"))
        case "mcpToolCall" | "dynamicToolCall" | "webSearch" | "imageGeneration" as kind:
            return HookAsk(kind="other", tool=str(kind), call_id=words(item, "id"), text=json.dumps(item)[:10_000])
        case _:
            return None


def _command(call_id: str, text: str) -> HookAsk:
    """A command as its model wrote it: the program wraps it for a shell."""
    try:
        wrapped = shlex.split(text)
    except ValueError:
        wrapped = []
    plain = len(wrapped) == 3 and wrapped[0] in _SHELLS and wrapped[1] in ("-c", "-lc")
    return HookAsk(
        kind="command", tool="exec_command", call_id=call_id, command=wrapped[2] if plain else text, text=text
    )


def _asked(talk: Talk, message: Message) -> Heard:
    params = part(message, "params")
    call_id = words(params, "itemId")
    if message["method"] == _APPROVALS[0]:
        ask = _command(call_id, words(params, "command"))
    else:
        ask = talk.known[call_id]  # the change itself was announced before; one that was not is denied
        if ask.kind != "write" or not ask.paths or params.get("grantRoot"):
            raise ValueError("not a change of named files")
    return Heard(talk=talk, ask=ask, reply=lambda decision: _decided(message, decision))


def _asked_for_ours(talk: Talk, message: Message) -> Heard:
    """May it call a tool of its only server? That is asked where the tool is carried out; any other is denied."""
    params = part(message, "params")
    if params.get("serverName") != MCP_NAME or part(params, "_meta").get("codex_approval_kind") != "mcp_tool_call":
        raise ValueError("not a call of ours")
    accepted: Json = {"action": "accept", "content": {}}
    return Heard(talk=talk, send=({"id": message["id"], "result": accepted},))


def _decided(message: Message, decision: HookDecision) -> Message:
    return {"id": message["id"], "result": {"decision": "accept" if decision.allow else "decline"}}


def refuse(message: Message) -> Message | None:
    """Decline what cannot be read."""
    if "id" not in message or "method" not in message:
        return None
    if message["method"] in _APPROVALS:
        return {"id": message["id"], "result": {"decision": "decline"}}
    return {"id": message["id"], "error": {"code": -32601, "message": "not offered"}}


def _completed(talk: Talk, item: Message) -> Heard:
    if item.get("type") == "agentMessage":
        text = words(item, "text")
        return Heard(talk=msgspec.structs.replace(talk, said=text), shown=(text,))
    ask = _ask_of(item)
    if ask is None:
        return Heard(talk=talk)
    ran = item.get("status") == "completed" or item.get("exitCode") is not None
    shown = [f"$ {ask.command}" if ask.command else f"{ask.tool}: {', '.join(ask.paths)}"]
    output = item.get("aggregatedOutput")
    shown += [output] if isinstance(output, str) and output else []
    shown += [] if ran else [f"({item.get('status')})"]
    unasked = (ask,) if ran and ask.call_id not in talk.allowed else ()
    return Heard(talk=talk.done(ask.call_id), shown=tuple(shown), unasked=unasked)


def _ended(talk: Talk, turn: Message) -> Heard:
    if turn.get("status") == "completed":
        return Heard(talk=talk, outcome=talk.outcome("FINISHED", talk.said))
    error = turn.get("error")
    text = words(part(error), "message") if error else str(turn.get("status"))
    return Heard(talk=talk, outcome=talk.outcome("FAILED", text))


DRIVER = StructuredDriver(name="codex", launch=launch, begin=begin, hear=hear, say=say, refuse=refuse)
