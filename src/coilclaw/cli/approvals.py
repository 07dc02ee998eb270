"""coilclaw approvals."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.output import json_option, print_json, print_result, print_rows
from coilclaw.cli.session import opened
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.packets.action import Action
    from coilclaw.packets.card import Answer, Card


@click.group()
def approvals() -> None:
    """See what waits for you, and answer."""


@approvals.command("list")
@json_option
def list_pending(as_json: bool) -> None:
    """List what waits, the newest first."""
    from coilclaw.store.actions import waiting_actions

    with opened() as app:
        asyncio.run(app.conveyor(_nobody).recover())
        waiting = waiting_actions(app.db.reader, 1000)
    if as_json:
        print_json(waiting)
        return
    rows = [
        (a.action_id, a.call.tool, a.decision.risk_word, a.decision.lane, a.expires_at[:16].replace("T", " "))
        for a in waiting
    ]
    print_rows(rows, ("action", "tool", "risk", "lane", "expires"), empty="Nothing waits for you.")


@approvals.command()
@click.argument("action_id")
@json_option
def show(action_id: str, as_json: bool) -> None:
    """Show the card of an action: what it would do, the difference it makes, why it asks."""
    with opened() as app:
        card = app.conveyor(_nobody).card(_pending(app, action_id))
    if as_json:
        print_json(card)
        return
    from coilclaw.channels.terminal import describe

    click.echo(describe(card))


@approvals.command()
@click.argument("action_id")
@click.option("--unsafe", is_flag=True, help="Run commands without a box. Said, logged and receipted.")
def approve(action_id: str, unsafe: bool) -> int:
    """Approve an action at the terminal and run it: exactly the stored bytes, once."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("approving needs the owner at an interactive terminal.", remedy="Run it there.")
    from coilclaw.channels.terminal import Terminal

    return _answer(action_id, Terminal().approve, unsafe=unsafe)


@approvals.command()
@click.argument("action_id")
@click.option("--reason", default="", help="Why; the agent is told.")
def reject(action_id: str, reason: str) -> int:
    """Refuse an action, with a reason."""
    from coilclaw.packets.card import Answer

    async def no(_: "Card") -> "Answer":
        return Answer(approved=False, reason=reason)

    with opened() as app:
        asyncio.run(_carry(app, _pending(app, action_id), no))
    click.echo(f"Refused {action_id}.")
    return 0


def _answer(action_id: str, approver: "Approver", *, unsafe: bool) -> int:
    from coilclaw.cli.tool import exit_code

    with opened(unsafe=unsafe) as app:
        action = _pending(app, action_id)
        outcome = asyncio.run(_carry(app, action, approver))
        print_result(outcome.result.output, success=outcome.result.success)
        return exit_code(outcome)


async def _carry(app: "App", action: "Action", approver: "Approver") -> "Outcome":
    return await app.conveyor(approver).resume(action)


async def _nobody(_: "Card") -> "Answer":
    from coilclaw.packets.card import Answer

    return Answer(approved=None)


def _pending(app: "App", action_id: str) -> "Action":
    from coilclaw.packets.names import did_you_mean
    from coilclaw.store.actions import load_action, waiting_actions

    action = load_action(app.db.reader, action_id)
    if action is None:
        waiting = [each.action_id for each in waiting_actions(app.db.reader, 100)]
        raise UsageError(f"there is no action {action_id!r}.", remedy=did_you_mean(action_id, waiting))
    if action.status != "PENDING":
        why = f" ({action.rejection_reason})" if action.rejection_reason else ""
        raise UsageError(f"{action_id} is {action.status}{why}; it no longer waits.")
    return action


if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Approver
