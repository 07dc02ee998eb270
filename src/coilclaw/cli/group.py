"""The table of commands. Listing them imports none of them."""

import importlib
from typing import Any

import click

from coilclaw.cli.output import tell

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("coilclaw.cli.commands.init:init", "Create the home and the workspace repository; safe to repeat."),
    "onboard": (
        "coilclaw.cli.commands.onboard:onboard",
        "Choose a model provider, write the configuration and test it.",
    ),
    "up": ("coilclaw.service.up:up", "Serve the panel and the API and run background work until stopped."),
    "service": ("coilclaw.cli.commands.service:service", "Run `up` as a service: install, start, stop, status, logs."),
    "pair": ("coilclaw.features.devices.commands.pair:pair", "Show a one-time code to pair a phone or browser."),
    "devices": (
        "coilclaw.features.devices.commands.devices:devices",
        "List, rename or sign out paired phones and browsers.",
    ),
    "agent": (
        "coilclaw.features.chat.commands.agent:agent",
        "Talk to the agent: a conversation, or one message with -m.",
    ),
    "tool": ("coilclaw.cli.commands.tool:tool", "List tools, or run one through the gate."),
    "approvals": (
        "coilclaw.features.approvals.commands.approvals:approvals",
        "See what is waiting for your approval, and answer.",
    ),
    "project": ("coilclaw.features.projects.commands:project", "Let the agent work in folders of your own."),
    "mcp": ("coilclaw.cli.group:mcp", "Use tools of MCP servers that you approved, or offer your own tools to others."),
    "plugin": ("coilclaw.features.guests.commands:plugin", "Let in tools of plugins, each after you approved it."),
    "answers": ("coilclaw.features.answers.commands:answers", "See what you said yes to from now on, and revoke it."),
    "actions": (
        "coilclaw.features.approvals.commands.actions:actions",
        "List actions, resolve an unknown outcome, or propose one again.",
    ),
    "job": ("coilclaw.features.jobs.commands:job", "Run work in the background and follow its progress."),
    "pr": (
        "coilclaw.features.forge.commands_pr:pr",
        "See what jobs want to change, and merge, reject or take it back.",
    ),
    "bot": (
        "coilclaw.features.forge.commands_bot:bot",
        "The bot's repository: its state, its history, and what merges by itself.",
    ),
    "intel": ("coilclaw.features.forge.commands_bot:intel", "Read what the agent found out and you merged."),
    "schedule": (
        "coilclaw.features.schedules.commands.schedule:schedule",
        "Run work on a schedule: add, list, preview, run now.",
    ),
    "worker": ("coilclaw.service.worker:worker", "Execute approved actions and work on jobs until stopped."),
    "sop": ("coilclaw.features.sops.commands:sop", "Run your written procedures (SOPs) step by step through the gate."),
    "skill": ("coilclaw.features.skills.commands:skill", "See, check and write skills: how you want things done."),
    "audit": (
        "coilclaw.features.records.commands.audit:audit",
        "List or follow audit events, or explain an action from start to end.",
    ),
    "usage": ("coilclaw.features.status.commands:usage", "Show token usage and cost."),
    "prune": ("coilclaw.cli.commands.prune:prune", "Delete data past its retention; audit events are exported first."),
    "labels": (
        "coilclaw.features.owner_files.commands:labels",
        "See which workspace files hold untrusted content, or vouch for one.",
    ),
    "undo": ("coilclaw.cli.commands.undo:undo", "Restore workspace files that were deleted or changed."),
    "memory": ("coilclaw.features.chat.commands.memory:memory", "List, search, show or clear past conversations."),
    "receipt": ("coilclaw.features.records.commands.receipt:receipt", "List, show or verify receipts."),
    "policy": ("coilclaw.features.policy.commands:policy", "Show the rules in force, or try a call against them."),
    "estop": ("coilclaw.cli.commands.estop:estop", "Stop every effect at once, or resume."),
    "passkeys": (
        "coilclaw.features.devices.commands.passkeys:passkeys",
        "List your passkeys, or remove a lost one.",
    ),
    "secret": (
        "coilclaw.cli.commands.secret:secret",
        "Store keys and tokens encrypted, instead of in the environment.",
    ),
    "keys": ("coilclaw.cli.commands.keys:keys", "Rotate the key that stored secrets are encrypted with."),
    "tls": ("coilclaw.cli.commands.tls:tls", "Make certificates of your own, for a phone without a public name."),
    "config": ("coilclaw.cli.commands.config:config", "Validate, show or change the configuration."),
    "provider": ("coilclaw.cli.commands.provider:provider", "List or test model providers."),
    "airlock": ("coilclaw.cli.commands.airlock:airlock", "Check whether a URL may be reached, and why."),
    "redact": ("coilclaw.cli.commands.redact:redact", "Redact secrets from a stream."),
    "tour": (
        "coilclaw.features.chat.commands.tour:tour",
        "See in five scripted steps what runs, asks, is denied, is undone and is blocked.",
    ),
    "doctor": (
        "coilclaw.features.status.commands:doctor",
        "Check everything the agent relies on by actually trying it.",
    ),
    "completion": ("coilclaw.cli.commands.completion:completion", "Print the completion script for a shell."),
}

MCP_COMMANDS: dict[str, tuple[str, str]] = {
    "add": ("coilclaw.features.guests.commands:add", "Let in an MCP server."),
    "list": ("coilclaw.features.guests.commands:list_all", "List MCP servers and plugins."),
    "show": ("coilclaw.features.guests.commands:show", "Show what a server may do and what it offers."),
    "approve": ("coilclaw.features.guests.commands:approve", "Approve a server from config.toml, or one that changed."),
    "test": ("coilclaw.features.guests.commands:test", "Start a server once and list its tools."),
    "sign-in": ("coilclaw.features.guests.commands:sign_in", "Sign in to a server in your browser."),
    "disable": ("coilclaw.features.guests.commands:disable", "Switch a server off until you approve it again."),
    "remove": ("coilclaw.features.guests.commands:remove", "Remove a server."),
    "log": ("coilclaw.features.guests.commands:log", "Show when a guest started, ended and failed."),
    "serve": (
        "coilclaw.features.mcp_server.commands:serve",
        "Offer this agent's tools to an MCP client that starts this command.",
    ),
}
"""The commands of `coilclaw mcp`, which belong to several features."""


class Lazy(click.Group):
    """A group whose commands are imported when they are called; its table names each by module and help."""

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry[0].partition(":")
        return getattr(importlib.import_module(module), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[1]) for name, entry in self._table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._table and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._table, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else f" See `{ctx.command_path} --help`."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> Any:
    if value and not ctx.resilient_parsing:
        from coilclaw import __version__

        tell(f"coilclaw {__version__}")
        ctx.exit()


@click.group(
    cls=Lazy,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def coilclaw() -> None:
    """An autonomous agent for one owner that can be left alone.

    The model only proposes. Every effect passes one gate: validate, decide, approve, run in a box, receipt.
    """


@click.group(cls=Lazy, table=MCP_COMMANDS)
def mcp() -> None:
    """Use tools of MCP servers that you approved, or offer your own tools to other programs.

    You approve a server once, with everything it may do and every word of its tools. If anything differs later, the
    tools that differ are withheld until you approved them again. `serve` is the other direction.
    """
