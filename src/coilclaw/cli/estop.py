"""coilclaw estop."""

import os
import sys

import click

from coilclaw.cli.log import logger_from
from coilclaw.cli.session import here
from coilclaw.gate.estop import Estop
from coilclaw.packets.errors import StorageError, UsageError
from coilclaw.packets.ids import stamp, utc_now


@click.command()
@click.option("--clear", is_flag=True, help="Let things go on. Needs an interactive terminal.")
@click.option("--status", is_flag=True, help="Only say whether it is engaged (exit 5 if so).")
@click.option("--reason", default="by hand", show_default=True, help="Why, for the record.")
def estop(clear: bool, status: bool, reason: str) -> int:
    """Stop every effect at once: no tool starts, what runs is ended, the agent still answers in text."""
    stop = Estop(here().estop_file)
    if status:
        engaged = stop.engaged()
        click.echo("ESTOP is engaged" if engaged else "not engaged")
        return 5 if engaged else 0
    try:
        if clear:
            return _clear(stop)
        stop.engage(reason, stamp(utc_now()))
    except OSError as error:
        raise StorageError(f"{stop.file} cannot be changed ({error.strerror}).", remedy="Check the home.") from error
    logger_from(os.environ).say("info", "estop_triggered", {"path": str(stop.file), "reason": reason})
    click.echo(f"ESTOP engaged: {stop.file}. Clear it with `coilclaw estop --clear`.")
    return 0


def _clear(stop: Estop) -> int:
    if not stop.engaged():
        click.echo("ESTOP was not engaged.")
        return 0
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("clearing ESTOP needs the owner at an interactive terminal.", remedy="Run it there.")
    if not click.confirm("Clear ESTOP and let tools run again?", default=False, err=True):
        click.echo("ESTOP stays engaged.")
        return 4
    stop.clear()
    click.echo("ESTOP cleared.")
    return 0
