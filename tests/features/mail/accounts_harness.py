"""A home whose `[google]` leads to the shipped fake, and an owner who consents."""

import msgspec

from coilclaw.config.google import Google
from coilclaw.runtime.reachable import listing_of
from coilclaw.sandbox.fake_google import FakeGoogle
from tests.runtime.oauth_harness import consent

PROFILE = "/gmail/v1/users/me/profile"
SECRET = "GOOGLE_CLIENT_SECRET"
ENVIRON = {SECRET: "fake-google-secret"}
OWNER, BOT = "owner@example.com", "bot@example.com"


def fake_google(**options):
    """Google, where the owner's mailbox consents."""
    return FakeGoogle(OWNER, BOT, **options)


def section(fake, **fields):
    """The section `[google]` that leads to a fake."""
    told = {
        "client_id": fake.client_id,
        "client_secret_env": SECRET,
        "authorize_url": fake.url("/o/oauth2/v2/auth"),
        "token_url": fake.url("/token"),
        "revoke_url": fake.url("/revoke"),
        "gmail_url": fake.base_url,
        "calendar_url": fake.base_url,
    }
    return Google(**{**told, **fields})


def lead_to(home, fake):
    """Have an open home use a fake."""
    home.app.config = msgspec.structs.replace(home.app.config, google=section(fake))
    home.app.airlock.listing = listing_of(home.app.config)
    home.app.__dict__.pop("tools", None)


async def connect(accounts, identity):
    """Connect by the whole flow, the address pasted."""
    shown = []
    return await accounts.connect(identity, shown.append, lambda: consent(shown[0]))
