"""coilclaw passkeys."""

import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_rows, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime
    from coilclaw.store.passkeys import Passkey
    from coilclaw.store.tx import Tx


class _TakesId(click.Command):
    """Takes ids that begin with a dash, as some passkeys' do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {name for each in self.get_params(ctx) if isinstance(each, click.Option) for name in each.opts}
        options = [arg for arg in args if arg in known]
        return super().parse_args(ctx, [*options, "--", *(arg for arg in args if arg not in known and arg != "--")])


@click.group()
def passkeys() -> None:
    """List your passkeys, or remove a lost one. They are registered in the panel."""


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
                "usable": each.rp_id == rp_id and each.suspended_at is None,
                "device_id": each.device_id,
                "created_at": each.created_at,
                "last_used_at": each.last_used_at,
                "suspended_at": each.suspended_at,
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
            "SUSPENDED" if each["suspended_at"] else "",
        )
        for each in told
    ]
    empty = "No passkey is registered: this terminal is the owner's proof."
    print_rows(rows, ("passkey", "name", "belongs to", "registered", "last used", ""), empty=empty)


def _day(when: object) -> str:
    return moment(str(when))[:10] if when else "never"


@passkeys.command(cls=_TakesId, short_help="Remove a lost passkey.")
@click.argument("passkey_id")
@click.option("--sign-out", is_flag=True, help="Also sign out the devices that used it, without asking.")
def remove(passkey_id: str, sign_out: bool) -> int:
    """Stop believing a passkey, at this terminal: the way back when it is lost. A unique beginning of its id will do.

    What it signed before stays valid. Asks whether the devices that used it are to be signed out. When the last one
    goes, this terminal proves you again.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("only the owner at an interactive terminal can remove a passkey.", remedy="Run it there.")
    from coilclaw.gate.enrolment import Enrolment

    with opened() as app:
        found = _find(app, passkey_id)
        tell(f"{found.credential_id}: {app.redact(found.name)!r}, registered {_day(found.created_at)}", err=True)
        typed = click.prompt(
            "Type the last 6 characters of its id to remove it", default="", show_default=False, err=True
        )
        enrolment = Enrolment(app.owner_proof, app.clock)
        app.db.write_now(lambda tx: enrolment.remove_at_terminal(tx, found.credential_id, typed.strip()))
        _offer_sign_out(app, found.credential_id, at_once=sign_out)
        left = app.owner_proof.registered(app.db.reader)
    tell(f"Removed.{'' if left else ' No passkey is left: this terminal is what proves the owner again.'}")
    return 0


def _offer_sign_out(app: "Runtime", passkey_id: str, *, at_once: bool) -> None:
    """Sign out the devices that used a passkey, if the owner says so: whoever had it may hold one of them too."""
    from coilclaw.features.devices.device_changes import TERMINAL, end_device
    from coilclaw.store.passkeys import devices_that_used

    used = devices_that_used(app.db.reader, passkey_id)
    if not used:
        return
    names = ", ".join(repr(app.redact(name)) for _, name in used)
    if not (at_once or click.confirm(f"Sign out the devices that used it ({names})?", default=False, err=True)):
        return

    def work(tx: "Tx") -> None:
        for device_id, _ in used:
            end_device(tx, app.clock, device_id, by=TERMINAL, why="passkey_removed")

    app.db.write_now(work)
    tell(f"Signed out: {names}.")


@passkeys.command(cls=_TakesId, short_help="Trust a suspended passkey again.")
@click.argument("passkey_id")
def clear(passkey_id: str) -> int:
    """Believe a passkey again that was suspended because its counter went back. A unique beginning of its id will do.

    A counter that goes back means that the passkey may have been copied. Clear it only if you know why it happened;
    otherwise remove it and register another.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("only the owner at an interactive terminal can clear a passkey.", remedy="Run it there.")
    from coilclaw.gate.enrolment import Enrolment

    with opened() as app:
        found = _find(app, passkey_id)
        if found.suspended_at is None:
            raise UsageError(f"{passkey_id!r} is not suspended.", remedy="See `coilclaw passkeys list`.")
        tell(f"{found.credential_id}: {app.redact(found.name)!r}, suspended {_day(found.suspended_at)}", err=True)
        typed = click.prompt(
            "Type the last 6 characters of its id to trust it again", default="", show_default=False, err=True
        )
        enrolment = Enrolment(app.owner_proof, app.clock)
        app.db.write_now(lambda tx: enrolment.clear_at_terminal(tx, found.credential_id, typed.strip()))
    tell("Cleared. The passkey is valid again.")
    return 0


def _find(app: "Runtime", passkey_id: str) -> "Passkey":
    from coilclaw.store.passkeys import list_passkeys

    fits = [each for each in list_passkeys(app.db.reader) if each.credential_id.startswith(passkey_id)]
    if passkey_id and len(fits) == 1:
        return fits[0]
    why = "is not a passkey" if not fits else "matches several passkeys"
    raise UsageError(f"{passkey_id!r} {why}.", remedy="See `coilclaw passkeys list`.")
