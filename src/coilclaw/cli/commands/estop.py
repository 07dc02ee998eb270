"""coilclaw estop."""

import os
import sqlite3
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click

from coilclaw.cli.log import logger_from
from coilclaw.cli.open_home import here, opened
from coilclaw.cli.output import tell
from coilclaw.gate.estop import Estop, note_estop
from coilclaw.packets.errors import CoilclawError, ProofNeeded, StorageError, UsageError
from coilclaw.packets.ids import stamp, utc_now
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime

WAIT_SECONDS = 0.5
"""A stop does not wait for a database that is busy."""


@click.command()
@click.option(
    "--clear",
    is_flag=True,
    help="Resume. Needs an interactive terminal, and only works while no passkey is registered.",
)
@click.option("--status", is_flag=True, help="Only report whether it is engaged (exit 5 if so).")
@click.option("--reason", default="by hand", show_default=True, help="The reason, for the audit.")
def estop(clear: bool, status: bool, reason: str) -> int:
    """Stop every effect at once: no tool starts, what runs is ended, the agent still answers in text."""
    stop = Estop(here().estop_file)
    if status:
        engaged = stop.engaged()
        tell("ESTOP is engaged" if engaged else "not engaged")
        return 5 if engaged else 0
    try:
        if clear:
            return _clear(stop)
        stop.engage(reason, stamp(utc_now()))
    except OSError as error:
        raise StorageError(f"{stop.file} cannot be changed ({error.strerror}).", remedy="Check the home.") from error
    _note()
    logger_from(os.environ).say("info", "estop_triggered", {"path": str(stop.file), "reason": reason})
    tell(f"ESTOP engaged: {stop.file}. {way_out(_any_passkey())}")
    _stop_elsewhere()
    return 0


def _stop_elsewhere() -> None:
    """Stop what runs in GitHub Actions too, as far as that can be done now; here everything is stopped already."""
    import asyncio

    from coilclaw.config import load

    try:
        forge = load(here(), os.environ).config.forge
        if forge.kind != "github" or forge.github.execute != "actions":
            return  # a home that cannot be opened is stopped all the same
        with opened() as app:
            ask = app.extensions.stop_elsewhere
            fault = None if ask is None else asyncio.run(ask(app))
    except (CoilclawError, OSError, ValueError, sqlite3.Error) as error:
        fault = str(error)
    if fault is None:
        return
    if fault:
        tell(f"GitHub Actions were not told: {fault} Set the variable COILCLAW_STOP there yourself.", err=True)
    else:
        tell("GitHub Actions were told: the variable COILCLAW_STOP is set. Delete it there before you clear ESTOP.")


def _note() -> None:
    """Tell the audit, unless the database is busy or broken: then a worker does, or whoever clears the stop.

    The reason stays in the file: without an open home nobody here knows every secret that could stand in it.
    """
    from coilclaw.config import load
    from coilclaw.ledger.cover import Cover
    from coilclaw.ledger.heads import SigningKey
    from coilclaw.store.database import Connection

    with suppress(CoilclawError, OSError, ValueError, sqlite3.Error):
        path = load(here(), os.environ).config.memory.path
        cover = Cover(SigningKey(here().keys_dir), utc_now)
        opened_db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=WAIT_SECONDS, factory=Connection)
        with closing(opened_db) as db:
            cover.prepare(db)
            with db:
                db.execute("BEGIN IMMEDIATE")
                begun = cover.begun(db)
                note_estop(db, utc_now, engaged=True, by="terminal")
                cover.ending(db, begun)
            cover.written(db)


def way_out(passkey: bool | None) -> str:
    """How ESTOP is cleared; both ways where it cannot be known whether there is a passkey."""
    if passkey is None:
        return "Clear it in the panel with your passkey, or with `coilclaw estop --clear` while there is none."
    return "Clear it in the panel, with your passkey." if passkey else "Clear it with `coilclaw estop --clear`."


def _any_passkey() -> bool | None:
    """Whether the owner has a passkey, as far as it can be read; nothing is made, and nothing here may fail."""
    from coilclaw.config import load
    from coilclaw.store.passkeys import any_passkey

    try:
        path = load(here(), os.environ).config.memory.path
        if not path.exists():
            return False
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=WAIT_SECONDS)) as db:
            return any_passkey(db)
    except (CoilclawError, OSError, ValueError, sqlite3.Error):
        return None


def _clear(stop: Estop) -> int:
    if not stop.engaged():
        tell("ESTOP was not engaged.")
        return 0
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("clearing ESTOP needs the owner at an interactive terminal.", remedy="Run it there.")
    with opened() as app:  # a home that cannot be opened has nothing that could go on
        if app.owner_proof.needed(app.db.reader, "C", "terminal"):
            raise ProofNeeded(
                "a passkey is registered, so clearing ESTOP needs it: it stays engaged.",
                remedy="Clear it in the panel with your passkey.",
            )
        if not click.confirm("Clear ESTOP and let tools run again?", default=False, prompt_suffix=" ", err=True):
            tell("ESTOP stays engaged.")
            return 4
        app.db.write_now(lambda tx: _cleared(app, tx))
        stop.clear()
    tell("ESTOP cleared.")
    return 0


def _cleared(app: "Runtime", tx: Tx) -> None:
    """Asked once more where it counts: a passkey may have come while the question stood there."""
    app.owner_proof.require(tx, lane="C", purpose="estop.clear", subject="estop", by="terminal", assertion=None)
    why = app.redact(app.estop.state().reason)
    note_estop(tx, app.clock, engaged=True, reason=why)  # whoever set it may not have been able to tell
    note_estop(tx, app.clock, engaged=False, by="terminal")
