"""coilclaw pair."""

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, tell
from coilclaw.packets.errors import UsageError


@click.command()
@click.option("--add", "mode", flag_value="add", help="Pair another device and keep the existing ones.")
@click.option("--replace", "mode", flag_value="replace", help="Pair a device and sign all others out.")
@click.option(
    "--for", "scope", type=click.Choice(["mcp"]), help="Print a token that opens /mcp alone, for an MCP client."
)
@click.option("--name", default="MCP client", show_default=True, help="What to call that client.")
@json_option
def pair(mode: str | None, scope: str | None, name: str, as_json: bool) -> None:
    """Show a one-time code that lets a phone or browser in, as text and QR code.

    The code before it counts no more. The server must be running: `coilclaw up`. With a passkey registered, the new
    device can do nothing until the passkey has vouched for it.
    """
    if scope is not None:
        _client(name, as_json=as_json)
        return
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


def _client(name: str, *, as_json: bool) -> None:
    """Let in an MCP client: its token is shown this once."""
    from coilclaw.features.devices.commands.devices import check_name
    from coilclaw.features.devices.pairing_code import pairing_of
    from coilclaw.store.devices import load_device

    check_name(name)
    with opened() as app:
        bound = app.db.write_now(lambda tx: pairing_of(app).let_in_client(tx, name))
        device = load_device(app.db.reader, bound.device_id)
    if as_json:
        print_json({"device_id": bound.device_id, "token": bound.token, "expires_at": bound.expires_at})
        return
    tell("The token, shown this once; it opens /mcp and nothing else:", err=True)
    tell(bound.token)
    if device is not None and device.confirmed_at is None:
        tell("It counts once you have confirmed the device in the panel, with your passkey.", err=True)
    tell(f"`coilclaw devices revoke {bound.device_id}` takes it back.", err=True)
