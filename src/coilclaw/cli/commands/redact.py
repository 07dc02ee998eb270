"""coilclaw redact."""

import os
import sys

import click

from coilclaw.packets.errors import UsageError


@click.command()
@click.option("--register-env", "names", multiple=True, metavar="NAME", help="Also redact this variable's value.")
def redact(names: tuple[str, ...]) -> None:
    """Copy stdin to stdout without secrets: registered values, known token shapes, secrets by their context."""
    from coilclaw.secrets.redactor import Redactor

    redactor = Redactor()
    for name in names:
        value = os.environ.get(name)
        if not value:
            raise UsageError(
                f"the environment variable {name} is not set.", remedy="Export it, or leave the option out."
            )
        redactor.register(name, value)
    redactor.filter(sys.stdin.buffer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
