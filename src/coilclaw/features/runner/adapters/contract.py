"""What an adapter is: the data and pure functions by which one coding program runs in a session's box.

The box is the wall. A hook is how an honest program asks, so an adapter only says where its program must be told of
ours, and how its words become a `HookAsk`. Whatever the program, `hook.py` asks the desk behind `HOOK_PORT` and lets
nothing run without an explicit yes.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

HOOK_PORT = 3129
"""Where a box reaches the desk that answers its hooks. Whoever connects is that session: the port is the box's own."""
MODEL_PORT = 3130
"""Where a box reaches its model, by the proxy that adds the key outside."""
TALK_PORT = 3131
"""Where the relay of a structured program meets whoever talks to it."""
MCP_PORT = 3132
"""Where a structured program finds the tools for sessions of its own."""
MCP_URL = f"http://127.0.0.1:{MCP_PORT}/mcp"
MCP_NAME = "coilclaw"
HOOK_FOLDER = "/opt/coilclaw/hook"
"""Where `hook.py` stands in a box, read-only."""
HOOK_TIMEOUT = 14 * 24 * 3600
"""Seconds that a program waits for its hook. Programs go on after a timeout, and their clocks run on while a session is
paused, so this is no limit of ours: the hook answers by itself. Node has no longer timers than 24 days."""
PROGRAM_FOLDER = "/opt/coilclaw/cli"
"""Where the installed program stands in a box, read-only."""
PYTHON = "/usr/bin/python3"
"""The interpreter of the hook in a box."""
MODEL_URL = f"http://127.0.0.1:{MODEL_PORT}"
NO_KEY = "coilclaw-session"
"""What a program in a box has instead of a key; the proxy puts the real one in its place."""

Provider: TypeAlias = Literal["shell", "codex", "claude", "gemini", "fake"]
Wire: TypeAlias = Literal["responses", "messages", "generate", ""]
HookKind: TypeAlias = Literal["begin", "command", "write", "fetch", "read", "other", "done", "result", "waiting"]


class HookAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is about to do, or says that it did, whatever the program."""

    kind: HookKind
    tool: str
    """The program's own name of it."""
    call_id: str = ""
    command: str = ""
    """Of a `command`."""
    paths: tuple[str, ...] = ()
    """Of a `write` or a `read`."""
    address: str = ""
    """Of a `fetch`."""
    text: str = ""
    """The arguments as JSON, for the card; of a `result`, what came of it."""


class HookDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a `HookAsk`."""

    allow: bool
    reason: str = ""
    """Told to the model when denied."""


class CliPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a program is started, as it sees it."""

    home: str
    cwd: str
    """The folder it begins in."""
    checkout: str
    """The whole checkout."""
    program: str
    """The folder of the installed program, `node_modules` of its own in it."""
    model: str = ""
    """The model to use; empty for the program's own choice."""
    wait_seconds: int = 600
    """How long a hook may wait for the owner."""
    prompt: str = ""
    """The task as the first prompt; empty to wait for the keyboard."""
    headless: bool = False
    """Without a terminal: it works on the prompt and ends."""


class CliLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is started."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    """Below its home, path and text: what it finds there at first. It may change them."""
    managed: tuple[tuple[str, str], ...] = ()
    """Absolute path and text: what it cannot change. Its hooks are here."""
    hidden: tuple[str, ...] = ()
    """In the folder it begins in: settings of a repository that would overrule ours. Its box does not have them."""
    writable: str = ""
    """A folder for the program alone, outside its home, with managed files in it."""


def hook_command(name: str, wait_seconds: int) -> str:
    """What a program runs before it acts. It answers by itself soon after the owner's time is over."""
    return f"{PYTHON} -I -S {HOOK_FOLDER}/hook.py {name} {wait_seconds + 15}"


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """One coding program."""

    name: Provider
    wire: Wire
    """How it speaks to its model; empty without one."""
    package: str
    """Its package at npm; empty if it needs no installation."""
    version: str
    """The version that was tried with this adapter."""
    launch: Callable[[CliPlace], CliLaunch]
    """On a terminal, or headless."""
    read: Callable[[dict[str, object]], HookAsk]
    """What a hook was told, as a question. Raises ValueError, KeyError or TypeError on what it does not know."""
    asks: bool = True
    """Whether it has hooks. A shell has none: it is the keyboard of a person."""
