"""Gemini CLI by the Agent Client Protocol: JSON-RPC in lines. It fires no hooks there: its question is the only one."""

import json
from typing import cast

import msgspec

from coilclaw.features.runner.adapters.contract import CliLaunch, CliPlace, HookAsk
from coilclaw.features.runner.adapters.gemini import ADAPTER
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

_START, _SESSION, _PROMPT = 0, 1, 2
_READS = frozenset({"read", "search", "think"})


def launch(place: CliPlace) -> CliLaunch:
    """Never with yolo, and without hooks. The folder counts as untrusted, so that nothing in it is read as settings."""
    made = ADAPTER.launch(msgspec.structs.replace(place, prompt=""))
    managed: list[tuple[str, str]] = []
    for at, text in made.managed:
        settings = cast("dict[str, Json]", json.loads(text))
        settings.pop("hooks", None)
        security: Json = {**part(settings["security"]), "folderTrust": {"enabled": True}}
        managed.append((at, json.dumps({**settings, "security": security, "hooksConfig": {"enabled": False}})))
        folders = {place.checkout: "DO_NOT_TRUST", place.cwd: "DO_NOT_TRUST"}
        managed.append((f"{at.rpartition('/')[0]}/trustedFolders.json", json.dumps(folders)))
    model = made.argv[made.argv.index("-m") + 1]
    return msgspec.structs.replace(
        made,
        argv=(*made.argv[:2], "--approval-mode", "default", "-m", model, "--acp"),
        managed=tuple(managed),
    )


def begin(talk: Talk) -> tuple[Message, ...]:
    """The greeting; we lend it neither files nor terminals."""
    del talk
    offered: Json = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    return (_request(_START, "initialize", {"protocolVersion": 1, "clientCapabilities": offered}),)


def _request(number_: int, method: str, params: Json) -> Message:
    return {"jsonrpc": "2.0", "id": number_, "method": method, "params": params}


def hear(talk: Talk, message: Message) -> Heard:
    """Read one message."""
    method = message.get("method")
    if method is None:
        return _answered(talk, message)
    if method == "session/request_permission":
        return _asked(talk, message)
    if method == "session/update":
        return _updated(talk, part(message, "params", "update"))
    if "id" in message:
        raise ValueError(f"{method} is not known")
    return Heard(talk=talk)


def _answered(talk: Talk, message: Message) -> Heard:
    if "error" in message:
        return Heard(talk=talk, outcome=talk.outcome("FAILED", json.dumps(message["error"])[:2000]))
    match message["id"]:
        case int(it) if it == _START:
            return Heard(
                talk=talk, send=(_request(_SESSION, "session/new", {"cwd": talk.place.cwd, "mcpServers": []}),)
            )
        case int(it) if it == _SESSION:
            talk = msgspec.structs.replace(talk, thread=words(message, "result", "sessionId"))
            return Heard(talk=talk, send=(say(talk, talk.place.prompt),))
        case int(it) if it == _PROMPT:
            reason = words(message, "result", "stopReason")
            talk = _used(talk, part(message, "result"))
            ended = talk.outcome("FINISHED" if reason == "end_turn" else "FAILED", talk.said or reason)
            return Heard(talk=_silent(talk), shown=(talk.said,), outcome=ended)
        case _:
            return Heard(talk=talk)


def say(talk: Talk, text: str) -> Message:
    """One more prompt."""
    given: Json = [{"type": "text", "text": text}]
    return _request(_PROMPT, "session/prompt", {"sessionId": talk.thread, "prompt": given})


def _silent(talk: Talk) -> Talk:
    """Its words come in pieces: they are shown when something else follows."""
    return msgspec.structs.replace(talk, said="")


def _used(talk: Talk, result: Message) -> Talk:
    try:
        counts = part(result, "_meta", "quota", "token_count")
    except (KeyError, TypeError):
        return talk
    return msgspec.structs.replace(
        talk, input_tokens=number(counts, "input_tokens"), output_tokens=number(counts, "output_tokens")
    )


def _asked(talk: Talk, message: Message) -> Heard:
    call = part(message, "params", "toolCall")
    options = parts(part(message, "params")["options"])
    yes = next(words(each, "optionId") for each in options if each.get("kind") == "allow_once")
    no = next((words(each, "optionId") for each in options if each.get("kind") == "reject_once"), "")
    ask = _ask_of(call)
    return Heard(
        talk=_silent(talk),
        shown=(talk.said,),
        ask=ask,
        reply=lambda decision: _decided(message, yes if decision.allow else no),
    )


def _decided(message: Message, option: str) -> Message:
    outcome: Json = {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}


def refuse(message: Message) -> Message | None:
    """Cancel what cannot be read."""
    if "id" not in message or "method" not in message:
        return None
    if message["method"] == "session/request_permission":
        return {"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": {"outcome": "cancelled"}}}
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "not offered"}}


def _ask_of(call: Message) -> HookAsk:
    """What a call is about to do. Its title is the command; the files are its places and its differences."""
    title, kind = words(call, "title"), words(call, "kind")
    call_id = words(call, "toolCallId")
    diffs = [each for each in parts(call.get("content")) if each.get("type") == "diff"]
    paths = tuple(dict.fromkeys([words(each, "path") for each in (*diffs, *parts(call.get("locations")))]))
    text = json.dumps({"title": title, "content": call.get("content")}, ensure_ascii=False)
    match kind:
        case "execute":
            return HookAsk(kind="command", tool=kind, call_id=call_id, command=title, text=text)
        case "edit" | "delete" | "move" if paths:
            return HookAsk(kind="write", tool=kind, call_id=call_id, paths=paths, text=text)
        case "fetch":
            return HookAsk(kind="fetch", tool=kind, call_id=call_id, address=title, text=text)
        case _ if kind in _READS:
            return HookAsk(kind="read", tool=kind, call_id=call_id, paths=paths, text=text)
        case _:
            return HookAsk(kind="other", tool=kind, call_id=call_id, text=text)


def _updated(talk: Talk, update: Message) -> Heard:
    match update.get("sessionUpdate"):
        case "agent_message_chunk":
            text = words(update, "content", "text")
            return Heard(talk=msgspec.structs.replace(talk, said=(talk.said + text)[-10_000:]))
        case "tool_call":
            ask = _ask_of(update)
            shown = f"$ {ask.command}" if ask.command else f"{ask.tool}: {update.get('title')}"
            return _done(_silent(talk).knows(ask), update, (talk.said, shown))
        case "tool_call_update":
            return _done(talk, update, ())
        case _:
            return Heard(talk=talk)


def _done(talk: Talk, update: Message, shown: tuple[str, ...]) -> Heard:
    if update.get("status") != "completed":
        return Heard(talk=talk, shown=shown)
    call_id = words(update, "toolCallId")
    texts = [str(part(each, "content").get("text", "")) for each in parts(update.get("content")) if "content" in each]
    did = talk.known.get(call_id)
    if did is None:
        did = _ask_of(update) if "kind" in update and "title" in update else None
    did = did or HookAsk(kind="other", tool="unknown", call_id=call_id)
    unasked = (did,) if call_id not in talk.allowed and did.kind != "read" else ()
    return Heard(talk=talk.done(call_id), shown=(*shown, *texts), unasked=unasked)


DRIVER = StructuredDriver(name="gemini", launch=launch, begin=begin, hear=hear, say=say, refuse=refuse)
