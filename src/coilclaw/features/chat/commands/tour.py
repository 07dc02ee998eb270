"""coilclaw tour."""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli.commands.tool import exit_code
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, print_line, tell
from coilclaw.cli.phrases import receipt_word

if TYPE_CHECKING:
    from coilclaw.agent.loop import Reply
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.runtime import Runtime

QUESTION = "What files are in this workspace?"


@click.command()
@click.option("--once", is_flag=True, help="Only run in an unused home, and not while ESTOP is engaged.")
def tour(once: bool) -> int:
    """One real turn on the built-in mock: a call through the gate, its receipt, the ledger verified."""
    from coilclaw.config import MockModel, Providers

    with opened() as app:
        if once and (app.estop.engaged() or _was_used(app)):
            return 0
        app.config = msgspec.structs.replace(
            app.config, default_provider="tour", default_model="", providers=Providers(models={"tour": MockModel()})
        )
        print_line(f"› {QUESTION}", style="cyan")
        reply = asyncio.run(_turn(app))
        tell(reply.text)
        for outcome in reply.outcomes:
            _show(outcome)
    if not _verified():
        return 6
    codes = [exit_code(outcome) for outcome in reply.outcomes] or [1]
    if any(codes):
        return max(codes)
    program = _program()
    tell(
        "\nTry next:\n"
        f"  {program} onboard          choose a real model\n"
        f"  {program} agent            talk to it\n"
        f'  {program} tool run shell --json \'{{"command": "git log --oneline"}}\'   a call that asks first\n'
        f"  {program} receipt list     what happened, provably\n"
        f"  {program} estop            stop everything"
    )
    return 0


def _was_used(app: "Runtime") -> bool:
    """Receipts are never deleted: where there is one, or was one when it was signed, somebody was here before."""
    from coilclaw.ledger.chain import list_receipts

    mark = app.signing_key.mark()
    return bool(list_receipts(app.db.reader, 1)) or (mark is not None and mark.size > 0)


def _show(outcome: "Outcome") -> None:
    receipt, decision = outcome.receipt, outcome.action.decision
    if receipt is None:
        return
    done = receipt.status == "allowed"
    print_line(
        f"{'✓' if done else '✗'} {receipt.id}: {receipt.tool} {receipt_word(receipt.status, receipt.code)}, "
        f"{decision.risk_word} risk ({decision.risk}) – {decision.reasons[0]}",
        style="green" if done else "red",
    )


def _verified() -> bool:
    from coilclaw.ledger.live_verify import verify_live

    with opened() as app:
        report = verify_live(app.config.memory.path, app.config.receipts.path, app.signing_key)
    if report.broken is not None:
        print_line(f"✗ invalid chain at receipt {report.broken.receipt}: {report.broken.kind}", style="red")
        return False
    print_line(
        f"✓ the ledger is intact: {counted(report.receipts, 'receipt')}, {counted(report.heads, 'signed head')}",
        style="green",
    )
    return True


def _program() -> str:
    """How this program is called from here: by its name if that finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    here = Path.cwd()
    return str(called.relative_to(here)) if called.is_relative_to(here) else str(called)


async def _turn(app: "Runtime") -> "Reply":
    from coilclaw.cli.terminal import Terminal
    from coilclaw.features.chat.agent import agent_of
    from coilclaw.features.chat.post_message import post
    from coilclaw.packets.ids import new_id

    conveyor = app.conveyor(Terminal().approve)
    return await post(agent_of(app, conveyor), app, new_id("conv", app.clock()), QUESTION, None)
