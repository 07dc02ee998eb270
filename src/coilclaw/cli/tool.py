"""coilclaw tool."""

import asyncio
from typing import TYPE_CHECKING

import click

from coilclaw.cli.output import json_option, print_json, print_result, print_rows
from coilclaw.cli.session import opened

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.gate.conveyor import Approver, Outcome
    from coilclaw.packets.canonical import JsonObject


@click.group()
def tool() -> None:
    """List tools, or run one through the gate."""


@tool.command("list")
@json_option
def list_tools(as_json: bool) -> None:
    """List every tool, what it does to the world, and whether this channel may use it."""
    with opened() as app:
        allowed = app.config.channels.cli.tools_allow
        if as_json:
            print_json(
                [
                    {
                        "name": each.name,
                        "description": each.description,
                        "effect": each.effect,
                        "destination": each.destination,
                        "idempotent": each.idempotent,
                        "allowed": each.name in allowed,
                        "parameters": each.parameters,
                    }
                    for each in app.tools.values()
                ]
            )
            return
        rows = [
            (each.name, each.effect, each.destination, "yes" if each.name in allowed else "no", each.description)
            for each in app.tools.values()
        ]
        print_rows(rows, ("tool", "effect", "where", "allowed", "what it does"), empty="There are no tools.")


@tool.command()
@click.argument("name")
@click.option("--json", "args_json", default="{}", metavar="ARGS", help="The arguments, a JSON object.")
@click.option("--yes", is_flag=True, help="Approve lane A actions without asking. External ones still ask.")
@click.option("--unsafe", is_flag=True, help="Run commands without a box. Said, logged and receipted.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(name: str, args_json: str, yes: bool, unsafe: bool, output: str) -> int:
    """Run one tool through the gate: decided, approved where needed, receipted.

    Exit code: 0 done, 1 failed, 3 denied, 4 approval needed or refused, 5 ESTOP.
    """
    with opened(unsafe=unsafe) as app:
        outcome = asyncio.run(run_tool(app, name, _arguments(app, name, args_json), yes=yes))
        if output == "json":
            print_json(
                {
                    "action_id": outcome.action.action_id,
                    "decision": outcome.action.decision,
                    "result": outcome.result,
                    "receipt": outcome.receipt,
                }
            )
        else:
            print_result(outcome.result.output, success=outcome.result.success)
        return exit_code(outcome)


def _arguments(app: "App", name: str, args_json: str) -> "JsonObject":
    from coilclaw.packets.canonical import NotCanonical, parse_object
    from coilclaw.packets.errors import UsageError
    from coilclaw.packets.names import did_you_mean

    if name not in app.tools:
        raise UsageError(f"there is no tool named {name!r}.", remedy=did_you_mean(name, app.tools))
    try:
        return parse_object(args_json)
    except NotCanonical as error:
        raise UsageError(f"--json: {error}") from error


async def run_tool(
    app: "App", name: str, args: "JsonObject", *, yes: bool, approve: "Approver | None" = None
) -> "Outcome":
    """Carry one call of the owner's own through the gate."""
    from coilclaw.channels.terminal import Terminal
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import ToolCall
    from coilclaw.packets.ids import new_id

    terminal = Terminal(assume_yes=yes)
    conveyor = app.conveyor(approve or terminal.approve, terminal.ask if terminal.interactive else None)
    await conveyor.recover()
    now = app.clock()
    turn = Turn(new_id("turn", now), "", "cli")
    action = conveyor.propose(ToolCall.of(name, args), turn, new_id("key", now))
    return await conveyor.carry(action, turn, stored=False)


def exit_code(outcome: "Outcome") -> int:
    """What a command ends with for this outcome."""
    if outcome.result.code == "ESTOP":
        return 5
    if outcome.receipt is None:
        return 4
    if outcome.receipt.status == "denied":
        return 4 if outcome.result.code in ("OWNER_REFUSED", "EXPIRED") else 3
    return 0 if outcome.receipt.status == "allowed" else 1
