"""Claude Code: hooks in managed settings, which a repository cannot switch off."""

import json
import os
from functools import partial

from coilclaw.features.runner.adapters.contract import (
    HOOK_TIMEOUT,
    MODEL_URL,
    NO_KEY,
    Adapter,
    CliLaunch,
    CliPlace,
    HookAsk,
    HookKind,
    hook_command,
)
from coilclaw.features.runner.adapters.reading import UNLOADED, call_key, object_of, paths_of, text_of, words_of

_EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "Notification", "Stop")
_TELLS: dict[str, HookKind] = {
    "SessionStart": "begin", "PostToolUse": "result", "Notification": "waiting", "Stop": "done", "SessionEnd": "done",
}  # fmt: skip
_READS = frozenset({"Read", "Glob", "Grep", "LS", "NotebookRead"})
_INNER = frozenset(
    """TodoWrite TodoRead Task Agent ExitPlanMode EnterPlanMode AskUserQuestion Skill ToolSearch TaskCreate TaskUpdate
    TaskList TaskGet TaskOutput TaskStop BashOutput KillShell KillBash StructuredOutput""".split()  # noqa: SIM905
)
"""What only concerns the program itself; a subagent asks for each of its own acts."""


def program(folder: str) -> str:
    """The program itself: its starter would need Node, and a script that npm runs while it installs."""
    name = {"aarch64": "arm64"}.get(os.uname().machine, "x64")
    return f"{folder}/node_modules/@anthropic-ai/claude-code-linux-{name}/claude"


def launch(place: CliPlace) -> CliLaunch:
    """The terminal program, in the mode that leaves every question to the hook."""
    command = hook_command("claude", place.wait_seconds)
    hook = [
        {
            "matcher": "*",
            "hooks": [{"type": "command", "command": command, "timeout": HOOK_TIMEOUT}],
        }
    ]
    model = {"ANTHROPIC_BASE_URL": MODEL_URL, "ANTHROPIC_API_KEY": NO_KEY, **dict(UNLOADED)}
    managed = {
        "allowManagedHooksOnly": True,
        "disableAllHooks": False,
        "hooks": dict.fromkeys(_EVENTS, hook),
        "env": model,  # a repository's own settings could name other ones, a library to load among them
        "apiKeyHelper": "",
        "autoUpdates": False,
    }
    seeded = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "autoUpdates": False,
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [NO_KEY[-20:]], "rejected": []},
        "projects": {place.cwd: {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    quiet = (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
    )
    return CliLaunch(
        argv=(
            program(place.program),
            *(("-p",) if place.headless else ()),
            *("--permission-mode", "bypassPermissions"),
            *(("--model", place.model) if place.model else ()),
            *((place.prompt,) if place.prompt else ()),
        ),
        environment=(*model.items(), *((name, "1") for name in quiet)),
        files=(
            (".claude.json", json.dumps(seeded)),
            (".claude/settings.json", json.dumps({"skipDangerousModePermissionPrompt": True})),
        ),
        managed=(("/etc/claude-code/managed-settings.json", json.dumps(managed)),),
    )


def read(told: dict[str, object]) -> HookAsk:
    """A hook's input as a question."""
    event, tool = text_of(told, "hook_event_name"), text_of(told, "tool_name", "")
    arguments = object_of(told, "tool_input")
    if event != "PreToolUse":
        key = call_key(told) if tool and tool not in _READS and tool not in _INNER else ""
        return HookAsk(kind=_TELLS[event], tool=tool or event, call_id=key, text=words_of(told, "tool_response"))
    ask = partial(HookAsk, tool=tool, call_id=call_key(told), text=words_of(told, "tool_input"))
    match tool:
        case "Bash":
            return ask(kind="command", command=text_of(arguments, "command"))
        case "Write" | "Edit" | "MultiEdit":
            return ask(kind="write", paths=(text_of(arguments, "file_path"),))
        case "NotebookEdit":
            return ask(kind="write", paths=(text_of(arguments, "notebook_path"),))
        case "WebFetch":
            return ask(kind="fetch", address=text_of(arguments, "url"))
        case _ if tool in _READS or tool in _INNER:
            return ask(kind="read", paths=paths_of(arguments, "file_path", "path", "glob", "notebook_path"))
        case _:
            return ask(kind="other")


ADAPTER = Adapter(
    name="claude", wire="messages", package="@anthropic-ai/claude-code", version="2.1.325", launch=launch, read=read
)
