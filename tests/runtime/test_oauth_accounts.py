"""Connected accounts: one renewal at a time, rotation that survives a kill, and an end that is said once."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta

import msgspec
import pytest

from coilclaw.airlock import Listing
from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.packets.errors import OAuthError, ReconnectNeeded, TransportError
from coilclaw.runtime.oauth.accounts import REMEMBERED, Accounts
from coilclaw.runtime.oauth.token_requests import exchange
from coilclaw.sandbox.fake_oauth import FakeOAuth, OAuthReply
from coilclaw.store.oauth import get_token
from coilclaw.store.stored_secrets import list_secrets
from tests.home import Sample
from tests.runtime.oauth_harness import COMMAND, answered, client_of


class Uptime:
    """Seconds since a start that the test owns."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def uptime():
    return Uptime()


@pytest.fixture
def fake(uptime):
    with FakeOAuth(clock=uptime) as made:
        yield made


@pytest.fixture
def home(tmp_path, fake):
    made = Sample(tmp_path)
    reach(made, fake.base_url)
    yield made
    made.close()


def reach(home, *places):
    home.app.airlock.listing = Listing.build(oauth=places)


async def connected(home, client, uptime, **options):
    """An account of this home, connected by the whole flow."""
    accounts = Accounts(home.app, uptime=uptime)
    pending, code = await answered(client)
    grant = await exchange(home.app.transport, home.app.redactor, pending, code)
    await accounts.connect(client, grant, **{"keep_client": False, **options})
    return accounts


def stored(home, accounts):
    (row,) = accounts.status()
    return get_token(home.app.db.reader, home.app.vault, row.token_id)


def events(home, kind):
    return [(each.entity_id, each.payload) for each in last_events(home.app.db.reader, Wanted(event_type=kind), 10)]


def renewals(fake):
    return [each for each in fake.asked("/token") if each["grant_type"] == "refresh_token"]


async def opens(home, fake, token):
    """Whether the resource takes this token."""
    import httpx

    async with httpx.AsyncClient(timeout=280, trust_env=False) as browser:
        return (await browser.get(fake.resource_url, headers=dict([token.header]))).status_code == 200


async def test_a_connected_account_gives_tokens_that_open_the_resource(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    token = await accounts.access(client)
    assert await opens(home, fake, token)
    assert token.scopes == ("read", "write")
    assert not renewals(fake), "the first one came with the connection"
    (row,) = accounts.status()
    assert (row.provider, row.identity, row.scopes, row.reconnect_since) == ("mcp:files", "user", ("read", "write"), "")
    assert events(home, "oauth_connected") == [("mcp:files (user)", {"scopes": "read write"})]


async def test_a_token_is_renewed_a_minute_early_and_not_before(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    first = await accounts.access(client)
    uptime.now += 3600 - 60 - 1
    assert await accounts.access(client) == first
    uptime.now += 1
    second = await accounts.access(client)
    assert second != first
    assert await opens(home, fake, second)
    assert len(renewals(fake)) == 1


async def test_a_token_that_lives_shorter_than_the_margin_is_still_used(home, fake, uptime):
    fake.lifetime = 40
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    first = await accounts.access(client)
    uptime.now += 19
    assert await accounts.access(client) == first
    uptime.now += 1
    assert await accounts.access(client) != first


@pytest.mark.parametrize("years", [-20, 20])
async def test_a_wrong_wall_clock_changes_nothing(home, fake, uptime, years):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    first = await accounts.access(client)
    real = home.app.clock
    home.app.clock = lambda: real() + timedelta(days=365 * years)
    assert await accounts.access(client) == first
    uptime.now += 3600
    assert await opens(home, fake, await accounts.access(client))


async def test_a_hundred_callers_share_one_renewal(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    uptime.now += 3600
    fake.held.clear()
    callers = [asyncio.create_task(accounts.access(client)) for _ in range(100)]
    for _ in range(10):
        await asyncio.sleep(0)
    callers[0].cancel()  # the one that started it: the others still get theirs
    fake.held.set()
    ended = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(ended[0], asyncio.CancelledError)
    assert len({token.value for token in ended[1:]}) == 1
    assert len(renewals(fake)) == 1
    assert stored(home, accounts) != renewals(fake)[0]["refresh_token"]
    assert fake.holds(stored(home, accounts))


async def test_a_caller_that_is_cancelled_lets_the_renewal_be_stored_first(home, fake, uptime, monkeypatch):
    """Ctrl-C ends the loop with its last caller: the rotated token must not go with it."""
    monkeypatch.setattr("coilclaw.runtime.oauth.accounts.GRACE_SECONDS", 60)
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    before = stored(home, accounts)
    uptime.now += 3600
    fake.held.clear()
    caller = asyncio.create_task(accounts.access(client))
    while not is_busy(accounts):
        await asyncio.sleep(0.01)
    caller.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not caller.done()
    fake.held.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert stored(home, accounts) != before
    assert fake.holds(stored(home, accounts))


async def test_several_processes_never_use_one_refresh_token_twice(home, fake, uptime):
    """Each has its own memory; the server here would end everything at the first repeated refresh token."""
    client = client_of(fake)
    processes = [await connected(home, client, uptime)] + [Accounts(home.app, uptime=uptime) for _ in range(9)]
    uptime.now += 3600
    tokens = await asyncio.gather(*(each.access(client) for each in processes for _ in range(5)))
    assert len({token.value for token in tokens}) == 10
    assert all([await opens(home, fake, token) for token in tokens])
    assert len({each["refresh_token"] for each in renewals(fake)}) == 10


async def test_a_rejected_token_is_renewed_once_for_everybody(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    old = await accounts.access(client)
    tokens = await asyncio.gather(*(accounts.access(client, rejected=old.value) for _ in range(20)))
    assert len({token.value for token in tokens}) == 1
    assert tokens[0] != old
    assert await accounts.access(client, rejected=old.value) == tokens[0], "somebody who was told late"
    assert len(renewals(fake)) == 1


async def test_a_rotated_token_is_stored_before_the_new_access_token_is_anywhere(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    old, before = await accounts.access(client), stored(home, accounts)
    uptime.now += 3600
    seen = []
    home.app.reached = lambda point: seen.append(
        (point, stored(home, accounts) == before, [held.token for held in accounts._held.values()] == [old])
    )
    await accounts.access(client)
    assert seen == [("oauth_answered", True, True), ("oauth_stored", False, True)]


async def test_a_server_that_does_not_rotate_keeps_its_refresh_token(home, fake, uptime):
    fake.rotates = False
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    before = stored(home, accounts)
    for _ in range(3):
        uptime.now += 3600
        await accounts.access(client)
    assert stored(home, accounts) == before


async def test_a_withdrawn_permission_marks_the_account_once_and_nothing_is_retried(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    fake.end_all()
    uptime.now += 3600
    ended = await asyncio.gather(*(accounts.access(client) for _ in range(20)), return_exceptions=True)
    assert {type(each) for each in ended} == {ReconnectNeeded}
    assert COMMAND in str(ended[0])
    for _ in range(3):
        with pytest.raises(ReconnectNeeded):
            await accounts.access(client)
        with pytest.raises(ReconnectNeeded):
            await Accounts(home.app, uptime=uptime).access(client)
    assert len(renewals(fake)) == 1
    assert events(home, "oauth_reconnect_needed") == [("mcp:files (user)", {"code": "INVALID_GRANT"})]
    assert accounts.status()[0].reconnect_since
    again = await connected(home, client, uptime)
    assert await opens(home, fake, await again.access(client))
    assert not again.status()[0].reconnect_since
    assert await opens(home, fake, await accounts.access(client)), "another process goes on with the new connection"


async def test_a_failure_that_may_pass_marks_nothing(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    uptime.now += 3600
    fake.instead["/token"] = [
        OAuthReply(status=503, headers=(("Retry-After", "9"),)),
        OAuthReply(status=401, body={"error": "invalid_client"}),
    ]
    ended = await asyncio.gather(*(accounts.access(client) for _ in range(10)), return_exceptions=True)
    assert {(each.code, each.retry_after) for each in ended} == {("UNAVAILABLE", 9.0)}
    assert len(renewals(fake)) == 1
    with pytest.raises(OAuthError, match="client id and secret"):
        await accounts.access(client)
    assert await opens(home, fake, await accounts.access(client))
    assert not accounts.status()[0].reconnect_since


async def test_an_answer_that_is_lost_on_the_way_is_reported(home, fake, uptime):
    """The server has rotated and nobody has the new token: the old one is refused, and the owner hears of it."""
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    uptime.now += 3600
    fake.afterwards["/token"] = [lambda reply: msgspec.structs.replace(reply, cut=True)]
    with pytest.raises(TransportError):
        await accounts.access(client)
    with pytest.raises(ReconnectNeeded):
        await accounts.access(client)
    assert accounts.status()[0].reconnect_since


async def test_a_renewal_that_grants_more_is_refused_and_revoked(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    uptime.now += 3600
    fake.afterwards["/token"] = [
        lambda reply: msgspec.structs.replace(reply, body={**reply.fields, "scope": "read write admin"})
    ]
    with pytest.raises(ReconnectNeeded):
        await accounts.access(client)
    assert len(fake.asked("/revoke")) == 1
    assert events(home, "oauth_reconnect_needed") == [("mcp:files (user)", {"code": "SCOPES"})]


async def test_a_renewal_that_grants_less_is_kept_and_reported(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    uptime.now += 3600
    fake.afterwards["/token"] = [lambda reply: msgspec.structs.replace(reply, body={**reply.fields, "scope": "read"})]
    assert (await accounts.access(client)).scopes == ("read",)
    assert accounts.status()[0].scopes == ("read",)


async def test_disconnecting_revokes_there_and_forgets_here(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime, keep_client=True)
    token = await accounts.access(client)
    ended = await accounts.disconnect(client)
    assert ended.unrevoked == ""
    assert "revoked" in str(ended)
    assert not await opens(home, fake, token)
    assert accounts.status() == []
    assert accounts.kept_client("mcp:files", "user") is None
    assert list_secrets(home.app.db.reader) == []
    assert events(home, "oauth_disconnected") == [("mcp:files (user)", {"revoked": True})]
    for each in (accounts, Accounts(home.app, uptime=uptime)):
        with pytest.raises(OAuthError, match=COMMAND) as caught:
            await each.access(client)
        assert caught.value.code == "NOT_CONNECTED"
    with pytest.raises(OAuthError):
        await accounts.disconnect(client)


@pytest.mark.parametrize("fault", [OAuthReply(status=500), OAuthReply(cut=True)])
async def test_disconnecting_forgets_even_if_the_server_was_not_reached(home, fake, uptime, fault):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    fake.instead["/revoke"] = [fault]
    ended = await accounts.disconnect(client)
    assert ended.unrevoked
    assert "not revoked" in str(ended)
    assert "provider's own settings" in str(ended)
    assert accounts.status() == []
    assert events(home, "oauth_disconnected") == [("mcp:files (user)", {"revoked": False})]


async def test_disconnecting_that_is_interrupted_still_forgets(home, fake, uptime):
    client = client_of(fake, revoke_url=fake.url("/token"))  # this path can be held
    accounts = await connected(home, client, uptime)
    fake.held.clear()
    leaving = asyncio.create_task(accounts.disconnect(client))
    while not is_busy(accounts):  # from then on, forgetting is certain
        await asyncio.sleep(0.01)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    fake.held.set()
    assert accounts.status() == []
    assert events(home, "oauth_disconnected") == [("mcp:files (user)", {"revoked": False})]


def is_busy(accounts):
    """Whether somebody holds the account's lock, and so has begun."""
    import fcntl

    (path,) = accounts._app.home.locks_dir.glob("oauth-*.lock")
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


async def test_a_token_in_memory_does_not_outlive_its_account(home, fake, uptime):
    """Another process disconnects, or connects somebody else: the token of before is not used again."""
    client = client_of(fake)
    here = await connected(home, client, uptime)
    old = await here.access(client)
    there = await connected(home, client, uptime)
    assert (await here.access(client)) != old
    await there.disconnect(client)
    with pytest.raises(OAuthError):
        await here.access(client)


async def test_an_account_without_a_refresh_token_is_refused_and_revoked(home, fake, uptime):
    fake.afterwards["/token"] = [
        lambda reply: msgspec.structs.replace(
            reply, body={name: value for name, value in reply.fields.items() if name != "refresh_token"}
        )
    ]
    with pytest.raises(OAuthError, match="offline") as caught:
        await connected(home, client_of(fake), uptime)
    assert caught.value.code == "NO_REFRESH"
    assert len(fake.asked("/revoke")) == 1
    assert Accounts(home.app).status() == []


async def test_a_grant_without_a_refresh_token_can_be_held_and_leaves_no_trace(home, fake, uptime):
    client = client_of(fake)
    pending, code = await answered(client)
    grant = await exchange(home.app.transport, home.app.redactor, pending, code)
    accounts = Accounts(home.app, uptime=uptime)
    accounts.hold(client, msgspec.structs.replace(grant, refresh_token=""))
    token = await accounts.access(client)
    assert await opens(home, fake, token)
    assert accounts.status() == []
    with pytest.raises(OAuthError):
        await Accounts(home.app, uptime=uptime).access(client)
    with pytest.raises(ReconnectNeeded, match=COMMAND):
        await accounts.access(client, rejected=token.value)
    assert (await accounts.disconnect(client)).unrevoked == ""
    assert not await opens(home, fake, token)

    accounts.hold(client, grant)
    uptime.now += 3600
    with pytest.raises(ReconnectNeeded, match=COMMAND):
        await accounts.access(client)
    assert not renewals(fake)

    accounts.hold(client, grant)
    await connected(home, client, uptime)
    newer = await accounts.access(client)
    assert newer != token, "what the owner connected since then counts"
    assert await opens(home, fake, newer)
    await accounts.disconnect(client)
    with pytest.raises(OAuthError) as caught:
        await accounts.access(client)
    assert caught.value.code == "NOT_CONNECTED"


async def test_identities_are_separate_accounts(home, fake, uptime):
    user, bot = client_of(fake), client_of(fake, identity="bot", scopes=("read",))
    accounts = await connected(home, user, uptime)
    await connected(home, bot, uptime)
    assert [(row.identity, row.scopes) for row in accounts.status()] == [
        ("bot", ("read",)),
        ("user", ("read", "write")),
    ]
    await accounts.disconnect(user)
    assert (await accounts.access(bot)).scopes == ("read",)


async def test_a_kept_client_survives_the_process_and_stays_sealed(home, fake, uptime):
    client = client_of(fake, client_id=fake.client_id, resource=fake.resource_url)
    await connected(home, client, uptime, keep_client=True)
    assert Accounts(home.app).kept_client("mcp:files", "user") == client
    assert Accounts(home.app).kept_client("mcp:files", "bot") is None
    dump = "\n".join(home.app.db.reader.iterdump())
    assert "authorize_url" not in dump


async def test_nothing_stored_or_said_contains_a_token(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    seen = {(await accounts.access(client)).value, stored(home, accounts)}
    uptime.now += 3600
    seen |= {(await accounts.access(client)).value, stored(home, accounts)}
    assert len(seen) == 4
    said = repr(accounts._held) + repr(accounts.__dict__["_renewing"]) + repr(home.events)
    dump = "\n".join(home.app.db.reader.iterdump())
    log = (home.home.logs_dir / "airlock.jsonl").read_text()
    for token in seen:
        assert token not in said + dump + log
        assert token not in home.app.redactor.registered(f"x {token} y")
    fresh = Sample(home.folder)
    reach(fresh, fake.base_url)
    again = Accounts(fresh.app, uptime=uptime)
    token = (await again.access(client)).value
    assert token not in fresh.app.redact(f"the header was Bearer {token}")
    assert stored(fresh, again) not in fresh.app.redact(stored(fresh, again))
    fresh.close()


async def test_the_redactor_does_not_grow_for_ever(home, fake, uptime):
    client = client_of(fake)
    accounts = await connected(home, client, uptime)
    before = len(home.app.redactor._registered._values)
    for _ in range(2 * REMEMBERED):
        uptime.now += 3600
        token = await accounts.access(client)
        assert token.value not in home.app.redactor.registered(f"x {token.value} y")
    assert len(home.app.redactor._registered._values) <= before + REMEMBERED
    assert stored(home, accounts) not in home.app.redactor.registered(stored(home, accounts))


DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from coilclaw.airlock import Listing
from coilclaw.runtime.oauth.accounts import Accounts
from tests.home import Sample

async def run():
    home = Sample(Path(sys.argv[1]))
    home.app.airlock.listing = Listing.build(oauth=[sys.argv[2]])
    home.app.reached = lambda here: here == sys.argv[3] and os.kill(os.getpid(), signal.SIGKILL)
    accounts = Accounts(home.app)
    client = accounts.kept_client("mcp:files", "user")
    await accounts.access(client)

asyncio.run(run())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("point", "lost"), [("oauth_answered", True), ("oauth_stored", False)])
async def test_a_process_killed_in_a_renewal_loses_nothing_or_says_so(tmp_path, fake, uptime, point, lost):
    home = Sample(tmp_path)
    reach(home, fake.base_url)
    client = client_of(fake)
    accounts = await connected(home, client, uptime, keep_client=True)
    before = stored(home, accounts)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", DIES, str(tmp_path), fake.base_url, point],
        capture_output=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(renewals(fake)) == 1
    after = Accounts(home.app, uptime=uptime)
    assert (stored(home, after) == before) is lost
    if lost:
        with pytest.raises(ReconnectNeeded):
            await after.access(client)
        assert after.status()[0].reconnect_since
    else:
        assert await opens(home, fake, await after.access(client))
    home.close()
