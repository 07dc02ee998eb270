"""Showing a pairing code: as text for everybody, as a QR code where there is a terminal to show it on."""

import sys
from typing import TYPE_CHECKING

from coilclaw.cli.output import tell

if TYPE_CHECKING:
    from sqlite3 import Connection

    from coilclaw.app import App
    from coilclaw.server.entry.pairing import Issued
    from coilclaw.store.pairing import Mode


def issue_code(app: "App", mode: "Mode") -> "tuple[Issued, bool]":
    """A fresh code, given out by the terminal, and whether one that was good until now counts no more."""
    import os

    from coilclaw.server.devices import TERMINAL
    from coilclaw.server.entry.pairing import Pairing

    config = app.config.server
    pairing = Pairing(clock=app.clock, minutes=config.pairing_minutes, token_days=config.token_days, random=os.urandom)

    def issue(tx: "Connection") -> "tuple[Issued, bool]":
        voided = pairing.any_good(tx)
        return pairing.issue(tx, mode=mode, by=TERMINAL, vouched=False), voided

    return app.db.write_now(issue)


def code_url(address: str, issued: "Issued") -> str:
    """What a phone opens: the code stands behind the #, which browsers send to nobody."""
    return f"{address}/#pair={issued.code}"


def reachable(address: str) -> bool:
    """Whether an address leads here from another machine too: a machine's own name for itself does not."""
    from urllib.parse import urlsplit

    from coilclaw.config.listening import is_loopback

    parts = urlsplit(address)
    host = parts.hostname or ""
    return parts.scheme == "https" and not is_loopback(host) and not host.endswith(".localhost")


def show_code(app: "App", issued: "Issued", address: str, *, voided: bool) -> None:
    """Print a code, where to type it, and until when."""
    minutes = app.config.server.pairing_minutes
    url = code_url(address, issued)
    beyond = reachable(address)
    if beyond and sys.stdout.isatty():
        from coilclaw.channels.qr import qr_text

        tell(qr_text(url))
    tell(f"Pairing code: {issued.code}")
    tell(f"Open {url} on the device, within {minutes} minutes. The code works once and stands five tries.")
    if voided:
        tell("The code that was shown before counts no more: one is good at a time.")
    if not beyond:
        tell("This address leads nowhere from another machine: for a phone see docs/server.md, `Beyond this machine`.")
    if issued.mode == "replace":
        tell("When it is used, every device that is paired now is signed out.")
