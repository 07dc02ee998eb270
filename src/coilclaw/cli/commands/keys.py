"""coilclaw keys."""

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, tell


@click.group()
def keys() -> None:
    """Look after the key that stored secrets are encrypted with."""


@keys.command()
def rotate() -> int:
    """Encrypt everything that is stored with a new key.

    A key file is followed by a new one. A key in COILCLAW_ENCRYPTION_KEY_B64 is followed by the one in
    COILCLAW_ENCRYPTION_KEY_NEW_B64, which then takes its place in your environment. Interrupted, it can be run again:
    everything stays readable.
    """
    from coilclaw.runtime.keyring import rotate_keys

    with opened() as app:
        key_id, count = rotate_keys(app)
        by_environment = app.vault.by_environment
    tell(f"{counted(count, 'value')} encrypted with the key {key_id}.")
    if by_environment:
        tell("Now set COILCLAW_ENCRYPTION_KEY_B64 to that key, for every service too, and restart them.", err=True)
    return 0
