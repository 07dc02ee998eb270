"""coilclaw tool."""

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import click

from coilclaw.cli import candidates
from coilclaw.cli.output import json_option, print_json, print_result, print_rows
from coilclaw.cli.session import opened
from coilclaw.cli.words import result_words

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.gate.conveyor import Approver, Outcome
    from coilclaw.packets.action import Action
    from coilclaw.packets.canonical import JsonObject


@click.group()
def tool() -> None:
    """List tools, or run one through the gate."""


@tool.command("list", short_help="List every tool and whether this channel may use it.")
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
        print_rows(rows, ("tool", "effect", "where", "may use", "what it does"), empty="There are no tools.")


@tool.command(short_help="Run one tool through the gate, and receipt it.")
@click.argument("name", shell_complete=candidates.tools)
@click.option("--json", "args_json", default="{}", metavar="ARGS", help="The arguments, a JSON object.")
@click.option("--yes", is_flag=True, help="Approve lane A actions without asking. External ones still ask.")
@click.option("--unsafe", is_flag=True, help="Run commands without a box. Said, logged and receipted.")
@click.option("--key", metavar="KEY", help="An idempotency key of yours: the same call with it is done once.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(name: str, args_json: str, yes: bool, unsafe: bool, key: str | None, output: str) -> int:
    """Run one tool through the gate: decided, approved where needed, receipted.

    Exit code: 0 done, 1 failed, 3 denied, 4 approval needed or rejected, 5 ESTOP.
    """
    with opened(unsafe=unsafe) as app:
        outcome = asyncio.run(run_tool(app, name, _arguments(app, name, args_json), yes=yes, key=key))
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
            print_result(result_words(outcome.result), success=outcome.result.success)
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
    app: "App",
    name: str,
    args: "JsonObject",
    *,
    yes: bool,
    approve: "Approver | None" = None,
    key: str | None = None,
) -> "Outcome":
    """Carry one call of the owner's own through the gate. A key that was used for the same call returns its record."""
    from coilclaw.channels.terminal import Terminal
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import ToolCall
    from coilclaw.packets.ids import new_id

    terminal = Terminal(assume_yes=yes)
    conveyor = app.conveyor(approve or terminal.approve, terminal.ask if terminal.interactive else None)
    await app.executor(conveyor).tidy()
    now = app.clock()
    turn = Turn(new_id("turn", now), "", "cli")
    call = ToolCall.of(name, args)
    if key is not None:
        _check_key(key)
        known = await conveyor.known(call, key)
        if known is not None:
            return _recorded(app, known)
    action = conveyor.propose(call, turn, key if key is not None else new_id("key", now))
    try:
        return await conveyor.carry(action, turn, stored=False)
    except sqlite3.IntegrityError:  # somebody used the key in this very moment
        known = await conveyor.known(call, action.idempotency_key)
        if known is None:
            raise
        return _recorded(app, known)


def _check_key(key: str) -> None:
    from coilclaw.packets.errors import UsageError

    if not (key.isascii() and key.isprintable() and 0 < len(key) <= 200 and key == key.strip()):
        raise UsageError("--key needs 1 to 200 printable ASCII characters.", remedy="Use a UUID, for instance.")


def _recorded(app: "App", action: "Action") -> "Outcome":
    """What is on record of an earlier call with the same key."""
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.ledger.chain import find_receipts
    from coilclaw.packets.action import ToolResult
    from coilclaw.store.actions import result_of

    result = result_of(app.db.reader, action.action_id)
    if result is None:
        text = f"{action.action_id} has this key and is {action.status}."
        result = ToolResult(success=False, output=text, error=text, code="APPROVAL_NEEDED")
    receipts = find_receipts(app.db.reader, action.action_id)
    return Outcome(action=action, result=result, receipt=receipts[-1] if receipts else None)


def exit_code(outcome: "Outcome") -> int:
    """What a command ends with for this outcome."""
    if outcome.result.code == "ESTOP":
        return 5
    if outcome.receipt is None:
        return 4
    if outcome.receipt.status == "denied":
        return 4 if outcome.result.code in ("OWNER_REFUSED", "EXPIRED") else 3
    return 0 if outcome.receipt.status == "allowed" else 1
