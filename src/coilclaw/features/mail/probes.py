"""What the doctor looks at: whether each account still works and may do what its tools need, and who may send."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.features.mail.accounts import IDENTITIES, WORDS, GoogleAccount, google_accounts
from coilclaw.packets.action import Identity, ToolCall
from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

SECONDS = 30.0


def mail_probes(app: "Runtime", *, ask: bool) -> list[Probe]:
    """A probe for each account, and one that the owner's own never sends. With `ask`, Google is asked for a token."""
    return [*(_account(app, identity, ask=ask) for identity in IDENTITIES), _never_sends(app)]


def _account(app: "Runtime", identity: Identity, *, ask: bool) -> Probe:
    name, connect = f"google {identity}", f"Run `coilclaw google connect --identity {identity}`."
    try:
        accounts = google_accounts(app)
        accounts.client(identity)
        account = accounts.state(identity)
        if account.state == "not_connected":
            return Probe(name=name, state="info", detail="not connected", remedy=connect)
        if account.state == "reconnect":
            return Probe(name=name, state="warn", detail="Google no longer accepts its permission", remedy=connect)
        if ask and not app.estop.engaged():
            asyncio.run(_asked(app, identity))
            account = accounts.state(identity)
    except TimeoutError:
        return Probe(name=name, state="warn", detail=f"Google did not answer within {SECONDS:.0f} seconds")
    except CoilclawError as error:
        return Probe(name=name, state="warn", detail=app.redact(error.message).rstrip("."), remedy=error.remedy)
    return _connected(name, account, connect)


async def _asked(app: "Runtime", identity: Identity) -> None:
    async with asyncio.timeout(SECONDS):
        await google_accounts(app).bearer(identity)


def _connected(name: str, account: GoogleAccount, connect: str) -> Probe:
    whose = account.mailbox or "connected"
    if account.missing:
        missing = ", ".join(WORDS[scope] for scope in account.missing)
        return Probe(name=name, state="warn", detail=f"{whose}; not allowed: {missing}", remedy=connect)
    return Probe(name=name, state="ok", detail=f"{whose}, with every scope its tools need and no other")


def _never_sends(app: "Runtime") -> Probe:
    """That a mail from the owner's own account is denied twice: by the gate, and by the airlock."""
    from coilclaw.gate.decision_input import Setting
    from coilclaw.gate.policy import decide
    from coilclaw.gate.turn import Turn
    from coilclaw.runtime.reachable import google_refuses

    call = ToolCall.of("gmail_send_draft", {"draft_id": "r0"}, identity="user")
    inspected = app.inspector.inspect(call, Turn("turn_check", "", "chat"))
    decision = decide(inspected.facts, app.policy(), Setting(source="chat"))
    open_ways = ["the gate"] if decision.verdict != "deny" else []
    paths = ("drafts/send", "messages/send")
    open_ways += [
        f"the airlock ({path})"
        for path in paths
        if not google_refuses(app.config, "user", f"/gmail/v1/users/me/{path}")
    ]
    if open_ways:
        detail = f"not denied by {', '.join(open_ways)}"
        return Probe(
            name="user never sends", state="fail", detail=detail, remedy="Report this; disconnect the account."
        )
    return Probe(name="user never sends", state="ok", detail="sending from your account is denied by gate and airlock")
