"""A stand-in for a coding program, run inside a box with the standard library alone.

Each line of its task is one act, and then each line of FAKE.md, which is a file of the repository:
`run: COMMAND`, `write: PATH TEXT`, `model: TEXT` (asks the model proxy), `say: TEXT`,
`mcp: TOOL JSON` (calls a tool for sessions of its own),
and to misbehave: `sneak: COMMAND` (does not ask), `defy: COMMAND` (asks, and runs it in any case), `garbage:`,
`huge: BYTES`, `odd: JSON` (sends this), `crash:`.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

LAST: list[str] = []


def tell(message: dict[str, Any]) -> None:
    """Send one message."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def heard() -> dict[str, Any]:
    """The next message."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(3)
    return json.loads(line)


def may(number: int, tool: str, given: dict[str, str]) -> tuple[bool, str]:
    """Announce a call and ask for it."""
    call = f"call_{number}"
    block = {"type": "tool_use", "id": call, "name": tool, "input": given}
    tell({"type": "assistant", "message": {"content": [block]}})
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": call}
    tell({"type": "control_request", "request_id": f"req_{number}", "request": request})
    while True:
        message = heard()
        response = message.get("response", {})
        if message.get("type") == "control_response" and response.get("request_id") == f"req_{number}":
            answer: dict[str, Any] = response.get("response") or {}
            return answer.get("behavior") == "allow", answer.get("message", "")


def result(number: int, text: str, *, failed: bool = False) -> None:
    """Tell what came of a call."""
    block = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": text, "is_error": failed}
    tell({"type": "user", "message": {"content": [block]}})


def run(number: int, command: str) -> None:
    """Run a command."""
    argv = ["/bin/sh", "-c", command]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603
    result(number, done.stdout + done.stderr, failed=done.returncode != 0)


def model(text: str) -> str:
    """Ask the model as the Responses wire does; says what came of it."""
    body = json.dumps({"model": "fake-model", "input": [{"role": "user", "content": text}]}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("FAKE_KEY", "")}
    asked = urllib.request.Request(os.environ["FAKE_MODEL"] + "/v1/responses", body, headers)  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - the proxy in its box
            items = json.load(answer)["output"]
            return " ".join(part["text"] for item in items for part in item.get("content", []))
    except urllib.error.HTTPError as error:
        return f"the model said {error.code}: {json.load(error)['error']['message']}"


def mcp(number: int, tool: str, given: dict[str, Any]) -> str:
    """Call a tool for sessions; `list` lists them. `@last` is the session that was begun last."""
    given = {key: LAST[-1] if value == "@last" else value for key, value in given.items()}
    params = {"name": tool, "arguments": given}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    if tool == "list":
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
    body, headers = json.dumps(message).encode(), {"Content-Type": "application/json"}
    asked = urllib.request.Request(os.environ["FAKE_MCP"], body, headers)  # noqa: S310
    with urllib.request.urlopen(asked, timeout=600) as answer:  # noqa: S310 - a port of its box
        found = json.load(answer)
    if tool == "list":
        return " ".join(each["name"] for each in found["result"]["tools"])
    if "error" in found:
        return f"refused: {found['error']['message']}"
    text = " ".join(part["text"] for part in found["result"]["content"])
    LAST.extend(word for word in text.split() if word.startswith("sess_") and word.isidentifier())
    return f"{'failed' if found['result']['isError'] else 'mcp'}: {text}"


def act(number: int, line: str) -> str:
    """Do one line of the task; returns what to say last."""
    name, _, rest = line.partition(":")
    rest = rest.strip()
    if name in ("run", "defy"):
        allowed, reason = may(number, "Bash", {"command": rest})
        if allowed or name == "defy":
            run(number, rest)
        else:
            result(number, reason, failed=True)
    elif name == "sneak":
        run(number, rest)
    elif name == "write":
        path, _, text = rest.partition(" ")
        allowed, reason = may(number, "Write", {"file_path": path, "content": text})
        if allowed:
            Path(path).write_text(text + "\n")
        result(number, "written" if allowed else reason, failed=not allowed)
    elif name == "model":
        return model(rest)
    elif name == "mcp":
        tool, _, given = rest.partition(" ")
        said = mcp(number, tool, json.loads(given or "{}"))
        tell({"type": "assistant", "message": {"content": [{"type": "text", "text": said}]}})
    elif name == "garbage":
        sys.stdout.write("\x1b[2J not a message \xff\n")
    elif name == "huge":
        sys.stdout.write("x" * int(rest) + "\n")
    elif name == "odd":
        sys.stdout.write(rest + "\n")
        sys.stdout.flush()
        return json.dumps(heard()) if '"control_request"' in rest else ""
    elif name == "crash":
        sys.stderr.write("it crashed\n")
        sys.exit(9)
    return rest if name == "say" else ""


def prompt() -> str:
    """The next task."""
    while True:
        message = heard()
        if message.get("type") == "control_request":
            body: dict[str, Any] = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            tell({"type": "control_response", "response": body})
        elif message.get("type") == "user":
            return message["message"]["content"]


def told_by_repository() -> list[str]:
    """The lines of its FAKE.md, which are written without the colon."""
    file = Path("FAKE.md")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [line.replace(" ", ": ", 1) for line in lines]


def main() -> None:
    """Do one task after the other."""
    number, more = 0, told_by_repository()
    while True:
        last = ""
        for line in (*prompt().splitlines(), *more):
            number += 1
            last = act(number, line.strip()) or last
        more = []
        usage = {"input_tokens": 1, "output_tokens": 1}
        tell({"type": "result", "subtype": "success", "is_error": False, "result": last, "usage": usage})


main()
