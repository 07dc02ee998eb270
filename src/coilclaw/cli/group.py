"""The table of commands. Listing them imports none of them."""

import importlib
from typing import Any

import click

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start here": {
        "init": ("coilclaw.cli.commands.init:init", "Create the home and the workspace; safe to repeat."),
        "tour": (
            "coilclaw.features.chat.commands.tour:tour",
            "See in five steps what runs, asks, is denied and undone.",
        ),
        "onboard": (
            "coilclaw.cli.commands.onboard:onboard",
            "Choose a model and how much may run unasked, and try it.",
        ),
        "agent": (
            "coilclaw.features.chat.commands.agent:agent",
            "Talk to the agent, or say one thing with -m.",
        ),
        "up": ("coilclaw.service.up:up", "Serve the panel and the API, and work in the background."),
        "approvals": (
            "coilclaw.features.approvals.commands.approvals:approvals",
            "See what is waiting for your approval, and answer.",
        ),
    },
    "Every day": {
        "undo": ("coilclaw.cli.commands.undo:undo", "Restore workspace files that were deleted or changed."),
        "memory": ("coilclaw.features.chat.commands.memory:memory", "List, search, show or clear past conversations."),
        "project": ("coilclaw.features.projects.commands:project", "Let the agent work in folders of your own."),
        "usage": ("coilclaw.features.status.commands:usage", "Show token usage and cost."),
        "doctor": ("coilclaw.features.status.commands:doctor", "Check everything the agent relies on by trying it."),
        "estop": ("coilclaw.cli.commands.estop:estop", "Stop every effect at once, or resume."),
    },
    "Work in the background": {
        "job": ("coilclaw.features.jobs.commands:job", "Run work in the background and follow its progress."),
        "schedule": (
            "coilclaw.features.schedules.commands.schedule:schedule",
            "Run work on a schedule: add, list, preview, run now.",
        ),
        "sop": ("coilclaw.features.sops.commands:sop", "Run your written procedures step by step."),
        "skill": ("coilclaw.features.skills.commands:skill", "See, check and write skills: how you want things done."),
        "worker": ("coilclaw.service.worker:worker", "Execute approved actions and work on jobs until stopped."),
    },
    "Pull requests": {
        "pr": ("coilclaw.features.forge.commands_pr:pr", "See what jobs want to change; merge, reject or revert it."),
        "bot": (
            "coilclaw.features.forge.commands_bot:bot",
            "The bot's repository: state, history, what merges by itself.",
        ),
        "intel": ("coilclaw.features.forge.commands_bot:intel", "Read what the agent found out and you merged."),
        "ci": ("coilclaw.features.forge.commands_ci:ci", "What the workflows in GitHub Actions run."),
    },
    "Repositories and coding": {
        "repo": ("coilclaw.features.runner.repo_commands:repo", "Name the repositories that coding sessions work on."),
        "session": (
            "coilclaw.features.runner.commands:session",
            "Boxed terminals in checkouts: watch, join, leave, find again.",
        ),
        "adapter": (
            "coilclaw.features.runner.adapter_commands:adapter",
            "Install, prove and choose the coding programs of sessions.",
        ),
        "patrol": (
            "coilclaw.features.patrols.commands:patrol",
            "Lint, tests, builds and audits of repositories, on a schedule.",
        ),
        "alert": ("coilclaw.features.patrols.commands:alert", "See what patrols found; mute or resolve it."),
        "quest": ("coilclaw.features.patrols.commands:quest", "Take what patrols found as a task, in a session."),
        "evolve": ("coilclaw.features.evolve.commands:evolve", "An agent that works on its own code, in a container."),
    },
    "Phones, accounts and other programs": {
        "pair": ("coilclaw.features.devices.commands.pair:pair", "Show a one-time code to pair a phone or browser."),
        "devices": (
            "coilclaw.features.devices.commands.devices:devices",
            "List, rename or sign out paired phones and browsers.",
        ),
        "passkeys": (
            "coilclaw.features.devices.commands.passkeys:passkeys",
            "List your passkeys, or remove a lost one.",
        ),
        "google": ("coilclaw.features.mail.commands:google", "Connect mail and calendar: your account, and the bot's."),
        "mcp": ("coilclaw.cli.group:mcp", "Use tools of MCP servers you approved, or offer your own."),
        "plugin": ("coilclaw.features.guests.commands:plugin", "Let in tools of plugins, each after you approved it."),
        "provider": ("coilclaw.cli.commands.provider:provider", "List or test model providers."),
    },
    "Rules and proof": {
        "answers": (
            "coilclaw.features.answers.commands:answers",
            "See what you said yes to from now on, and revoke it.",
        ),
        "actions": (
            "coilclaw.features.approvals.commands.actions:actions",
            "List actions; resolve an unknown outcome; propose one again.",
        ),
        "audit": (
            "coilclaw.features.records.commands.audit:audit",
            "List or follow audit events; explain an action end to end.",
        ),
        "receipt": ("coilclaw.features.records.commands.receipt:receipt", "List, show or verify receipts."),
        "policy": ("coilclaw.features.policy.commands:policy", "Show the rules in force, or try a call against them."),
        "labels": (
            "coilclaw.features.owner_files.commands:labels",
            "See which files hold untrusted content, or vouch for one.",
        ),
        "tool": ("coilclaw.cli.commands.tool:tool", "List tools, or run one through the gate."),
        "airlock": ("coilclaw.cli.commands.airlock:airlock", "Check whether a URL may be reached, and why."),
    },
    "Settings and upkeep": {
        "config": ("coilclaw.cli.commands.config:config", "Validate, show or change the configuration."),
        "service": (
            "coilclaw.cli.commands.service:service",
            "Run `up` as a service: install, start, stop, status, logs.",
        ),
        "secret": ("coilclaw.cli.commands.secret:secret", "Store keys and tokens encrypted, not in the environment."),
        "keys": ("coilclaw.cli.commands.keys:keys", "Rotate the key that stored secrets are encrypted with."),
        "tls": ("coilclaw.cli.commands.tls:tls", "Make certificates of your own, for a phone without a name."),
        "prune": (
            "coilclaw.cli.commands.prune:prune",
            "Delete what is past its retention; exports audit events first.",
        ),
        "redact": ("coilclaw.cli.commands.redact:redact", "Redact secrets from a stream."),
        "docs": ("coilclaw.cli.commands.docs:docs", "Read the manual here, page by page."),
        "completion": ("coilclaw.cli.commands.completion:completion", "Print the completion script for a shell."),
    },
}
"""Every command by what it is for, with where it is and its one line of help."""
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

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
    """A group whose commands are imported when they are called; its sections name each by module and help."""

    def __init__(self, *args: Any, sections: dict[str, dict[str, tuple[str, str]]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._table = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry[0].partition(":")
        return getattr(importlib.import_module(module), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self._table))
        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), entry[1]) for name, entry in section.items()])

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
        from coilclaw.cli.output import tell

        tell(f"coilclaw {__version__}")
        ctx.exit()


class Coilclaw(Lazy):
    """The program itself: called with nothing, it names the few commands to begin with instead of all of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        from coilclaw.cli.output import tell

        formatter = ctx.make_formatter()
        self.format_help_text(ctx, formatter)
        first = next(iter(self._sections))
        with formatter.section(first):
            formatter.write_dl([(f"coilclaw {name}", entry[1]) for name, entry in self._sections[first].items()])
        formatter.write_paragraph()
        formatter.write_text("`coilclaw --help` lists every command, `coilclaw docs` is the manual.")
        tell(formatter.getvalue().strip("\n"))
        return ctx.exit()


@click.group(
    cls=Coilclaw,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def coilclaw() -> None:
    """An autonomous agent for one owner that can be left alone.

    The model only proposes. Every effect passes one gate: validate, decide, approve, run in a box, receipt.
    """


@click.group(cls=Lazy, sections={"Commands": MCP_COMMANDS})
def mcp() -> None:
    """Use tools of MCP servers that you approved, or offer your own tools to other programs.

    You approve a server once, with everything it may do and every word of its tools. If anything differs later, the
    tools that differ are withheld until you approved them again. `serve` is the other direction.
    """
