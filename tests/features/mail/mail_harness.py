"""A home with both accounts connected to the shipped Google."""

from coilclaw.features.mail.accounts import PROVIDER, SCOPES
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.fake_google import SCOPE
from coilclaw.store.oauth import put_token
from tests.features.mail.accounts_harness import BOT, ENVIRON, OWNER, section
from tests.features.mail.discovery import Checked
from tests.home import Sample


class MailHome(Sample):
    """A home that asks of Google only what Google's own documents describe."""

    def __init__(self, folder, **options):
        super().__init__(folder, environ=ENVIRON, **options)
        self.checked = self.app.__dict__["transport"] = Checked(self.app.airlock)

    def close(self):
        super().close()
        assert self.checked.faults == []


def connected(folder, fake, **options):
    """An open home whose owner has connected both accounts."""
    home = MailHome(folder, google=section(fake), **options)
    for identity, address in (("user", OWNER), ("bot", BOT)):
        connect(home.app, fake, identity, address, SCOPES[identity])
    return home


def connect(app, fake, identity, address, scopes):
    """Store the permission that an owner's consent would have brought."""
    _, refresh = fake.connected(address, *(scope.removeprefix(SCOPE) for scope in scopes))
    kept = {"provider": PROVIDER, "identity": identity, "refresh_token": refresh, "scopes": tuple(scopes)}
    app.db.write_now(lambda tx: put_token(tx, utc_now, app.vault, **kept))


async def carry(home, tool, identity=None, turn=None, key=None, **args):
    """Take one call through the gate."""
    conveyor = home.conveyor()
    turn = turn or Turn("turn_1", "", "cli")
    if "identity_" in args:
        args["identity"] = args.pop("identity_")  # as an argument, where a native call has it
    call = ToolCall.of(tool, args, identity=identity)
    action = await conveyor.intake.proposed(call, turn, key or f"key-{len(home.events)}")
    return await conveyor.carry(action, turn, stored=False)
