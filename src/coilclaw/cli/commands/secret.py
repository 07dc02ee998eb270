"""coilclaw secret."""

import re
import sys

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_rows, print_wrapped, tell
from coilclaw.packets.errors import UsageError

MOST_BYTES = 64 * 1024


@click.group()
def secret() -> None:
    """Store keys and tokens encrypted, instead of in the environment."""


@secret.command("set", short_help="Store a secret under a name.")
@click.argument("name")
def set_value(name: str) -> int:
    """Keep a secret under the NAME that `api_key_env` or `secret_env` names; a variable of that name still comes first.

    The value is asked for, or read from stdin; never give it as an argument.
    """
    from coilclaw.runtime.keyring import set_secret

    if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,127}", name):
        raise UsageError(f"{name!r} is not a valid variable name.", remedy="Use capitals, such as OPENROUTER_API_KEY.")
    with opened() as app:
        weak = set_secret(app, name, ask_value(f"value of {name}"))
        used = name in app.keyring.names
    tell(f"Stored {name}.")
    if weak:
        tell(f"This value is too weak to redact reliably: {weak}.", err=True)
    if not used:
        from coilclaw.cli.commands.onboard import HOSTED

        leads = " `coilclaw onboard` sets up the model." if any(name == each.api_key_env for each in HOSTED) else ""
        print_wrapped(f"Nothing in config.toml refers to {name} yet.{leads}", err=True)
    return 0


def ask_value(what: str) -> str:
    """A secret, asked for at a terminal without being shown, or read from stdin."""
    if sys.stdin.isatty():
        return str(click.prompt(what[0].upper() + what[1:], hide_input=True, default="", show_default=False, err=True))
    data = sys.stdin.buffer.read(MOST_BYTES + 2)
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UsageError("the secret is not UTF-8 text.") from error


@secret.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List names and dates; values are never shown."""
    from coilclaw.store.stored_secrets import list_secrets

    with opened() as app:
        found = [each for each in list_secrets(app.db.reader) if not each.name.startswith("coilclaw:")]  # our own
    if as_json:
        print_json(found)
        return
    rows = [(each.name, moment(each.created_at), moment(each.updated_at)) for each in found]
    print_rows(rows, ("name", "stored", "changed"), empty="There are no stored secrets.")


@secret.command()
@click.argument("name")
def remove(name: str) -> int:
    """Forget a secret."""
    from coilclaw.runtime.keyring import forget_secret

    with opened() as app:
        if not forget_secret(app, name):
            raise UsageError(f"there is no stored secret {name!r}.", remedy="See `coilclaw secret list`.")
    tell(f"Removed {name}.")
    return 0
