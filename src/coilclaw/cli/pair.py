"""coilclaw pair."""

import click

from coilclaw.cli.output import json_option, print_json, tell
from coilclaw.cli.session import opened


@click.command()
@click.option("--add", "mode", flag_value="add", help="Let a device in beside those that are paired.")
@click.option("--replace", "mode", flag_value="replace", help="Let a device in and sign all others out.")
@json_option
def pair(mode: str | None, as_json: bool) -> None:
    """Show a one-time code that lets a phone or browser in, as text and QR code.

    The code before it is void. The server must be running: `coilclaw up`. With a passkey registered, the new device
    can do nothing until the passkey has vouched for it.
    """
    from coilclaw.app.alone import running_address
    from coilclaw.cli.code import code_url, issue_code, show_code

    wanted = "add" if mode == "add" else "replace" if mode == "replace" else "first"
    with opened() as app:
        running = running_address(app.home.locks_dir)
        address = running or app.address
        issued = issue_code(app, wanted)
        if as_json:
            print_json({"code": issued.code, "expires_at": issued.expires_at, "url": code_url(address, issued)})
            return
        show_code(app, issued, address)
        if running is None:
            tell("The server is not running: start it with `coilclaw up`.", err=True)
