"""What the mock says without a script: it finds one plain request in the last user message, and tells how it went."""

import re
from collections.abc import Callable
from typing import TypeAlias

from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes, parse_object
from coilclaw.packets.chat import ChatMessage, ChatRequest, ProposedCall, ToolSpec
from coilclaw.providers.mock import last_user, since_last_user

Args: TypeAlias = dict[str, Json]
_READ = 4000
"""Characters of a message that are looked at: patterns take longer than their text is."""
_SHOWN = 400
_PATH = r"[`'\"]?([\w./~-]*\w)/?[`'\"]?"

INTENTS: tuple[tuple[str, str, Callable[[re.Match[str]], Args]], ...] = (
    ("shell", r"\brun\s+`([^`]+)`", lambda found: {"command": found[1].strip()}),
    (
        "http",
        r"\b(?:fetch|get|open|download)\s+<?(https?://[^\s>`'\"]+)",
        lambda found: {"url": found[1].rstrip(".,;")},
    ),
    (
        "file_write",
        rf"\b(?:write|note|save|put)\s+(?:down\s+)?(.+?)\s+(?:in)?to\s+(?:the\s+)?(?:file\s+)?{_PATH}\s*[.!]?\s*$",
        lambda found: {"path": found[2], "content": found[1].strip("`'\"") + "\n"},
    ),
    (
        "memory_search",
        r"\b(?:search\s+(?:your\s+|the\s+|my\s+)?memory\s+(?:for|about)|(?:do\s+you\s+)?remember(?:\s+about)?)\s+(.+?)[.?!]*\s*$",
        lambda found: {"query": found[1].strip("`'\"")},
    ),
    (
        "file_list",
        rf"\b(?:list|show|what|which)\b[^.]*\bfiles\b(?:[^.]*?\b(?:in|under|of)\s+(?:the\s+)?(?:folder\s+|directory\s+)?{_PATH})?",
        lambda found: {"path": _folder(found[1])},
    ),
    ("time", r"\bwhat(?:'s|\s+is)?\s+(?:the\s+)?(?:current\s+)?(?:time|date|day)\b|\bthe\s+time\b", lambda _: {}),
    (
        "file_read",
        rf"\bread\s+(?:the\s+)?(?:file\s+)?(?!(?:it|this|that|me|my|your|a|an)(?:\s|$)){_PATH}",
        lambda found: {"path": found[1]},
    ),
)
"""Tool, what asks for it, and the arguments to be read out of that; the first that fits and is offered wins."""


def answer(request: ChatRequest) -> tuple[str, tuple[ProposedCall, ...]]:
    """Text and calls for the request."""
    happened = since_last_user(request)
    if any(message.role == "tool" for message in happened):
        return _report(happened), ()
    offered = {tool.name for tool in request.tools}
    text = last_user(request)[:_READ]
    for tool, pattern, arguments in INTENTS:
        found = re.search(pattern, text, re.IGNORECASE | re.DOTALL) if tool in offered else None
        if found:
            call_id = f"call_{len(request.messages)}_0"
            written = canonical_bytes(arguments(found)).decode()
            why = "The message asks for it."
            return "", (ProposedCall(call_id=call_id, tool=tool, arguments=written, justification=why),)
    return _greeting(request.tools), ()


def _folder(name: str | None) -> str:
    here = {None, "this", "here", "workspace", "my", "your", "our", "folder", "directory", "it", "there"}
    return "." if name in here or name is None else name


def _greeting(tools: tuple[ToolSpec, ...]) -> str:
    examples = {
        "file_list": "“list files”",
        "file_read": "“read notes.md”",
        "file_write": "“write hello to notes.md”",
        "shell": "“run `ls`”",
        "memory_search": "“search memory for lunch”",
        "time": "“what time is it”",
        "http": "“fetch https://example.com”",
    }
    offered = [examples[tool.name] for tool in tools if tool.name in examples]
    able = f" I understand a few plain requests: {', '.join(offered)}." if offered else ""
    return (
        "Hello! I am the built-in mock, so I answer by fixed rules and do not think."
        f"{able} To talk to a real model, run `coilclaw onboard`."
    )


def _report(happened: tuple[ChatMessage, ...]) -> str:
    calls = {call.call_id: call for message in happened for call in message.tool_calls}
    results = [message for message in happened if message.role == "tool"]
    return "\n".join(_sentence(calls.get(result.tool_call_id), _bare(result.content)) for result in results)


def _bare(content: str) -> str:
    """A result without the lines that tell a model whose words it is."""
    return re.sub(r"(?m)^\[untrusted\S* \S+ (?:begins|ends)\]\n?", "", content).strip()


def _sentence(call: ProposedCall | None, result: str) -> str:
    tool = call.tool if call else "the tool"
    if since := re.search(r"\[runtime notice: it no longer waits\]\s*(?:[\w.-]+ \(\w+\): )?(.*)", result, re.DOTALL):
        result = since[1].strip()
    if re.match(r"(?i)denied\b|the owner (?:rejected|refused)|the approval has expired", result):
        return f"I was not allowed to use {tool}, so nothing was done. {_short(result)}"
    if re.match(r"(?i)pending\b.*\bwith their passkey\.", result, re.DOTALL):
        return f"{tool} waits for your passkey in the panel; nothing is done before that."
    if re.match(r"(?i)pending\b", result):
        return f"{tool} waits for your approval; nothing is done before you say yes."
    if not result:
        return f"{tool} is done and had nothing to say."
    if call and tool == "file_list":
        return _listing(call, result)
    if tool == "file_write" and result.startswith("Wrote "):
        return f"Done. {_short(result)}"
    return f"Here is what {tool} says: {_short(result)}"


def _listing(call: ProposedCall, result: str) -> str:
    """One entry a line, a folder with a slash, a file with two spaces and a note behind its name."""
    lines = result.splitlines()
    path = _path(call)
    if result == "(the directory is empty)":
        return f"There is nothing in `{path}`."
    if not all(line.endswith("/") or "  " in line or line.startswith("…") for line in lines):
        return f"Here is what file_list says: {_short(result)}"
    names = [line.partition("  ")[0] for line in lines if not line.startswith("…")]
    count = "is 1 entry" if len(names) == 1 else f"are {len(names)} entries"
    return f"There {count} in `{path}`: {_short(', '.join(names))}."


def _path(call: ProposedCall) -> Json:
    try:
        return parse_object(call.arguments).get("path", ".")
    except NotCanonical:
        return "."


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
