"""coilclaw tls."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import print_wrapped, tell
from coilclaw.packets.errors import StorageError, UsageError

if TYPE_CHECKING:
    from coilclaw.secrets.certificates import Pair

AUTHORITY, SERVER = "tls-ca", "tls-server"


@click.group()
def tls() -> None:
    """Make certificates of your own, for a phone without a public name."""


@tls.command()
@click.option(
    "--name", "names", multiple=True, metavar="HOST", help="A name or address the phone opens; may be repeated."
)
@click.option(
    "--again", is_flag=True, help="Replace what is there; phones go on trusting the same authority if it fits."
)
def make(names: tuple[str, ...], again: bool) -> int:
    """Make an authority and a server certificate of your own.

    They are written into the home's keys/, and what the phone needs is shown. The authority can vouch for the given
    names and this machine alone. No setting is changed: the command that proposes to is printed. Private keys are
    never shown.
    """
    from coilclaw.secrets.certificates import make_authority, make_server, plain_names, standing_of, vouches_for

    with opened() as app:
        folder, now, server = app.home.keys_dir, app.clock(), app.config.server
    wanted = plain_names(names or _usual(server.public_url))
    there = folder / f"{SERVER}.crt"
    if there.exists() and not again:
        raise UsageError(f"{there} exists already.", remedy="Use it, or replace it with --again.")
    try:
        authority = _kept(folder)
        fresh = authority is None or not vouches_for(authority.certificate, wanted, now)
        if authority is None or fresh:
            authority = make_authority(wanted, now)
            _put(folder, AUTHORITY, authority.certificate, authority.key)
        made = make_server(authority, wanted, now)
        _put(folder, SERVER, made.certificate, made.key)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror}).") from error
    ends = standing_of(made.certificate).ends
    _show_code(authority.certificate)
    print_wrapped(f"Made {there}, good for {', '.join(wanted)} until {ends:%Y-%m-%d}.")
    _tell_settings(folder, wanted, server.http_addr.rpartition(":")[2])
    _tell_phone(folder / f"{AUTHORITY}.crt", authority.certificate, fresh=fresh)
    return 0


def _usual(public_url: str) -> tuple[str, ...]:
    """Without a name: the one people open already, or this machine's own on its network."""
    from urllib.parse import urlsplit

    host = urlsplit(public_url).hostname
    return (host or f"{os.uname().nodename.partition('.')[0]}.local",)


def _kept(folder: Path) -> "Pair | None":
    from coilclaw.secrets.certificates import Pair, standing_of

    certificate, key = folder / f"{AUTHORITY}.crt", folder / f"{AUTHORITY}.key"
    if not (certificate.exists() and key.exists()):
        return None
    pair = Pair(certificate=certificate.read_bytes(), key=key.read_bytes())
    try:
        standing_of(pair.certificate)
    except ValueError:
        return None
    return pair


def _put(folder: Path, name: str, certificate: bytes, key: bytes) -> None:
    """Write both, each whole and for the owner alone; the key first, so that no certificate is without its key."""
    for ending, data in (("key", key), ("crt", certificate)):
        partial = folder / f".{name}.{ending}.new"
        partial.unlink(missing_ok=True)
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / f"{name}.{ending}")


def _tell_settings(folder: Path, names: tuple[str, ...], port: str) -> None:
    """The command that has the server use them; passkeys belong to a name, so a name comes first."""
    from shlex import quote

    from coilclaw.runtime.phone_probes import is_address

    own = ("localhost",)  # which no other machine means by it
    name = next((name for name in names if not is_address(name) and name not in own), "")
    host = name or (f"[{names[0]}]" if ":" in names[0] else names[0])
    keys = {
        "tls_cert": f"{folder / SERVER}.crt",
        "tls_key": f"{folder / SERVER}.key",
        "public_url": f"https://{host}:{port}",
        "http_addr": f"0.0.0.0:{port}",
    }
    tell("\nHave the server use it, then start `coilclaw up` again:\n")
    tell("coilclaw config set" + "".join(f" \\\n  server.{key} {quote(value)}" for key, value in keys.items()))
    if not name:
        print_wrapped(
            f"\nPasskeys need a name, and {names[0]} is an address: with it a phone could approve nothing of weight."
        )
        print_wrapped(
            "Make it for a name that the phone finds, such as this machine's own on its network (--name HOST.local)."
        )


def _show_code(certificate: bytes) -> None:
    """The authority as a code to scan, where all of it fits; before the words, so that these stay in sight."""
    import shutil

    from coilclaw.cli.qr_code import qr_text

    if not sys.stdout.isatty():
        return
    screen = shutil.get_terminal_size()
    drawn = qr_text(certificate.decode(), screen.columns)
    if drawn and drawn.count("\n") < screen.lines:
        tell(drawn)
        tell("The authority's certificate as a code: scan it, and save the text as coilclaw-ca.crt.\n")
    else:
        tell("In a larger terminal, with --again, the authority is shown as a QR code too.\n")


def _tell_phone(file: Path, certificate: bytes, *, fresh: bool) -> None:
    """The authority's certificate is public; its fingerprint is what the owner compares."""
    from coilclaw.secrets.certificates import standing_of

    if not fresh:
        tell("\nThe authority is the one you had: phones that trust it need nothing new.")
    print_wrapped(f"\nInstall the authority on the phone (`coilclaw docs phone` says where): {file}")
    print_wrapped(f"Compare its SHA-256 fingerprint there: {standing_of(certificate).fingerprint}")
