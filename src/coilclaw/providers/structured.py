"""The structured form: one JSON object as the whole message, the same proposal as native tool calls.

{"assistant_message": "...",
 "proposed_actions": [{"tool": "...", "identity": "user|bot|null", "args": {}, "justification": "..."}]}
"""

import re
from collections.abc import Mapping

from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, canonical_bytes, parse_json, sha256_hex
from coilclaw.packets.chat import ChatResponse, ProposedCall
from coilclaw.packets.errors import ModelOutputError

_FENCE = r"(?is)```(?:json)?[ \t]*\n(.*)\n[ \t]*```"
_TOP = ("assistant_message", "proposed_actions")
_ACTION = ("tool", "identity", "args", "justification")
_IDENTITIES = ("user", "bot", None)
MAX_ACTIONS = 64


def read_structured(text: str, *, salt: str = "") -> ChatResponse | None:
    """The proposal in a structured message; None for ordinary text; ModelOutputError if it is broken.

    Call ids come from the text and `salt` (such as turn and round), so that a repeated message keeps its ids.
    """
    body = _whole_object(text)
    if body is None:
        return None
    try:
        value = parse_json(body)
    except NotCanonical as error:
        if any(f'"{key}"' in body for key in _TOP):
            raise _broken(str(error)) from error
        return None
    if not isinstance(value, Mapping) or not any(key in value for key in _TOP):
        return None
    seed = f"{salt}\n{body}".encode()
    return _proposal(value, f"call_{sha256_hex(seed)[:12]}")


def _whole_object(text: str) -> str | None:
    body = text.strip()
    fenced = re.fullmatch(_FENCE, body)
    if fenced:
        body = fenced[1].strip()
    return body if body.startswith("{") else None


def _broken(why: str) -> ModelOutputError:
    return ModelOutputError(
        f"The structured answer is invalid: {why}.",
        remedy='The whole message must be {"assistant_message": text, "proposed_actions": [{"tool", "identity", '
        '"args", "justification"}]}.',
    )


def _proposal(value: JsonObject, prefix: str) -> ChatResponse:
    _only(value, _TOP, "the message")
    message = value.get("assistant_message")
    if not isinstance(message, str):
        raise _broken("assistant_message must be text")
    actions = value.get("proposed_actions")
    if isinstance(actions, str | Mapping) or not isinstance(actions, list | tuple):
        raise _broken("proposed_actions must be a list")
    if len(actions) > MAX_ACTIONS:
        raise _broken(f"proposed_actions has {len(actions)} actions; at most {MAX_ACTIONS} are allowed")
    if not message.strip() and not actions:
        raise _broken("it neither says nor proposes anything")
    calls = [_action(action, f"proposed_actions[{index}]", f"{prefix}_{index}") for index, action in enumerate(actions)]
    return ChatResponse(final_text=message, tool_calls=tuple(calls))


def _action(action: Json, where: str, call_id: str) -> ProposedCall:
    if not isinstance(action, Mapping):
        raise _broken(f"{where} must be an object")
    _only(action, _ACTION, where)
    tool, identity = action.get("tool"), action.get("identity")
    args, justification = action.get("args"), action.get("justification")
    if not isinstance(tool, str) or not tool:
        raise _broken(f"{where}.tool must be the name of a tool")
    if identity not in _IDENTITIES:
        raise _broken(f"{where}.identity must be user, bot or null")
    if not isinstance(args, Mapping):
        raise _broken(f"{where}.args must be an object")
    if not isinstance(justification, str):
        raise _broken(f"{where}.justification must be text")
    arguments = canonical_bytes(args).decode()
    return ProposedCall(
        call_id=call_id,
        tool=tool,
        arguments=arguments,
        identity=identity,
        justification=justification,
    )


def _only(value: JsonObject, allowed: tuple[str, ...], where: str) -> None:
    unknown = [key for key in value if key not in allowed]
    if unknown:
        raise _broken(f"{where} has the unknown key {unknown[0]!r:.60}; allowed keys are {', '.join(allowed)}")
