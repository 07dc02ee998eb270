"""coilclaw google: connect the owner's and the bot's accounts, look at them, disconnect them."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_result, print_rows, print_wrapped, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.packets.action import Identity
    from coilclaw.runtime import Runtime

_identity = click.option(
    "--identity",
    type=click.Choice(["user", "bot"]),
    required=True,
    help="Your own account (user), or the bot's own (bot).",
)


@click.group()
def google() -> None:
    """Connect Google accounts for mail and calendar: your own, and one of the bot's.

    From your own account it reads and writes drafts, and never sends. The bot sends from its own, each mail after your
    approval. See docs/google.md.
    """


@google.command(short_help="Sign in and connect an account.")
@_identity
@click.option("--paste", is_flag=True, help="For a machine without a browser: paste the address it ended at.")
def connect(identity: "Identity", paste: bool) -> int:
    """Sign in at Google in your browser, then approve what was granted. Nothing is kept before your approval."""
    from coilclaw.cli.commands.tool import run_tool
    from coilclaw.cli.signing_in import at_the_browser
    from coilclaw.features.mail.signing_in import account_of, begin_sign_in, connect_call

    with opened() as app:
        if not app.config.google.configured:
            raise UsageError(
                "[google] has no client_id.",
                remedy="`coilclaw docs google` says how to get one; then `coilclaw config set google.client_id ID`.",
            )
        intro = f"Open this address in your browser and sign in as the {identity} account:"
        at_the_browser(app, account_of(identity), partial(begin_sign_in, app, identity), intro, paste=paste)
        outcome = asyncio.run(run_tool(app, connect_call(app, identity), yes=False, source="gateway"))
        print_result(outcome.result.output, success=outcome.result.success)
        return _told(app, outcome)


@google.command(short_help="Show the accounts and what they may do.")
@json_option
def status(as_json: bool) -> None:
    """Show both accounts: whose mailbox, what was allowed, when it was last used, and what went wrong."""
    from coilclaw.features.mail.owner_accounts import OwnerAccounts

    with opened() as app:
        accounts = OwnerAccounts(app)
        found = accounts.views() if accounts.configured else []
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each.identity,
            each.state.replace("_", " ") if each.state != "reconnect" else "connect it again",
            each.mailbox or "-",
            ", ".join(scope.words for scope in each.scopes if scope.granted) or "-",
            ", ".join(scope.words for scope in each.scopes if not scope.granted) or "-",
            moment(each.last_used_at) if each.last_used_at else "never",
            each.last_error or "-",
        )
        for each in found
    ]
    empty = "No account is connected, and Google is not set up yet: `coilclaw docs google` leads there step by step."
    print_rows(rows, ("identity", "state", "mailbox", "may", "may not", "last used", "last error"), empty=empty)


@google.command(short_help="Revoke an account's permission and forget it.")
@_identity
def disconnect(identity: "Identity") -> int:
    """Revoke an account's permission at Google, and forget it here even if that failed."""
    from coilclaw.features.mail.accounts import google_accounts

    with opened() as app:
        ended = asyncio.run(google_accounts(app).disconnect(identity))
    tell(str(ended))
    return 0


@google.command(short_help="Write a procedure: what needs an answer today.")
def sop() -> int:
    """Write the procedure `needs-answer` into the workspace: it searches unread mail and leaves a note."""
    from coilclaw.features.mail.procedure import NAME, write_procedure

    with opened() as app:
        path = write_procedure(app)
    print_wrapped(f"Wrote {path}. Run it with `coilclaw sop run {NAME}`, or on a schedule.")
    return 0


def _told(app: "Runtime", outcome: "Outcome") -> int:
    from coilclaw.cli.commands.tool import exit_code
    from coilclaw.cli.phrases import waits_for

    if outcome.pending:
        tell(waits_for(app, outcome.action), err=True)
    return exit_code(outcome)
