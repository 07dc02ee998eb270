"""Write the documents that are made from the code, or with --check say which of them are stale."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "scripts"))

import client  # noqa: E402
import typescript  # noqa: E402
from contract import Contract  # noqa: E402
from openapi import document  # noqa: E402

from coilclaw.app import feature_tools  # noqa: E402
from coilclaw.cli.group import COMMANDS, coilclaw  # noqa: E402
from coilclaw.config import docs_markdown  # noqa: E402
from coilclaw.features.forge.job_file import JobFile  # noqa: E402
from coilclaw.features.schedules.registry import RegistryFile  # noqa: E402
from coilclaw.features.sops.sop import Sop  # noqa: E402
from coilclaw.gate.policy_file import PolicyFile  # noqa: E402
from coilclaw.packets.action import ToolCall, ToolResult  # noqa: E402
from coilclaw.packets.box import BoxSpec  # noqa: E402
from coilclaw.packets.card import Card  # noqa: E402
from coilclaw.packets.decision import Decision  # noqa: E402
from coilclaw.packets.forge import PullRequest  # noqa: E402
from coilclaw.packets.job import ChangeProposal, JobSpec, Plan, UserMessage  # noqa: E402
from coilclaw.packets.receipt import Head, Receipt  # noqa: E402
from coilclaw.tools.builtin import builtin_tools  # noqa: E402

PACKETS: dict[str, type[msgspec.Struct]] = {
    "UserMessagePacket": UserMessage,
    "JobSpecPacket": JobSpec,
    "PlanPacket": Plan,
    "ToolCallPacket": ToolCall,
    "ToolResultPacket": ToolResult,
    "PolicyDecisionPacket": Decision,
    "ChangeProposalPacket": ChangeProposal,
    "ApprovalCard": Card,
    "Receipt": Receipt,
    "Head": Head,
    "BoxSpec": BoxSpec,
    "PolicyFile": PolicyFile,
    "ScheduleRegistry": RegistryFile,
    "SopFile": Sop,
    "PullRequest": PullRequest,
    "JobFile": JobFile,
}


def schemas() -> dict[str, str]:
    """A JSON Schema for every packet that crosses a border."""
    made: dict[str, str] = {}
    for name, struct in PACKETS.items():
        schema: dict[str, Any] = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": name,
            **msgspec.json.schema(struct, schema_hook=lambda _: {"type": "string", "contentEncoding": "base64"}),
        }
        made[f"docs/schemas/{name}.json"] = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
    return made


def _help(command: click.Command, path: str) -> list[str]:
    names = coilclaw.context_settings["help_option_names"]
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100, help_option_names=names)
    lines = [
        f"## `{path}`",
        "",
        "```text",
        *(line.rstrip() for line in command.get_help(context).splitlines()),
        "```",
        "",
    ]
    if isinstance(command, click.Group) and command is not coilclaw:
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            lines += _help(inner, f"{path} {name}")
    return lines


def cli_page() -> str:
    """The help of every command, as the command prints it."""
    lines = ["# Commands", "", "Made from the commands themselves by `scripts/docs.py`.", ""]
    lines += _help(coilclaw, "coilclaw")
    context = click.Context(coilclaw, info_name="coilclaw")
    for name in COMMANDS:
        command = coilclaw.get_command(context, name)
        assert command is not None
        lines += _help(command, f"coilclaw {name}")
    return "\n".join(lines).rstrip() + "\n"


def tools_page() -> str:
    """Every tool: what it does, what it declares, what it takes."""
    lines = ["# Tools", "", "Made from the tools' declarations by `scripts/docs.py`.", ""]
    for tool in builtin_tools(more=feature_tools()).values():
        declared = (
            f"effect {tool.effect}, destination {tool.destination}, {'' if tool.idempotent else 'not '}idempotent"
        )
        schema = msgspec.json.format(msgspec.json.encode(tool.parameters), indent=2).decode()
        lines += [
            f"## `{tool.name}`",
            "",
            tool.description,
            "",
            f"Declares: {declared}.",
            "",
            "```json",
            schema,
            "```",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def server() -> dict[str, str]:
    """The server's OpenAPI document, the client that the tests speak to it with, and the types of the panel."""
    described = document()
    contract = Contract(described)
    return {
        "docs/openapi.json": msgspec.json.format(msgspec.json.encode(described), indent=1).decode() + "\n",
        "tests/server/client.py": client.Writer(contract).module(),
        "web/src/api/schema.ts": typescript.Writer(contract).module(),
    }


def documents() -> dict[str, str]:
    """Every generated document by its path."""
    pages = {"docs/cli.md": cli_page(), "docs/config.md": docs_markdown(), "docs/tools.md": tools_page()}
    return {**pages, **schemas(), **server()}


def main() -> int:
    """Write or check."""
    stale: list[str] = []
    for name, text in documents().items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv:
            stale.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name} is stale: run .venv/bin/python scripts/docs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
