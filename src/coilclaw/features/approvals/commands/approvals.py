"""coilclaw approvals."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli import completion
from coilclaw.cli.background import see_out
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_result, print_rows, print_wrapped, tell
from coilclaw.cli.phrases import action_words, result_words
from coilclaw.cli.yolo_warning import warn_of_yolo
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import ProofNeeded, UsageError

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor, Outcome
    from coilclaw.packets.action import Action
    from coilclaw.packets.card import Card
    from coilclaw.runtime import Runtime


LAST = "last"
"""Instead of an id: the newest."""
WORKER_SECONDS, POLL_SECONDS = 20.0, 0.2
"""How long `approve` waits for a worker that carries an action out, and how often it looks."""


@click.group()
def approvals() -> None:
    """See what is waiting for your approval, and answer."""


@approvals.command("list")
@json_option
def list_pending(as_json: bool) -> None:
    """List what waits, the newest first."""
    from coilclaw.store.actions import waiting_actions

    with opened() as app:
        warn_of_yolo(app)
        asyncio.run(_tidy(app))
        waiting = waiting_actions(app.db.reader, 1000)
        what = [app.redact(app.inspector.in_short(each.call)) for each in waiting]
    if as_json:
        print_json(waiting)
        return
    if sys.stdout.isatty():
        rows = [
            (told, a.decision.risk_word, moment(a.expires_at), a.action_id)
            for told, a in zip(what, waiting, strict=True)
        ]
        print_rows(rows, ("what", "risk", "expires", "action"), empty="Nothing is waiting for you.")
        return
    rows = [
        (a.action_id, a.call.tool, a.decision.risk_word, a.decision.lane, a.source, moment(a.expires_at), told)
        for told, a in zip(what, waiting, strict=True)
    ]
    columns = ("action", "tool", "risk", "lane", "from", "expires", "what")
    print_rows(rows, columns, empty="Nothing is waiting for you.")


@approvals.command(short_help="Show an action's approval card: what it would do, and why it asks.")
@click.argument("action_id", shell_complete=completion.actions("PENDING", "APPROVED"))
@json_option
def show(action_id: str, as_json: bool) -> None:
    """Show the card of an action, or of the `last` that waits: what it would do, what changes, why it asks."""
    with opened() as app:
        card = app.conveyor(nobody).intake.card(_waiting(app, action_id))
    if as_json:
        print_json(card)
        return
    show_card(card)


@approvals.command(short_help="Approve one action at the terminal.")
@click.argument("action_id", shell_complete=completion.actions("PENDING", "APPROVED"))
@click.option("--unsafe", is_flag=True, help="Run commands without a box. This is announced, logged and receipted.")
def approve(action_id: str, unsafe: bool) -> int:
    """Approve an action, or the `last` that waits, at the terminal: exactly the stored bytes, once.

    It is carried out at once, or by the worker if one is running. What governs the agent is approved in the panel
    once you have a passkey.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "only the owner at an interactive terminal can approve; nothing was answered.",
            remedy="Run it there, or answer in the panel.",
        )
    from coilclaw.cli.terminal import Terminal

    with opened(unsafe=unsafe) as app:
        warn_of_yolo(app)
        action = _waiting(app, action_id)
        edits = action.source in ("chat", "cli")  # a job or a session goes by what it proposed itself
        return asyncio.run(approve_here(app, action, Terminal(edits=edits)))


@approvals.command()
@click.argument("action_id", shell_complete=completion.actions("PENDING", "APPROVED"))
@click.option("--reason", default="", help="The reason; the agent sees it.")
def reject(action_id: str, reason: str) -> int:
    """Reject an action, or the `last` that waits, with a reason."""
    with opened() as app:
        asyncio.run(reject_here(app, _waiting(app, action_id), reason))
    return 0


async def reject_here(app: "Runtime", action: "Action", reason: str) -> None:
    """Write down the owner's no."""
    conveyor = app.conveyor(nobody)
    await conveyor.recover()  # a terminal that was killed at its question still holds it
    await app.approvals(conveyor).reject(action, reason=reason)
    tell(f"Rejected {action.action_id}.")
    await go_on(app, action)


def show_card(card: "Card") -> None:
    """All of a card: page by page at a terminal, as text elsewhere."""
    from coilclaw.cli.card_text import describe
    from coilclaw.cli.terminal import Terminal

    terminal = Terminal()
    if terminal.interactive and sys.stdout.isatty():
        asyncio.run(terminal.show(card))
    else:
        tell(describe(card))


async def approve_here(app: "Runtime", action: "Action", terminal: "Terminal") -> int:
    """Show the card, take the owner's answer and carry it out; the exit code of what came of it."""
    from coilclaw.cli.commands.estop import way_out
    from coilclaw.packets.ids import from_stamp

    conveyor = app.conveyor(nobody)
    if app.estop.engaged():
        passkey = app.owner_proof.registered(app.db.reader)
        tell(f"ESTOP is engaged: the action keeps waiting until you clear it. {way_out(passkey)}", err=True)
        return 5
    await conveyor.recover()  # a terminal that was killed at its question still holds it
    if from_stamp(action.expires_at) <= app.clock():
        answered = await app.approvals(conveyor).approve(action, by="terminal", digest=action.digest)
    elif action.status == "PENDING":
        card = await conveyor.intake.shown(action)
        if card.lane != action.decision.lane:
            raise UsageError(
                f"{action.action_id} would have another effect now than when it was proposed.",
                remedy="If it is a command that was to run in a box, approve it without --unsafe; else reject it.",
            )
        if app.owner_proof.needed(app.db.reader, action.decision.lane, "terminal"):
            raise ProofNeeded(
                f"a passkey is registered, so {action.action_id} needs it: the action keeps waiting.",
                remedy="Approve it in the panel with your passkey.",
            )
        answer = await terminal.approve(card)
        if answer.approved is None:
            told = f"{action.action_id} keeps waiting: `coilclaw approvals approve {action.action_id}` asks again."
            print_wrapped(f"{told} In the panel you can answer too.", err=True)
            return 4
        if not answer.approved:
            outcome = await app.approvals(conveyor).reject(action, reason=answer.reason)
            code = 4
            if answer.edited is not None:
                code = await _carry_own(app, action, answer.edited, terminal)
            else:
                print_result(result_words(outcome.result), success=False)
            await go_on(app, action)
            return code
        answered = await app.approvals(conveyor).approve(
            action, by="terminal", digest=card.digest, seen=card.seen, from_now_on=answer.from_now_on
        )
    else:
        answered = action
    try:
        code = await carry_out(app, conveyor, answered)
        await go_on(app, action)
    finally:
        await see_out(app)
    return code


async def _carry_own(app: "Runtime", action: "Action", args: bytes, terminal: "Terminal") -> int:
    """Carry out what the owner wrote instead; the exit code of what came of it."""
    from coilclaw.cli.commands.tool import exit_code
    from coilclaw.gate.owner_edit import carry_edited
    from coilclaw.packets.ids import new_id

    conveyor = app.conveyor(terminal.approve)
    turn = conveyor.intake.turn_of(action)
    try:
        outcome = await carry_edited(conveyor, turn, action, args, new_id("key", app.clock()))
    finally:
        await see_out(app)
    print_result(result_words(outcome.result), success=outcome.result.success)
    return exit_code(outcome)


async def go_on(app: "Runtime", action: "Action") -> None:
    """Go on with the turn this call belongs to, if that was its last answer and no worker does."""
    from coilclaw.gate.executor import worker_is_running

    resume = app.extensions.resume
    if resume is not None and not app.estop.engaged() and not worker_is_running(app.home.locks_dir):
        await resume(app, action.turn_id)


async def carry_out(app: "Runtime", conveyor: "Conveyor", answered: "Action | Outcome") -> int:
    """Do what was approved, here and now, unless a worker does; the exit code of what came of it."""
    from coilclaw.cli.commands.tool import exit_code
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.gate.executor import worker_is_running

    if isinstance(answered, Outcome):  # it could not be approved any more
        print_result(result_words(answered.result), success=False)
        return exit_code(answered)
    if answered.source == "session":
        tell(f"Approved {answered.action_id}; it counts once, when its session asks for exactly that.")
        return 0
    if worker_is_running(app.home.locks_dir):
        return await _executed_by_worker(app, answered)
    outcome = await conveyor.execute(answered)
    if outcome is None:
        held = app.estop.engaged()
        tell(f"Approved {answered.action_id}; {'ESTOP holds it' if held else 'it is held, or another process has it'}.")
        return 5 if held else 0
    print_result(result_words(outcome.result), success=outcome.result.success)
    return exit_code(outcome)


async def _executed_by_worker(app: "Runtime", action: "Action") -> int:
    """Wait for what a worker makes of an approved action, as long as a person would, and tell it."""
    from coilclaw.store.actions import load_action, result_of

    tell(f"Approved {action.action_id}; the worker will execute it.", err=True)
    for _ in range(round(WORKER_SECONDS / POLL_SECONDS)):
        now = load_action(app.db.reader, action.action_id)
        if now is None or now.status not in ("PENDING", "APPROVED"):
            result = result_of(app.db.reader, action.action_id)
            if now is None or result is None:
                break
            print_result(result_words(result), success=result.success)
            return 0 if now.status == "EXECUTED" else 1
        await asyncio.sleep(POLL_SECONDS)
    tell(f"It has not ended yet: `coilclaw actions show {action.action_id}` tells how it goes.")
    return 0


async def _tidy(app: "Runtime") -> None:
    executor = app.executor(app.conveyor(nobody))
    try:
        await executor.tidy()
        await executor.expire()
    finally:
        await see_out(app)


def find_action(app: "Runtime", action_id: str) -> "Action":
    """A stored action, `last` for the newest, or an error with the nearest id."""
    from coilclaw.packets.names import did_you_mean
    from coilclaw.store.actions import list_actions, load_action

    if action_id == LAST and (newest := list_actions(app.db.reader, None, 1)):
        return newest[0]
    action = load_action(app.db.reader, action_id)
    if action is None:
        recent = [each.action_id for each in list_actions(app.db.reader, None, 100)]
        raise UsageError(f"there is no action {action_id!r}.", remedy=did_you_mean(action_id, recent))
    return action


def _waiting(app: "Runtime", action_id: str) -> "Action":
    """An action that waits for an answer, or was approved and not carried out yet; `last` is the newest that waits."""
    from coilclaw.store.actions import waiting_actions

    if action_id == LAST:
        waiting = waiting_actions(app.db.reader, 1)
        if not waiting:
            raise UsageError("nothing is waiting for you.")
        return waiting[0]
    action = find_action(app, action_id)
    if action.status not in ("PENDING", "APPROVED"):
        raise UsageError(
            f"{action_id} {action_words(app.db.reader, action)}; it is no longer waiting.",
            remedy="`coilclaw approvals list` shows what is.",
        )
    return action


if TYPE_CHECKING:
    from coilclaw.cli.terminal import Terminal
