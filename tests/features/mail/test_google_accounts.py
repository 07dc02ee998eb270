"""The two accounts at Google: their scopes, their mailboxes, and how they end."""

import asyncio
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from coilclaw.airlock import Listing
from coilclaw.config import Config
from coilclaw.config.google import Google, google_faults
from coilclaw.config.show import named_secrets
from coilclaw.features.mail.accounts import CALENDAR, COMPOSE, READ, SCOPES, SEND, google_accounts
from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.packets.errors import OAuthError, ReconnectNeeded, UsageError
from coilclaw.runtime.reachable import listing_of
from coilclaw.sandbox.fake_oauth import OAuthReply
from coilclaw.store.meta import read_meta, write_meta
from tests.features.mail.accounts_harness import ENVIRON, PROFILE, connect, fake_google, lead_to, section
from tests.home import Sample
from tests.runtime.oauth_harness import consent


@pytest.fixture
def fake():
    with fake_google() as made:
        yield made


@pytest.fixture
def home(tmp_path, fake):
    made = Sample(tmp_path, environ=ENVIRON)
    lead_to(made, fake)
    yield made
    made.close()


@pytest.fixture
def accounts(home):
    return google_accounts(home.app)


def renewals(fake):
    return [each for each in fake.asked("/token") if each["grant_type"] == "refresh_token"]


def events(home, kind):
    return [each.entity_id for each in last_events(home.app.db.reader, Wanted(event_type=kind), 10)]


# Connecting


@pytest.mark.parametrize(
    ("identity", "asked"),
    [
        ("user", "gmail.readonly gmail.compose calendar.readonly"),
        ("bot", "gmail.readonly gmail.send gmail.compose"),
    ],
)
async def test_each_identity_asks_for_its_scopes_and_nothing_else(accounts, fake, identity, asked):
    shown = []
    await accounts.connect(identity, shown.append, lambda: consent(shown[0]))
    fields = dict(parse_qsl(urlsplit(shown[0]).query))
    assert fields["scope"].replace("https://www.googleapis.com/auth/", "") == asked
    assert fields["access_type"] == "offline"
    assert fields["code_challenge_method"] == "S256"


async def test_connected_account_says_whose_mailbox_it_is(accounts, home, fake):
    account = await connect(accounts, "user")
    assert (account.state, account.mailbox, account.missing) == ("connected", "owner@example.com", ())
    assert accounts.state("bot").state == "not_connected"
    assert events(home, "oauth_connected") == ["google (user)"]


async def test_fewer_scopes_are_kept_and_what_needs_more_says_so(accounts, fake):
    fake.granting = (READ,)
    account = await connect(accounts, "user")
    assert (account.scopes, account.missing) == ((READ,), (COMPOSE, CALENDAR))
    await accounts.bearer("user", needs=(READ,))
    with pytest.raises(OAuthError, match="not allowed to write drafts") as told:
        await accounts.bearer("user", needs=(COMPOSE,))
    assert told.value.code == "SCOPE_MISSING"
    assert "google connect --identity user" in told.value.remedy


async def test_more_scopes_than_asked_for_are_refused_and_revoked(accounts, fake):
    fake.granting = (*SCOPES["user"], SEND)
    with pytest.raises(OAuthError, match="more than was asked for") as told:
        await connect(accounts, "user")
    assert told.value.code == "SCOPES"
    assert len(fake.asked("/revoke")) == 1
    assert accounts.state("user").state == "not_connected"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("owner@example.com", "Owner@Example.com"),
        ("o.w.ner@gmail.com", "owner+bot@googlemail.com"),
    ],
)
async def test_both_identities_cannot_be_one_mailbox(accounts, fake, first, second):
    fake.subject = first
    await connect(accounts, "user")
    fake.subject = second
    with pytest.raises(OAuthError, match="already connected as user") as told:
        await connect(accounts, "bot")
    assert told.value.code == "SAME_MAILBOX"
    assert accounts.state("bot").state == "not_connected"
    assert fake.asked("/revoke") == []  # at Google that would end the other identity's permission too
    assert await accounts.bearer("user")


async def test_a_mailbox_that_is_free_again_can_be_connected_as_the_other(accounts, fake):
    await connect(accounts, "user")
    await accounts.disconnect("user")
    assert (await connect(accounts, "bot")).mailbox == "owner@example.com"


@pytest.mark.parametrize(
    "reply",
    [
        OAuthReply(status=403, body={"error": {"status": "PERMISSION_DENIED"}}),
        OAuthReply(body=b"not json"),
        OAuthReply(body={"emailAddress": "two\nlines@example.com"}),
        OAuthReply(body={"emailAddress": 7}),
        OAuthReply(cut=True),
    ],
)
async def test_account_whose_mailbox_nobody_can_name_is_revoked(accounts, fake, reply):
    fake.instead[PROFILE] = [reply]
    with pytest.raises(OAuthError, match="was not connected"):
        await connect(accounts, "user")
    assert accounts.state("user").state == "not_connected"
    assert len(fake.asked("/revoke")) == 1


async def test_fault_of_google_while_connecting_again_leaves_the_account_as_it_was(accounts, fake):
    """Revoking one permission of a mailbox ends all of them at Google."""
    await connect(accounts, "user")
    fake.instead[PROFILE] = [OAuthReply(status=503)] * 2
    with pytest.raises(OAuthError, match="was not connected") as told:
        await connect(accounts, "user")
    assert told.value.remedy == "Connect again later. The account stays connected as it was."
    assert fake.asked("/revoke") == []
    assert accounts.state("user").state == "connected"
    assert await accounts.bearer("user")


async def test_one_fault_of_google_is_asked_about_again(accounts, fake):
    fake.instead[PROFILE] = [OAuthReply(status=503)]
    assert (await connect(accounts, "user")).mailbox == "owner@example.com"


async def test_account_that_another_mailbox_replaces_is_revoked(accounts, fake):
    await connect(accounts, "user")
    fake.subject = "other@example.com"
    assert (await connect(accounts, "user")).mailbox == "other@example.com"
    assert len(fake.asked("/revoke")) == 1
    assert await accounts.bearer("user")


async def test_mailbox_noted_for_an_earlier_account_is_not_this_ones(accounts, home, fake):
    """Connecting may be cut off between the account and its mailbox: then it is asked for before the first use."""
    await connect(accounts, "user")
    await home.app.db.write(lambda tx: write_meta(tx, "google_mailbox:user", "oauth_earlier other@example.com"))
    assert accounts.state("user").mailbox == ""
    await accounts.bearer("user")
    assert accounts.state("user").mailbox == "owner@example.com"


async def test_two_connections_at_once_do_not_share_a_mailbox(accounts, home, fake):
    """The second look is in the transaction that notes the mailbox."""
    await connect(accounts, "user")
    noted = read_meta(home.app.db.reader, "google_mailbox:user")
    await home.app.db.write(lambda tx: write_meta(tx, "google_mailbox:user", "oauth_none nobody@example.com"))
    await connect(accounts, "bot")
    await home.app.db.write(lambda tx: write_meta(tx, "google_mailbox:bot", "oauth_none nobody@example.com"))
    await home.app.db.write(lambda tx: write_meta(tx, "google_mailbox:user", noted))
    with pytest.raises(OAuthError, match="already connected as user"):
        await accounts.bearer("bot")
    assert accounts.state("bot").state == "not_connected"


# Using


async def test_access_token_is_known_to_the_redactor(accounts, home):
    await connect(accounts, "bot")
    token = await accounts.bearer("bot")
    assert token not in home.app.redact(f"Authorization: Bearer {token} and {token}")


async def test_callers_at_once_renew_once(accounts, fake):
    await connect(accounts, "bot")
    token = await accounts.bearer("bot")
    found = await asyncio.gather(*(accounts.bearer("bot", rejected=token) for _ in range(8)))
    assert len(set(found)) == 1
    assert found[0] != token
    assert len(renewals(fake)) == 1


async def test_withdrawn_permission_is_marked_once_and_never_asked_for_again(accounts, home, fake):
    await connect(accounts, "bot")
    token = await accounts.bearer("bot")
    fake.end_all()
    for _ in range(3):
        with pytest.raises(ReconnectNeeded, match=r"connected again.*google connect --identity bot"):
            await accounts.bearer("bot", rejected=token)
    assert accounts.state("bot").state == "reconnect"
    assert len(renewals(fake)) == 1
    assert events(home, "oauth_reconnect_needed") == ["google (bot)"]


async def test_disconnecting_revokes_and_forgets(accounts, home, fake):
    await connect(accounts, "user")
    assert "permission revoked" in str(await accounts.disconnect("user"))
    assert accounts.state("user").state == "not_connected"
    assert len(fake.asked("/revoke")) == 1
    with pytest.raises(OAuthError, match="not connected"):
        await accounts.bearer("user")


async def test_disconnecting_forgets_even_if_google_did_not_agree(accounts, fake):
    await connect(accounts, "user")
    fake.instead["/revoke"] = [OAuthReply(status=503)]
    assert "was not revoked (the server answered with status 503)" in str(await accounts.disconnect("user"))
    assert accounts.state("user").state == "not_connected"


async def test_account_is_forgotten_even_without_its_configuration(accounts, home, fake):
    await connect(accounts, "user")
    home.app.config = msgspec.structs.replace(home.app.config, google=Google())
    assert "disconnected here" in str(await accounts.disconnect("user"))
    assert accounts.state("user").state == "not_connected"


def test_without_a_client_there_are_no_accounts(tmp_path):
    home = Sample(tmp_path)
    try:
        with pytest.raises(UsageError, match="no client_id"):
            google_accounts(home.app).client("user")
    finally:
        home.close()


def test_missing_client_secret_is_named(accounts, home, fake):
    home.app.config = msgspec.structs.replace(home.app.config, google=section(fake, client_secret_env="ANOTHER_SECRET"))
    with pytest.raises(UsageError, match="ANOTHER_SECRET"):
        accounts.client("user")


# The section


@pytest.mark.parametrize(
    "url",
    [
        "https://accounts.example.com/auth", "http://127.0.0.1.example.com/auth", "http://user@127.0.0.1/auth",
        "https://127.0.0.1/auth", "http://127.0.0.2:1/auth", "http://10.0.0.1/auth", "file:///etc/passwd",
        "http://127.0.0.1:0/auth", "http://localhost.example.com/auth", "http://[::1/auth", "//127.0.0.1/auth",
    ],
)  # fmt: skip
def test_addresses_move_only_to_this_machine(fake, url):
    assert [key for key, _ in google_faults(section(fake, authorize_url=url))] == ["authorize_url"]
    assert "gmail_url" in [key for key, _ in google_faults(section(fake, gmail_url=url))]


def test_addresses_move_together(fake):
    """A token that came from one place must not be sent to the other."""
    assert google_faults(section(fake)) == []
    assert [key for key, _ in google_faults(section(fake, token_url=""))] == ["token_url"]


def test_only_a_client_opens_the_way_to_google(home):
    assert (
        Listing.build(oauth=["https://oauth2.googleapis.com"]).oauth
        == listing_of(msgspec.structs.replace(home.app.config, google=Google(client_id="c"))).oauth
        - Listing.build(oauth=["https://gmail.googleapis.com"]).oauth
    )
    assert listing_of(msgspec.structs.replace(home.app.config, google=Google())).oauth == frozenset()


def test_client_id_alone_is_enough_to_have_the_stored_secret_sent():
    """`coilclaw config set google.client_id ID` and `secret set GOOGLE_CLIENT_SECRET` are all that the docs ask for."""
    assert Google(client_id="id.apps.example").client_secret_env == "GOOGLE_CLIENT_SECRET"
    assert "GOOGLE_CLIENT_SECRET" not in named_secrets(Config()), "nobody is told to store it before"
    assert "GOOGLE_CLIENT_SECRET" in named_secrets(Config(google=Google(client_id="id.apps.example")))
