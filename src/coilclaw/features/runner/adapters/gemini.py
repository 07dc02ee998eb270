"""Gemini CLI: hooks in its user settings, mounted read-only. It ignores a system file in a box, which has no root."""

import json
import shlex
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

HOME = "/session/gemini"
"""Its home: beside that of the session, because what is mounted in a folder must stand directly in it."""
NODE = "/usr/bin/node"
MODEL = "gemini-2.5-pro"
_EVENTS = ("SessionStart", "BeforeTool", "AfterTool", "Notification", "AfterAgent")
_TELLS: dict[str, HookKind] = {
    "SessionStart": "begin",
    "AfterTool": "result",
    "Notification": "waiting",
    "AfterAgent": "done",
    "SessionEnd": "done",
}
_READS = frozenset(
    """
    read_file read_many_files list_directory glob search_file_content grep_search read_background_output
    list_background_processes write_todos ask_user activate_skill enter_plan_mode exit_plan_mode get_internal_docs
    update_topic complete_task
    """.split()  # noqa: SIM905
)
_NAMES = ("file_path", "absolute_path", "path", "paths", "dir_path", "include", "include_pattern")
"""Where its tools that read name files."""


def settings(place: CliPlace) -> dict[str, object]:
    """What it cannot change."""
    hook = {
        "type": "command",
        "name": "coilclaw",
        "command": hook_command("gemini", place.wait_seconds),
        "timeout": HOOK_TIMEOUT * 1000,
    }
    return {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "ui": {"hideTips": True},
        "hooksConfig": {"enabled": True},
        "hooks": {event: [{"matcher": ".*", "hooks": [hook]}] for event in _EVENTS},
    }


def launch(place: CliPlace) -> CliLaunch:
    """The terminal program, in the mode that leaves every question to the hook."""
    return CliLaunch(
        argv=(
            *(NODE, f"{place.program}/node_modules/@google/gemini-cli/bundle/gemini.js"),
            *("--skip-trust", "--approval-mode", "yolo", "-m", place.model or MODEL),
            *(("-p" if place.headless else "-i", place.prompt) if place.prompt else ()),
        ),
        environment=(
            ("GOOGLE_GEMINI_BASE_URL", MODEL_URL),
            ("GEMINI_API_KEY", NO_KEY),
            ("GEMINI_CLI_HOME", HOME),
            ("GEMINI_TELEMETRY_ENABLED", "false"),
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
            *UNLOADED,
        ),
        hidden=(".gemini",),  # `hooksConfig` of a repository would switch our hooks off
        writable=f"{HOME}/.gemini",
        managed=((f"{HOME}/.gemini/settings.json", json.dumps(settings(place))),),
    )


def read(told: dict[str, object]) -> HookAsk:
    """A hook's input as a question."""
    event, tool = text_of(told, "hook_event_name"), text_of(told, "tool_name", "")
    arguments = object_of(told, "tool_input")
    if event != "BeforeTool":
        key = call_key(told) if tool and tool not in _READS else ""
        return HookAsk(kind=_TELLS[event], tool=tool or event, call_id=key, text=words_of(told, "tool_response"))
    ask = partial(HookAsk, tool=tool, call_id=call_key(told), text=words_of(told, "tool_input"))
    match tool:
        case "run_shell_command":
            return ask(kind="command", command=_command(arguments))
        case "write_file" | "replace":
            return ask(kind="write", paths=(text_of(arguments, "file_path"),))
        case "web_fetch":
            return ask(kind="fetch", address=_address(text_of(arguments, "prompt", "")))
        case _ if tool in _READS:
            return ask(kind="read", paths=paths_of(arguments, *_NAMES))
        case _:
            return ask(kind="other")


def _command(arguments: dict[str, object]) -> str:
    """The command, with the folder it would run in: a yes for one is none for another."""
    folder = text_of(arguments, "directory", "") or text_of(arguments, "dir_path", "")
    command = text_of(arguments, "command")
    return f"cd {shlex.quote(folder)} && {{ {command}\n}}" if folder else command


def _address(prompt: str) -> str:
    """The one address in its words; two are too many to be decided as one."""
    found = [word.strip("<>()[]\"'.,") for word in prompt.split() if "://" in word]
    return found[0] if len(found) == 1 else ""


ADAPTER = Adapter(
    name="gemini", wire="generate", package="@google/gemini-cli", version="0.61.0", launch=launch, read=read
)
