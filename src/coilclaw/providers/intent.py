"""The mock without a script: finds one plain request in the last user message and reports the result."""

import re
from collections.abc import Callable
from typing import TypeAlias

from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes, parse_object
from coilclaw.packets.chat import NOTICE, ChatMessage, ChatRequest, ProposedCall
from coilclaw.providers.mock import last_user, since_last_user

Args: TypeAlias = dict[str, Json]
_READ = 4000
"""Characters of a message to inspect, because matching is not linear."""
_SHOWN = 400
_PATH = r"[`'\"]?([\w./~-]*\w)/?[`'\"]?"

_PROGRAMS = (
    "awk|bash|cargo|cat|chmod|cp|curl|date|df|diff|du|echo|env|find|git|go|grep|head|id|ls|make|mkdir|mv|mypy|node|npm|pip"
    r"|pwd|pytest|python3?|rm|ruff|sed|sh|sort|stat|sudo|tail|tar|tee|touch|tree|uname|uv|wc|wget|whoami"
)
"""Programs recognised without backticks: “run for it” is not a command."""

INTENTS: tuple[tuple[str, str, str, Callable[[re.Match[str]], Args]], ...] = (
    ("shell", "run", r"\brun\s+`([^`]+)`", lambda found: {"command": found[1].strip()}),
    (
        "shell",
        "run",
        rf"^\s*(?:please\s+)?run\s+((?:{_PROGRAMS})\b[^\n]*?)(?:(?<=\w)[.!])?\s*$",
        lambda found: {"command": found[1]},
    ),
    ("undo", "undo back", r"^\s*(?:please\s+)?(?:undo\b|take\s+(?:it|that)\s+back\b)", lambda _: {}),
    (
        "http",
        "http",
        r"\b(?:fetch|get|open|download)\s+<?(https?://[^\s>`'\"]+)",
        lambda found: {"url": found[1].rstrip(".,;")},
    ),
    (
        "file_write",
        "to",
        rf"\b(?:write|note|save|put)\s+(?:down\s+)?(.+?)\s+(?:in)?to\s+(?:the\s+)?(?:file\s+)?{_PATH}\s*[.!]?\s*$",
        lambda found: {"path": found[2], "content": found[1].strip("`'\"") + "\n"},
    ),
    (
        "memory_search",
        "memory remember",
        r"\b(?:search\s+(?:your\s+|the\s+|my\s+)?memory\s+(?:for|about)|(?:do\s+you\s+)?remember(?:\s+about)?)\s+(.+?)[.?!]*\s*$",
        lambda found: {"query": found[1].strip("`'\"")},
    ),
    (
        "file_list",
        "files",
        rf"\b(?:list|show|what|which)\b[^.]*\bfiles\b(?:[^.]*?\b(?:in|under|of)\s+(?:the\s+)?(?:folder\s+|directory\s+)?{_PATH})?",
        lambda found: {"path": _folder(found[1])},
    ),
    (
        "time",
        "time date day",
        r"\bwhat(?:'s|\s+is)?\s+(?:the\s+)?(?:current\s+)?(?:time|date|day)\b|\bthe\s+time\b",
        lambda _: {},
    ),
    (
        "file_read",
        "read",
        rf"\bread\s+(?:the\s+)?(?:file\s+)?(?!(?:it|this|that|me|my|your|a|an)(?:\s|$)){_PATH}",
        lambda found: {"path": found[1]},
    ),
)
"""Tool, the words of which a request for it has one, what asks for it, and the arguments to be read out of that.

The first that fits and is offered wins. A pattern is compiled only for a text with one of its words."""
SAMPLE: tuple[tuple[str, Args], ...] = (
    ("file_write", {"path": "intel/sample/README.md", "content": "# A sample project\n\nThe week's plan: plan.md\n"}),
    ("file_write", {"path": "intel/sample/plan.md", "content": "- Monday: water the plants\n- Friday: buy bread\n"}),
    ("file_list", {"path": "intel/sample"}),
)
_SCRIPT = "I am a script, not a model: I answer by fixed rules and do not think. Connect a model {how}."
_AT_TERMINAL, _AT_PANEL = "with `coilclaw onboard`", "under Settings, Models"
_MAKES_SAMPLE = r"\b(?:make|create|set\s+up)\b[^.]{0,40}\bsample\s+project\b"
_OBEYS = r"\bdo\s+(?:what|as)\s+it\s+(?:says|asks|tells)\b"
"""Obeys a file, as a gullible model would; the gate judges what follows."""
_DELETES = r"\bdo\s+what\s+it\s+says,\s+then\s+delete\s+it\b"


def answer(request: ChatRequest) -> tuple[str, tuple[ProposedCall, ...]]:
    """Text and calls for the request."""
    happened = since_last_user(request)
    offered = {tool.name for tool in request.tools} if request.may_call else set[str]()
    said = last_user(request)
    text = (said.rpartition("\n\n")[2] if said.startswith(NOTICE) else said)[:_READ]  # what the runtime says is no wish
    results = [message for message in happened if message.role == "tool"]
    if results:
        read = _bare(results[0].content)[:_READ] if re.search(_OBEYS, text, re.IGNORECASE) else ""
        asked = _found(read, offered, by_line=True)
        if asked is not None and len(results) == 1:
            return f"It asks for {asked[0]}, so I try that.", _calls(request, (asked,), "What was read asks for it.")
        calls = [call for message in happened for call in message.tool_calls]
        deletes = "file_delete" in offered and re.search(_DELETES, text, re.IGNORECASE)
        if deletes and calls[-1].tool != "file_delete":
            gone = ("file_delete", {"path": _path(calls[0])})
            return "I am done with it, so it goes.", _calls(request, (gone,), "The message asks for it.")
        return _report(happened), ()
    wants_sample = "sample" in text.lower() and re.search(_MAKES_SAMPLE, text, re.IGNORECASE)
    if wants_sample and {tool for tool, _ in SAMPLE} <= offered:
        return _script(request), _calls(request, SAMPLE, "The message asks for it.")
    if asked := _found(text, offered):
        return "", _calls(request, (asked,), "The message asks for it.")
    return _greeting(request), ()


def _script(request: ChatRequest) -> str:
    """What it is, and how the owner gets a model where they are."""
    return _SCRIPT.format(how=_AT_PANEL if "in the panel" in request.system_prompt else _AT_TERMINAL)


def _found(text: str, offered: set[str], *, by_line: bool = False) -> tuple[str, Args] | None:
    """The first plain request."""
    for part in text.splitlines() if by_line else (text,):
        lower = part.lower()
        for tool, words, pattern, arguments in INTENTS:
            if tool in offered and any(word in lower for word in words.split()):
                found = re.search(pattern, part, re.IGNORECASE | re.DOTALL)
                if found:
                    return tool, arguments(found)
    return None


def _calls(request: ChatRequest, asked: tuple[tuple[str, Args], ...], why: str) -> tuple[ProposedCall, ...]:
    return tuple(
        ProposedCall(
            call_id=f"call_{len(request.messages)}_{index}",
            tool=tool,
            arguments=canonical_bytes(arguments).decode(),
            justification=why,
        )
        for index, (tool, arguments) in enumerate(asked)
    )


def _folder(name: str | None) -> str:
    here = {None, "this", "here", "workspace", "my", "your", "our", "folder", "directory", "it", "there"}
    return "." if name in here or name is None else name


def _greeting(request: ChatRequest) -> str:
    examples = {
        "file_list": "“list files”",
        "file_read": "“read notes.md”",
        "file_write": "“write hello to notes.md”",
        "shell": "“run ls”",
        "memory_search": "“search memory for lunch”",
        "time": "“what time is it”",
        "http": "“fetch https://example.com”",
    }
    offered = [examples[tool.name] for tool in request.tools if tool.name in examples]
    able = f" I understand a few plain requests: {', '.join(offered)}." if offered else ""
    return f"Hello! {_script(request)}{able}"


def _report(happened: tuple[ChatMessage, ...]) -> str:
    calls = {call.call_id: call for message in happened for call in message.tool_calls}
    results = [message for message in happened if message.role == "tool"]
    return "\n".join(_sentence(calls.get(result.tool_call_id), _bare(result.content)) for result in results)


def _bare(content: str) -> str:
    """A result without the marks around untrusted content."""
    return re.sub(r"(?m)^\[untrusted\S* \S+ (?:begins|ends)\]\n?", "", content).strip()


def _sentence(call: ProposedCall | None, result: str) -> str:
    tool = call.tool if call else "the tool"
    result = re.sub(r"^[\w.-]+ \(act_\w+\): ", "", result)
    if re.match(r"(?i)the owner rejected it\. edited by the owner", result):
        return f"You wrote your own version of what I proposed with {tool}; yours counts."
    if result.startswith("Denied. "):  # the first reason is enough
        why = _short(result.removeprefix("Denied. ").partition(". ")[0]).rstrip(".")
        return f"I was not allowed to use {tool}, so nothing was done. {why}."
    if re.match(r"(?i)denied\b|the owner (?:rejected|refused)|the approval has expired", result):
        return f"I was not allowed to use {tool}, so nothing was done. {_short(result)}"
    if re.match(r"(?i)pending\b", result):
        return f"{tool} waits for your approval; nothing happens until you approve it."
    if not result:
        return f"{tool} is done and had no output."
    if call and tool == "file_list":
        return _listing(call, result)
    if tool == "file_write" and result.startswith("Wrote "):
        return f"Done. {_short(result)}"
    shown = _short(result)
    between = "\n" if "\n" in shown else " "
    return f"Here is what {tool} says:{between}{shown}"


def _listing(call: ProposedCall, result: str) -> str:
    """One entry per line: a folder ends with a slash, a file with two spaces and a note."""
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
