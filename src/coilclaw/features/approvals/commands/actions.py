"""coilclaw actions."""

import asyncio
import sys
from typing import TYPE_CHECKING, cast

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_rows, tell
from coilclaw.cli.phrases import action_words, result_words
from coilclaw.features.approvals.commands.approvals import carry_out, find_action, show_card
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.gate.approvals import Verdict
    from coilclaw.packets.action import Action, Status
    from coilclaw.runtime import Runtime

STATUSES = ("PENDING", "APPROVED", "EXECUTED", "REJECTED", "FAILED", "UNKNOWN")


@click.group()
def actions() -> None:
    """List actions, resolve those whose end nobody knows, or propose again what was rejected or denied."""


@actions.command("list")
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only actions with this status.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
def list_all(status: str | None, limit: int, as_json: bool) -> None:
    """List actions, the newest first."""
    from coilclaw.store.actions import list_actions

    with opened() as app:
        found = list_actions(app.db.reader, cast("Status | None", status.upper() if status else None), limit)
    if as_json:
        print_json(found)
        return
    rows = [
        (a.action_id, a.status, a.call.tool, a.decision.lane, a.source, str(a.attempt), a.rejection_reason or "")
        for a in found
    ]
    print_rows(rows, ("action", "status", "tool", "lane", "from", "tries", "reason"), empty="There are no actions.")


@actions.command(short_help="Show one action.")
@click.argument("action_id", shell_complete=completion.actions())
@json_option
def show(action_id: str, as_json: bool) -> None:
    """Show one action as it stands; `audit explain` tells its whole story."""
    from coilclaw.store.actions import result_of

    with opened() as app:
        action = find_action(app, action_id)
        result = result_of(app.db.reader, action_id)
    if as_json:
        print_json({"action": action, "result": result})
        return
    rows = [
        ("action", action.action_id),
        ("status", f"{action.status}{f' ({action.rejection_reason})' if action.rejection_reason else ''}"),
        ("tool", action.call.tool),
        ("args", action.call.args_bytes.decode("utf-8")),
        ("lane, risk", f"{action.decision.lane}, {action.decision.risk}"),
        ("approved by", action.approved_by or "nobody"),
        ("attempts", str(action.attempt)),
        ("digest", action.digest),
        ("key", action.idempotency_key),
        ("made, expires", f"{moment(action.created_at)}, {moment(action.expires_at)}"),
        ("result", result_words(result)[:500] if result is not None else "none yet"),
    ]
    print_rows(rows, ("what", "value"), empty="")


@actions.command(short_help="Record how an UNKNOWN action ended, or run it again.")
@click.argument("action_id", shell_complete=completion.actions("UNKNOWN"))
@click.argument("verdict", type=click.Choice(["executed", "not-executed", "retry"]))
def resolve(action_id: str, verdict: str) -> int:
    """Say how an action of UNKNOWN end really ended, or have it done again.

    Look at the other end first: `retry` sends the same bytes with the same idempotency key once more.
    """
    _owner_is_here("resolving")
    with opened() as app:
        return asyncio.run(_resolve(app, find_action(app, action_id), cast("Verdict", verdict)))


@actions.command()
@click.argument("action_id", shell_complete=completion.actions("REJECTED", "FAILED"))
def repropose(action_id: str) -> int:
    """Propose what was rejected or denied again, by your own hand.

    The bytes are the same, and the card says where they came from.
    """
    _owner_is_here("proposing again")
    with opened() as app:
        new = asyncio.run(_repropose(app, find_action(app, action_id)))
        if new.status != "PENDING":
            tell(f"{new.action_id} {action_words(app.db.reader, new)}.")
            return 0 if new.status == "EXECUTED" else 3
        show_card(app.conveyor(nobody).intake.card(new))
    tell(f"It is waiting for approval. Answer with: coilclaw approvals approve {new.action_id}")
    return 0


async def _resolve(app: "Runtime", action: "Action", verdict: "Verdict") -> int:
    from coilclaw.gate.conveyor import Outcome

    conveyor = app.conveyor(nobody)
    answered = await app.approvals(conveyor).resolve(action, verdict, by="terminal")
    if isinstance(answered, Outcome):
        tell(f"{action.action_id} {action_words(app.db.reader, answered.action)}.")
        return 0
    return await carry_out(app, conveyor, answered)


async def _repropose(app: "Runtime", action: "Action") -> "Action":
    return await app.approvals(app.conveyor(nobody)).repropose(action)


def _owner_is_here(doing: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{doing} needs the owner at an interactive terminal.", remedy="Run it there.")
