"""Codex: hooks in managed requirements, which a repository cannot switch off. Its own sandbox cannot nest in ours."""

import json
import os
from functools import partial

from coilclaw.features.runner.adapters.contract import (
    HOOK_FOLDER,
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

_TELLS: dict[str, HookKind] = {
    "SessionStart": "begin",
    "PostToolUse": "result",
    "Stop": "done",
    "UserPromptSubmit": "begin",
}
_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
_INNER = frozenset({"update_plan", "view_image", "request_user_input"})
_ARCHITECTURE = {"aarch64": ("arm64", "aarch64"), "x86_64": ("x64", "x86_64")}
MODEL = "gpt-5-codex"


def program(folder: str) -> str:
    """The program itself: its starter would need Node."""
    name, target = _ARCHITECTURE.get(os.uname().machine, ("x64", "x86_64"))
    return f"{folder}/node_modules/@openai/codex-linux-{name}/vendor/{target}-unknown-linux-musl/bin/codex"


def settings(place: CliPlace) -> str:
    """Its own settings. A folder that is not trusted would be asked about, so what must hold is in the requirements."""
    return "\n".join(
        (
            f"model = {json.dumps(place.model or MODEL)}",
            'model_provider = "coilclaw"',
            "check_for_update_on_startup = false",
            'approval_policy = "never"',
            'sandbox_mode = "danger-full-access"',
            "[analytics]",
            "enabled = false",
            "[model_providers.coilclaw]",
            'name = "coilclaw"',
            f'base_url = "{MODEL_URL}/v1"',
            'env_key = "COILCLAW_MODEL_KEY"',
            'wire_api = "responses"',
            f"[projects.{json.dumps(place.checkout)}]",
            'trust_level = "trusted"',
            "",
        )
    )


def requirements(place: CliPlace) -> str:
    """What it must obey, wherever it reads other settings."""
    lines = [
        "allow_managed_hooks_only = true",
        "[features]",
        "hooks = true",
        "[hooks]",
        f'managed_dir = "{HOOK_FOLDER}"',
    ]
    for event in _EVENTS:
        lines += [
            f"[[hooks.{event}]]",
            'matcher = "*"',
            f"[[hooks.{event}.hooks]]",
            'type = "command"',
            f"command = {json.dumps(hook_command('codex', place.wait_seconds))}",
            f"timeout = {HOOK_TIMEOUT}",
        ]
    return "\n".join((*lines, ""))


def launch(place: CliPlace) -> CliLaunch:
    """The terminal program, in the mode that leaves every question to the hook."""
    return CliLaunch(
        argv=(
            program(place.program),
            *(("exec", "--skip-git-repo-check") if place.headless else ()),
            *("--disable", "daemon_auto_start", "-s", "danger-full-access"),
            *(() if place.headless else ("-a", "never")),
            *((place.prompt,) if place.prompt else ()),
        ),
        environment=(("CODEX_HOME", f"{place.home}/.codex"), ("COILCLAW_MODEL_KEY", NO_KEY), *UNLOADED),
        files=((".codex/config.toml", settings(place)),),
        managed=(("/etc/codex/requirements.toml", requirements(place)),),
    )


def read(told: dict[str, object]) -> HookAsk:
    """A hook's input as a question."""
    event, tool = text_of(told, "hook_event_name"), text_of(told, "tool_name", "")
    arguments = object_of(told, "tool_input")
    if event != "PreToolUse":
        key = call_key(told) if tool and tool not in _INNER else ""
        return HookAsk(kind=_TELLS[event], tool=tool or event, call_id=key, text=words_of(told, "tool_response"))
    ask = partial(HookAsk, tool=tool, call_id=call_key(told), text=words_of(told, "tool_input"))
    if tool == "Bash":
        return ask(kind="command", command=text_of(arguments, "command"))
    if tool == "apply_patch":
        patch = text_of(arguments, "command", "") or text_of(arguments, "input", "") or words_of(told, "tool_input")
        return ask(kind="write", paths=patched(patch))
    return ask(kind="read", paths=paths_of(arguments, "path")) if tool in _INNER else ask(kind="other")


def patched(patch: str) -> tuple[str, ...]:
    """The files that a patch names."""
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    lines = [line.strip() for line in patch.splitlines()]  # it takes them indented too
    return tuple(line[len(mark) :].strip() for line in lines for mark in marks if line.startswith(mark))


ADAPTER = Adapter(name="codex", wire="responses", package="@openai/codex", version="0.166.0", launch=launch, read=read)
