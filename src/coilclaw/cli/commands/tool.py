"""coilclaw tool."""

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_result, print_rows, tell
from coilclaw.cli.phrases import result_words, waits_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.gate.conveyor import Approver, Outcome
    from coilclaw.packets.action import Action, Identity, Source, ToolCall, ToolResult
    from coilclaw.runtime import Runtime
    from coilclaw.store.tx import Tx


@click.group()
def tool() -> None:
    """List tools, or run one through the gate."""


@tool.command("list", short_help="List every tool and whether this channel may use it.")
@json_option
def list_tools(as_json: bool) -> None:
    """List every tool, what it does to the world, and whether this channel may use it."""
    with opened() as app:
        allowed = app.allowed_tools
        if as_json:
            from coilclaw.gate.identities import shown_parameters

            print_json(
                [
                    {
                        "name": each.name,
                        "description": each.description,
                        "effect": each.effect,
                        "destination": each.destination,
                        "idempotent": each.idempotent,
                        "allowed": each.name in allowed,
                        "parameters": shown_parameters(each),
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


@tool.command(short_help="Run one tool through the gate, with a receipt.")
@click.argument("name", shell_complete=completion.tools)
@click.option("--json", "args_json", default="{}", metavar="ARGS", help="The arguments, a JSON object.")
@click.option("--yes", is_flag=True, help="Do not ask about what stays on this machine. What leaves it still asks.")
@click.option("--unsafe", is_flag=True, help="Run commands without a box. This is announced, logged and receipted.")
@click.option("--key", metavar="KEY", help="Your own idempotency key: the same call with it is executed once.")
@click.option("--identity", type=click.Choice(["user", "bot"]), help="In whose name, for tools that act at an account.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(
    name: str,
    args_json: str,
    yes: bool,
    unsafe: bool,
    key: str | None,
    identity: "Identity | None",
    output: str,
) -> int:
    """Run one tool through the gate: decided, approved where needed, receipted.

    Exit code: 0 done, 1 failed, 3 denied, 4 approval needed or rejected, 5 ESTOP.
    """
    with opened(unsafe=unsafe) as app:
        outcome = asyncio.run(run_tool(app, _typed(name, args_json, identity), yes=yes, key=key))
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
            if outcome.pending:
                tell(waits_for(app, outcome.action), err=True)
        return exit_code(outcome)


def _typed(name: str, args_json: str, identity: "Identity | None") -> "ToolCall":
    """The call as a model's would be read: what makes no sense is denied by the gate, with a receipt."""
    from coilclaw.gate.proposal import typed_call
    from coilclaw.packets.chat import ProposedCall

    given = args_json or " "  # nothing is not {}
    return typed_call(ProposedCall(call_id="", tool=name, arguments=given, identity=identity))


async def run_tool(
    app: "Runtime",
    call: "ToolCall",
    *,
    yes: bool,
    approve: "Approver | None" = None,
    key: str | None = None,
    source: "Source" = "cli",
    project_id: str = "",
    also: "Callable[[Tx, Action], None] | None" = None,
) -> "Outcome":
    """Carry one call of the owner's own through the gate, in the workspace or a project.

    A key that was used for the same call returns its record. `also` writes in the commit that stores how it
    stands.
    """
    from coilclaw.cli.background import see_out
    from coilclaw.cli.terminal import Terminal
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.ids import new_id

    terminal = Terminal(assume_yes=yes)
    conveyor = app.conveyor(approve or terminal.approve, terminal.ask if terminal.interactive else None)
    await app.executor(conveyor).tidy()
    await see_out(app)
    now = app.clock()
    turn = Turn(new_id("turn", now), project_id, source)
    if key is not None:
        _check_key(key)
        known = await conveyor.intake.known(call, key)
        if known is not None:
            return _recorded(app, known)
    action = await conveyor.intake.proposed(call, turn, key if key is not None else new_id("key", now))
    try:

        def record(tx: "Tx", _: "ToolResult") -> None:
            if also is not None:
                also(tx, action)

        return await conveyor.carry(action, turn, stored=False, record=record)
    except sqlite3.IntegrityError:  # somebody used the key in this very moment
        known = await conveyor.intake.known(call, action.idempotency_key)
        if known is None:
            raise
        return _recorded(app, known)
    finally:
        await app.leave()


def _check_key(key: str) -> None:
    from coilclaw.packets.errors import UsageError

    if not (key.isascii() and key.isprintable() and 0 < len(key) <= 200 and key == key.strip()):
        raise UsageError("--key needs 1 to 200 printable ASCII characters.", remedy="Use a UUID, for instance.")


def _recorded(app: "Runtime", action: "Action") -> "Outcome":
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
        return 0 if outcome.running else 4
    if outcome.receipt.status == "denied":
        return 4 if outcome.result.code in ("OWNER_REFUSED", "EXPIRED") else 3
    return 0 if outcome.receipt.status == "allowed" else 1
