"""coilclaw actions."""

import asyncio
import sys
from typing import TYPE_CHECKING, cast

import click

from coilclaw.cli import completion
from coilclaw.cli.background import see_out
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_result, print_rows, tell
from coilclaw.cli.phrases import action_word, action_words, result_words, waits_for
from coilclaw.features.approvals.commands.approvals import carry_out, find_action, go_on
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
        what = [app.redact(app.inspector.in_short(each.call)) for each in found]
    if as_json:
        print_json(found)
        return
    if sys.stdout.isatty():
        rows = [(told, action_word(a), moment(a.created_at), a.action_id) for told, a in zip(what, found, strict=True)]
        print_rows(rows, ("what", "status", "when", "action"), empty="There are no actions.")
        return
    rows = [
        (a.action_id, a.status, a.call.tool, a.decision.lane, a.source, str(a.attempt), a.rejection_reason or "", told)
        for told, a in zip(what, found, strict=True)
    ]
    columns = ("action", "status", "tool", "lane", "from", "tries", "reason", "what")
    print_rows(rows, columns, empty="There are no actions.")


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


@actions.command(short_help="End a command that runs in the background.")
@click.argument("action_id", shell_complete=completion.actions("APPROVED"))
def stop(action_id: str) -> int:
    """End a command that runs in the background, with everything it started; whichever process runs it."""
    with opened() as app:
        return asyncio.run(_stop(app, find_action(app, action_id)))


@actions.command()
@click.argument("action_id", shell_complete=completion.actions("REJECTED", "FAILED"))
def repropose(action_id: str) -> int:
    """Propose what was rejected or denied again, by your own hand.

    The bytes are the same, and the card says where they came from. You are asked at once.
    """
    _owner_is_here("proposing again")
    with opened() as app:
        return asyncio.run(_repropose(app, find_action(app, action_id)))


async def _resolve(app: "Runtime", action: "Action", verdict: "Verdict") -> int:
    from coilclaw.gate.conveyor import Outcome

    conveyor = app.conveyor(nobody)
    answered = await app.approvals(conveyor).resolve(action, verdict, by="terminal")
    if isinstance(answered, Outcome):
        tell(f"{action.action_id} {action_words(app.db.reader, answered.action)}.")
        return 0
    try:
        return await carry_out(app, conveyor, answered)
    finally:
        await see_out(app)


async def _stop(app: "Runtime", action: "Action") -> int:
    from coilclaw.store.running import running_since

    conveyor = app.conveyor(nobody)
    await conveyor.recover()  # what a process that died left has its end by now
    if running_since(app.db.reader, action.action_id) is None:
        action = find_action(app, action.action_id)
        raise UsageError(
            f"{action.action_id} {action_words(app.db.reader, action)}; it does not run in the background."
        )
    await app.db.write(lambda tx: conveyor.records.note(tx, "tool_stopped", action, {"by": "terminal"}))
    if not await app.background.end(action.action_id):
        tell(f"{action.action_id} was told to end, and has not ended yet.", err=True)
        return 1
    tell(f"{action.action_id} {action_words(app.db.reader, find_action(app, action.action_id))}.")
    return 0


async def _repropose(app: "Runtime", action: "Action") -> int:
    from coilclaw.cli.terminal import Terminal
    from coilclaw.store.actions import result_of

    new = await app.approvals(app.conveyor(Terminal().approve)).repropose(action)
    if new.status in ("PENDING", "APPROVED"):
        tell(waits_for(app, new))
        return 0
    result = result_of(app.db.reader, new.action_id)
    print_result(result_words(result) if result else action_words(app.db.reader, new), success=new.status == "EXECUTED")
    await go_on(app, new)
    if new.status == "REJECTED":
        return 4 if result is not None and result.code == "OWNER_REFUSED" else 3
    return 0 if new.status == "EXECUTED" else 1


def _owner_is_here(doing: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{doing} needs the owner at an interactive terminal.", remedy="Run it there.")
