"""The table of commands. Listing them imports none of them."""

import importlib
from typing import Any

import click

from coilclaw.cli.output import tell

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("coilclaw.cli.init:init", "Make a home and the workspace repository; safe to repeat."),
    "onboard": ("coilclaw.cli.onboard:onboard", "Choose a model provider, write the configuration, test it."),
    "up": ("coilclaw.cli.up:up", "Serve the panel and the API, and work in the background, until stopped."),
    "service": ("coilclaw.cli.service:service", "Run `up` as a service: install, start, stop, status, logs."),
    "pair": ("coilclaw.cli.pair:pair", "Show a one-time code that lets a phone or browser in."),
    "devices": ("coilclaw.cli.devices:devices", "See which phones and browsers are paired, name them, sign them out."),
    "agent": ("coilclaw.cli.agent:agent", "Talk to the agent: a conversation, or one message with -m."),
    "tool": ("coilclaw.cli.tool:tool", "List tools, or run one through the gate."),
    "approvals": ("coilclaw.cli.approvals:approvals", "See what waits for you, and answer."),
    "actions": ("coilclaw.cli.actions:actions", "List actions; resolve an unknown end, propose one again."),
    "job": ("coilclaw.cli.job:job", "Have work done in the background, and see how it goes."),
    "schedule": ("coilclaw.cli.schedule:schedule", "Have work done by the clock: add, list, preview, run now."),
    "worker": ("coilclaw.cli.worker:worker", "Carry out what was approved and work on jobs, until stopped."),
    "sop": ("coilclaw.cli.sop:sop", "Run procedures you wrote down, step by step through the gate."),
    "audit": ("coilclaw.cli.audit:audit", "List or follow events, or tell the whole story of an action."),
    "usage": ("coilclaw.cli.usage:usage", "Tokens and what they cost."),
    "prune": ("coilclaw.cli.prune:prune", "Forget what is old enough; the audit is exported first."),
    "labels": ("coilclaw.cli.labels:labels", "See which workspace files hold untrusted content, or vouch for one."),
    "undo": ("coilclaw.cli.undo:undo", "Bring back workspace files that are gone or changed."),
    "memory": ("coilclaw.cli.memory:memory", "List, search, show or clear past conversations."),
    "receipt": ("coilclaw.cli.receipt:receipt", "List, show or verify receipts."),
    "policy": ("coilclaw.cli.policy:policy", "Show the rules in force, or try a call against them."),
    "estop": ("coilclaw.cli.estop:estop", "Stop every effect at once, or let things go on."),
    "passkeys": ("coilclaw.cli.passkeys:passkeys", "See which passkeys prove you, or remove one that is lost."),
    "secret": ("coilclaw.cli.secret:secret", "Keep keys and tokens here, encrypted, instead of in the environment."),
    "keys": ("coilclaw.cli.keys:keys", "Rotate the key that stored secrets are encrypted with."),
    "config": ("coilclaw.cli.config:config", "Validate or show the configuration."),
    "provider": ("coilclaw.cli.provider:provider", "List or test model providers."),
    "airlock": ("coilclaw.cli.airlock:airlock", "Ask whether a URL could be reached, and why."),
    "redact": ("coilclaw.cli.redact:redact", "Take secrets out of a stream."),
    "tour": ("coilclaw.cli.tour:tour", "One real turn on the built-in mock, with its receipt."),
    "doctor": ("coilclaw.cli.doctor:doctor", "Probe everything the agent relies on, by behaviour."),
    "completion": ("coilclaw.cli.completion:completion", "Print the completion script for a shell."),
}


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry[0].partition(":")
        return getattr(importlib.import_module(module), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[1]) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else " See `coilclaw --help`."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> Any:
    if value and not ctx.resilient_parsing:
        from coilclaw import __version__

        tell(f"coilclaw {__version__}")
        ctx.exit()


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def coilclaw() -> None:
    """An autonomous agent for one owner that can be left alone.

    The model only proposes. Every effect passes one gate: validate, decide, approve, run in a box, receipt.
    """
