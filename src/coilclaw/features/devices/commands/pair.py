"""coilclaw pair."""

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json
from coilclaw.packets.errors import UsageError


@click.command()
@click.option("--add", "mode", flag_value="add", help="Pair another device and keep the existing ones.")
@click.option("--replace", "mode", flag_value="replace", help="Pair a device and sign all others out.")
@json_option
def pair(mode: str | None, as_json: bool) -> None:
    """Show a one-time code that lets a phone or browser in, as text and QR code.

    The code before it counts no more. The server must be running: `coilclaw up`. With a passkey registered, the new
    device can do nothing until the passkey has vouched for it.
    """
    from coilclaw.features.devices.pairing_code import code_url, issue_code, show_code
    from coilclaw.server.server_lock import running_address

    wanted = "add" if mode == "add" else "replace" if mode == "replace" else "first"
    with opened() as app:
        address = running_address(app.home.locks_dir)
        if address is None:  # `up` shows a code of its own, and this one would count no more
            raise UsageError(
                "the server is not running, so a pairing code could not be used.",
                remedy="Start it with `coilclaw up`, which shows a code for the first device; then run this again.",
            )
        issued, voided = issue_code(app, wanted)
        if as_json:
            print_json({"code": issued.code, "expires_at": issued.expires_at, "url": code_url(address, issued)})
            return
        show_code(app, issued, address, voided=voided)
