"""coilclaw passkeys."""

import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.output import json_option, moment, print_json, print_rows, tell
from coilclaw.cli.session import opened
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.store.passkeys import Passkey


@click.group()
def passkeys() -> None:
    """See which passkeys prove you, or remove one that is lost. They are registered in the panel."""


@passkeys.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List the passkeys that are registered, the oldest first."""
    from coilclaw.store.passkeys import list_passkeys

    with opened() as app:
        rp_id = app.passkey_place().rp_id
        told = [
            {
                "passkey_id": each.credential_id,
                "name": app.redact(each.name),
                "belongs_to": each.rp_id,
                "usable": each.rp_id == rp_id,
                "device_id": each.device_id,
                "created_at": each.created_at,
                "last_used_at": each.last_used_at,
            }
            for each in list_passkeys(app.db.reader)
        ]
    if as_json:
        print_json(told)
        return
    rows = [
        (
            str(each["passkey_id"]),
            str(each["name"]),
            str(each["belongs_to"]),
            _day(each["created_at"]),
            _day(each["last_used_at"]),
        )
        for each in told
    ]
    empty = "No passkey is registered: this terminal is what proves you."
    print_rows(rows, ("passkey", "name", "belongs to", "registered", "last used"), empty=empty)


def _day(when: object) -> str:
    return moment(str(when))[:10] if when else "never"


@passkeys.command(short_help="Stop believing a passkey that is lost.")
@click.argument("passkey_id")
def remove(passkey_id: str) -> int:
    """Stop believing a passkey, at this terminal: the way back when it is lost. A unique beginning of its id will do.

    What it signed before stays valid. When the last one goes, this terminal proves you again.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("removing a passkey needs the owner at an interactive terminal.", remedy="Run it there.")
    from coilclaw.gate.enrolment import Enrolment

    with opened() as app:
        found = _find(app, passkey_id)
        tell(f"{found.credential_id}: {app.redact(found.name)!r}, registered {_day(found.created_at)}", err=True)
        typed = click.prompt(
            "Type the last 6 characters of its id to remove it", default="", show_default=False, err=True
        )
        enrolment = Enrolment(app.owner_proof, app.clock)
        app.db.write_now(lambda tx: enrolment.remove_at_terminal(tx, found.credential_id, typed.strip()))
        left = app.owner_proof.registered(app.db.reader)
    tell(f"Removed.{'' if left else ' No passkey is left: this terminal is what proves you again.'}")
    return 0


def _find(app: "App", passkey_id: str) -> "Passkey":
    from coilclaw.store.passkeys import list_passkeys

    fits = [each for each in list_passkeys(app.db.reader) if each.credential_id.startswith(passkey_id)]
    if passkey_id and len(fits) == 1:
        return fits[0]
    why = "is no passkey" if not fits else "is the beginning of several"
    raise UsageError(f"{passkey_id!r} {why}.", remedy="See `coilclaw passkeys list`.")
