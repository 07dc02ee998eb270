"""coilclaw devices."""

from typing import TYPE_CHECKING

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_line, print_rows
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime
    from coilclaw.store.devices import DeviceRow

MOST = 1000
NAME_LENGTH = 80


@click.group()
def devices() -> None:
    """List, rename or sign out paired phones and browsers."""


@devices.command("list")
@click.option("--all", "everything", is_flag=True, help="Include devices that were signed out.")
@json_option
def list_all(everything: bool, as_json: bool) -> None:
    """List paired devices, the newest first."""
    from coilclaw.packets.ids import stamp
    from coilclaw.store.devices import active_devices, list_devices

    with opened() as app:
        active = {row.device_id for row in active_devices(app.db.reader, stamp(app.clock()))}
        rows = [row for row in list_devices(app.db.reader, limit=MOST) if everything or row.device_id in active]
        told = [_told(app, row, active=row.device_id in active) for row in rows]
    if as_json:
        print_json(told)
        return
    shown = [
        (each["device_id"], each["name"], each["state"], _day(each["created_at"]), _day(each["last_seen_at"]))
        for each in told
    ]
    empty = "No device is paired. `coilclaw pair` shows a pairing code."
    print_rows(shown, ("device", "name", "state", "paired", "last seen"), empty=empty)


def _told(app: "Runtime", row: "DeviceRow", *, active: bool) -> dict[str, str]:
    if row.revoked_at is not None:
        state = "signed out"
    elif not active:
        state = "expired"
    else:
        state = "paired" if row.confirmed_at is not None else "unconfirmed"
    return {
        "device_id": row.device_id,
        "name": app.redact(row.name),
        "state": f"{state}, for MCP alone" if row.scope else state,
        "created_at": row.created_at,
        "last_seen_at": row.last_seen_at or "",
    }


def _day(when: str) -> str:
    return moment(when)[:10] if when else "never"


@devices.command()
@click.argument("device_id", shell_complete=completion.devices)
def revoke(device_id: str) -> None:
    """Sign a device out at once, whatever it is doing."""
    from coilclaw.features.devices.device_changes import TERMINAL, end_device

    with opened() as app:
        _known(app, device_id)
        ended = app.db.write_now(lambda tx: end_device(tx, app.clock, device_id, by=TERMINAL, why="revoked"))
    print_line(f"{device_id} is signed out." if ended else f"{device_id} was already signed out.")


@devices.command()
@click.argument("device_id", shell_complete=completion.devices)
@click.argument("name")
def rename(device_id: str, name: str) -> None:
    """Give a device another name."""
    from coilclaw.features.devices.device_changes import TERMINAL, name_device

    check_name(name)
    with opened() as app:
        _known(app, device_id)
        app.db.write_now(lambda tx: name_device(tx, app.clock, device_id, name, by=TERMINAL))
    print_line(f"{device_id} is now called {name}.")


def check_name(name: str) -> None:
    """Raise unless a device may be called so."""
    if not name.strip() or len(name) > NAME_LENGTH or not name.isprintable():
        raise UsageError("that is not a valid name.", remedy=f"Give 1 to {NAME_LENGTH} printable characters.")


def _known(app: "Runtime", device_id: str) -> None:
    from coilclaw.store.devices import load_device

    if load_device(app.db.reader, device_id) is None:
        raise UsageError(f"there is no device {device_id!r}.", remedy="See `coilclaw devices list --all`.")
