"""Showing a pairing code: as text for everybody, as a QR code where there is a terminal to show it on."""

import sys
from typing import TYPE_CHECKING

from coilclaw.cli.output import print_wrapped, tell

if TYPE_CHECKING:
    from coilclaw.features.devices.code_exchange import Issued, Pairing
    from coilclaw.features.devices.store import Mode
    from coilclaw.runtime import Runtime
    from coilclaw.store.tx import Tx


def pairing_of(app: "Runtime") -> "Pairing":
    """What gives codes out and lets devices in, as the configuration has it."""
    import os

    from coilclaw.features.devices.code_exchange import Pairing

    config = app.config.server
    return Pairing(clock=app.clock, minutes=config.pairing_minutes, token_days=config.token_days, random=os.urandom)


def issue_code(app: "Runtime", mode: "Mode") -> "tuple[Issued, bool]":
    """A fresh code, given out by the terminal, and whether one that was good until now counts no more."""
    from coilclaw.features.devices.device_changes import TERMINAL

    pairing = pairing_of(app)

    def issue(tx: "Tx") -> "tuple[Issued, bool]":
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


def show_code(app: "Runtime", issued: "Issued", address: str, *, voided: bool) -> None:
    """Print a code, where to type it, and until when."""
    minutes = app.config.server.pairing_minutes
    url = code_url(address, issued)
    beyond = reachable(address)
    if beyond and sys.stdout.isatty():
        from coilclaw.cli.qr_code import qr_text

        tell(qr_text(url))
    tell(f"Pairing code: {issued.code}")
    print_wrapped(f"Open {url} on the device, within {minutes} minutes. The code works once and allows five attempts.")
    if voided:
        tell("The previous code is no longer valid: only one code is valid at a time.")
    if not beyond:
        print_wrapped("Other machines cannot reach this address. For a phone: `coilclaw docs phone`.")
    if issued.mode == "replace":
        tell("Using it signs out every device that is paired now.")
