"""coilclaw tour."""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli.output import counted, print_line, tell
from coilclaw.cli.session import opened

if TYPE_CHECKING:
    from coilclaw.agent.loop import Reply
    from coilclaw.app import App

QUESTION = "What files are in this workspace?"


@click.command()
def tour() -> int:
    """One real turn on the built-in mock: a call through the gate, its receipt, the ledger verified."""
    from coilclaw.config import MockModel, Providers
    from coilclaw.ledger.live_verify import verify_live

    with opened() as app:
        app.config = msgspec.structs.replace(
            app.config, default_provider="tour", default_model="", providers=Providers(models={"tour": MockModel()})
        )
        print_line(f"› {QUESTION}", style="cyan")
        reply = asyncio.run(_turn(app))
        tell(reply.text)
        for outcome in reply.outcomes:
            receipt = outcome.receipt
            decision = outcome.action.decision
            if receipt is not None:
                print_line(
                    f"✓ {receipt.id}: {receipt.tool} {receipt.status}, {decision.risk} {decision.risk_word} – "
                    f"{decision.reasons[0]}",
                    style="green",
                )
    with opened() as app:
        report = verify_live(app.db.path, app.config.receipts.path, app.signing_key)
    if report.broken is not None:
        print_line(f"invalid chain at receipt {report.broken.receipt}: {report.broken.kind}", style="red")
        return 6
    print_line(
        f"✓ the ledger is intact: {counted(report.receipts, 'receipt')}, {counted(report.heads, 'signed head')}",
        style="green",
    )
    program = _program()
    tell(
        "\nTry next:\n"
        f"  {program} onboard          choose a real model\n"
        f"  {program} agent            talk to it\n"
        f'  {program} tool run shell --json \'{{"command": "git log --oneline"}}\'   a call that asks first\n'
        f"  {program} receipt list     what happened, provably\n"
        f"  {program} estop            stop everything"
    )
    return 0 if reply.outcomes and all(outcome.receipt for outcome in reply.outcomes) else 1


def _program() -> str:
    """How this program is called from here: by its name if that finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    here = Path.cwd()
    return str(called.relative_to(here)) if called.is_relative_to(here) else str(called)


async def _turn(app: "App") -> "Reply":
    from coilclaw.channels.terminal import Terminal
    from coilclaw.cli.turns import post
    from coilclaw.packets.ids import new_id

    conveyor = app.conveyor(Terminal().approve)
    return await post(app.agent(conveyor), app, new_id("conv", app.clock()), QUESTION, None)
