"""Push from end to end: a home, its notifier and its engine, the real judge, and a push service on loopback."""

import asyncio
import contextlib
import json
from datetime import timedelta

import pytest
from py_vapid import Vapid02

from coilclaw.features.notifications.deliveries import Deliveries
from coilclaw.features.notifications.notifier import Notifier
from coilclaw.features.notifications.push import KEY_NAME, Push
from coilclaw.features.notifications.store.deliveries import LEASE, MOST_OF_A_DEVICE, subscriptions_of
from coilclaw.features.notifications.words import TELLINGS
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import EgressRefused, TransportError
from coilclaw.runtime.keyring import rotate_keys
from coilclaw.store.devices import end_all_tokens, revoke_device
from coilclaw.store.stored_secrets import sealed_secret
from tests.features.notifications.push_service import (
    ENDPOINT,
    Browser,
    Detour,
    endless,
    never,
    push_service,
    reply,
    text_of,
)
from tests.server.site import enrol

HOSTILE = "Bcc: all@example.org <script> \u202e.txt"


class Away:
    """A home whose owner is away, with a browser that is told."""

    def __init__(self, home, service, *addresses, seconds=None):
        self.home, self.app, self.service = home, home.app, service
        self.later = timedelta()
        real = home.app.clock
        home.app.clock = lambda: real() + self.later
        home.owner.answer = Answer(approved=None)
        self.app.transport = Detour(service, *addresses, seconds=seconds)
        self.browser = Browser()
        enrol(home)
        self.start()

    def start(self):
        """As a new process would."""
        self.push = Push(self.app)
        self.engine = Deliveries(self.app)
        self.notifier = Notifier(db=self.app.db, clock=self.app.clock, settings=lambda: self.app.config.notify)

    async def subscribe(self, endpoint=ENDPOINT, device_id="dev_test", browser=None):
        browser = browser or self.browser
        return await self.push.subscribe(device_id, endpoint, browser.point, browser.auth, by="test")

    async def ask(self, path="a.txt", content="x"):
        outcome = await self.home.call("file_write", None, path, path=path, content=content)
        assert outcome.pending
        await self.notifier.tick()
        return outcome.action.action_id

    def rows(self):
        return self.app.db.reader.execute(
            "SELECT status, attempts, code FROM notification_deliveries ORDER BY created_at, rowid"
        ).fetchall()

    async def wait(self, **amount):
        self.later += timedelta(**amount)
        return await self.engine.tick()


def left(got):
    """How long a push service keeps it, to the nearest minute: sending takes a moment."""
    return timedelta(minutes=round(int(got.headers["ttl"]) / 60))


@pytest.fixture
async def away(sample):
    async with push_service() as service:
        yield Away(sample(), service)


async def test_what_waits_is_pushed_once_as_ids_that_only_the_browser_can_read(away):
    await away.subscribe()
    action_id = await away.ask(HOSTILE, content="my plans")
    assert await away.engine.tick() == 1
    assert [await away.engine.tick() for _ in range(3)] == [0, 0, 0]
    assert await Deliveries(away.app).tick() == 0
    (got,) = away.service.got
    told = json.loads(away.browser.read(got.body))
    assert told.keys() == {"notification_id", "type", "entity_id"}
    assert (told["type"], told["entity_id"]) == ("approval_needed", action_id)
    assert len(got.body) <= 4096
    assert Vapid02.verify(got.headers["authorization"])
    assert (got.headers["urgency"], len(got.headers["topic"])) == ("high", 32)
    assert left(got) == timedelta(hours=24)
    assert got.headers["content-encoding"] == "aes128gcm"
    assert away.rows() == [("sent", 1, "HTTP_201")]


async def test_a_newer_message_about_the_same_thing_has_the_same_topic(away):
    await away.subscribe()
    await away.ask()
    await away.engine.tick()
    away.later += timedelta(hours=23, minutes=10)
    assert await away.notifier.tick() == 1
    assert await away.engine.tick() == 1
    first, second = away.service.got
    assert first.headers["topic"] == second.headers["topic"]
    assert left(second) == TELLINGS["approval_expiring"].life == timedelta(hours=1)


async def test_a_message_that_waited_is_kept_no_longer_than_it_is_of_use(away):
    away.service.answers = [reply(503)]
    await away.subscribe()
    await away.ask()
    await away.engine.tick()
    await away.wait(hours=23)
    first, second = away.service.got
    assert [left(each) for each in (first, second)] == [timedelta(hours=24), timedelta(hours=1)]


async def test_an_older_message_is_not_tried_again_after_a_newer_one(away):
    away.service.answers = [reply(503)]
    await away.subscribe()
    await away.ask()
    await away.engine.tick()
    away.later += timedelta(hours=23, minutes=10)
    away.service.answers = [reply(201)]
    await away.notifier.tick()
    assert await away.engine.tick() == 1
    assert [row[0] for row in away.rows()] == ["replaced", "sent"]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_is_over_is_forgotten_with_all_that_was_to_be_sent(away, status):
    away.service.answers = [reply(status)]
    await away.subscribe()
    await away.ask()
    assert await away.engine.tick() == 1
    assert subscriptions_of(away.app.db.reader, "dev_test") == []
    assert away.rows() == []
    await away.ask("b.txt")
    assert await away.wait(days=1) == 0
    assert len(away.service.got) == 1


@pytest.mark.parametrize(
    ("headers", "too_soon", "then"),
    [
        ((), 25, 10),
        (("Retry-After: 300",), 290, 20),
        (("Retry-After: 9999999",), 25, 10),
        (("Retry-After: x",), 25, 10),
    ],
)
async def test_a_push_service_that_has_no_time_is_asked_again_when_it_says(away, headers, too_soon, then):
    away.service.answers = [reply(429, *headers), reply(201)]
    await away.subscribe()
    await away.ask()
    assert await away.engine.tick() == 1
    assert await away.wait(seconds=too_soon) == 0
    assert await away.wait(seconds=then) == 1
    assert away.rows() == [("sent", 2, "HTTP_201")]


async def test_a_push_service_that_stays_busy_is_asked_less_and_less_often(away):
    away.service.answers = [reply(503), reply(503), reply(503), reply(201)]
    await away.subscribe()
    await away.ask()
    assert await away.engine.tick() == 1
    for first in (30, 60, 120):  # each wait is twice the one before
        assert await away.wait(seconds=first - 5) == 0
        assert await away.wait(seconds=6) == 1
    assert away.rows() == [("sent", 4, "HTTP_201")]


async def test_a_push_service_cannot_silence_a_message_for_longer_than_an_hour(away):
    away.service.answers = [reply(503, "Retry-After: 900000"), reply(201)]
    await away.subscribe()
    await away.ask()
    await away.engine.tick()
    assert await away.wait(hours=1, seconds=1) == 1


async def test_what_is_refused_for_good_is_not_tried_again(away):
    away.service.answers = [reply(403)]
    await away.subscribe()
    await away.ask()
    await away.engine.tick()
    assert await away.wait(hours=2) == 0
    assert away.rows() == [("failed", 1, "HTTP_403")]


async def test_a_redirect_is_not_followed(away):
    away.service.answers = [reply(307, "Location: http://127.0.0.1:1/x")]
    await away.subscribe()
    await away.ask()
    await away.engine.tick()
    assert away.rows() == [("failed", 1, "HTTP_307")]
    assert len(away.service.got) == 1


async def test_an_answer_of_a_gigabyte_is_not_read(away):
    away.service.answers = [endless]
    await away.subscribe()
    await away.ask()
    assert await away.engine.tick() == 1
    assert away.rows() == [("sent", 1, "HTTP_201")]


async def test_a_slow_endpoint_keeps_no_other_waiting_and_is_given_up_after_two_uncertain_sends(sample):
    async with push_service() as slow, push_service() as service:
        away = Away(sample(), service)
        slow.answers = [never]
        await away.subscribe()
        fast = away.app.transport
        stuck = Detour(slow, seconds=0.2)

        class Both(Detour):
            def stream(self, request):
                return (stuck if "slow" in request.url else fast).stream(request)

        away.app.transport = Both(service)
        await away.subscribe("https://slow.example.net/x")
        await away.ask()
        assert await away.engine.tick() == 2
        assert len(service.got) == 1
        assert sorted(away.rows()) == [("due", 1, "TIMEOUT"), ("sent", 1, "HTTP_201")]
        assert await away.wait(minutes=5) == 1
        assert [await away.wait(minutes=5) for _ in range(3)] == [0, 0, 0]
        assert sorted(away.rows()) == [("sent", 1, "HTTP_201"), ("unknown", 2, "UNKNOWN")]
        assert len(slow.got) == 2


async def test_a_process_that_dies_while_it_sends_loses_nothing_and_repeats_it_once(away):
    """The claim is committed before a byte leaves, so that is all a killed process leaves behind."""
    await away.subscribe()
    action_id = await away.ask()

    reached = asyncio.Event()
    rows = []

    async def hangs(writer):
        rows.extend(away.rows())
        reached.set()
        await never(writer)

    away.service.answers = [hangs, reply(201)]
    sending = asyncio.ensure_future(away.engine.tick())
    await reached.wait()
    sending.cancel()  # nothing is written after this, as after kill -9
    with contextlib.suppress(asyncio.CancelledError):
        await sending
    assert rows == away.rows() == [("due", 1, "")]
    away.start()
    assert await away.engine.tick() == 0  # somebody may still be sending it
    assert await away.wait(seconds=LEASE.total_seconds() + 1) == 1
    _, got = away.service.got
    assert away.rows() == [("sent", 2, "HTTP_201")]
    assert json.loads(away.browser.read(got.body))["entity_id"] == action_id
    assert await away.wait(hours=1) == 0


async def test_many_engines_at_once_send_everything_once(away):
    await away.subscribe()
    asked = {await away.ask(f"{number}.txt") for number in range(12)}
    others = [Deliveries(away.app) for _ in range(4)]
    while sum(await asyncio.gather(*(each.tick() for each in others))):
        pass
    told = [json.loads(away.browser.read(got.body))["entity_id"] for got in away.service.got]
    assert (set(told), len(told)) == (asked, 12)


async def test_what_was_answered_or_seen_or_is_too_old_is_not_sent(away):
    await away.subscribe()
    first = await away.ask("a.txt")
    await away.ask("b.txt")
    await away.home.approve(first)
    assert await away.engine.tick() == 1
    await away.ask("c.txt")
    assert await away.wait(hours=25) == 0
    assert [row[0] for row in away.rows()] == ["settled", "sent", "expired"]


async def test_nothing_leaves_while_estop_is_engaged(away):
    await away.subscribe()
    await away.ask()
    away.app.estop.file.write_text("stop")
    assert await away.engine.tick() == 0
    assert away.service.got == []
    away.app.estop.file.unlink()
    assert await away.engine.tick() == 1


# Where it may lead


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        ("http://push.example.net/x", "SCHEME"),
        ("https://127.0.0.1/x", "IP_LITERAL"),
        ("https://[::1]/x", "IP_LITERAL"),
        ("https://93.184.216.34/x", "IP_LITERAL"),
        ("https://localhost/x", "LOCAL_NAME"),
        ("https://printer.local/x", "LOCAL_NAME"),
        ("https://push.example.net:8443/x", "PORT"),
        ("https://user:pass@push.example.net/x", "USERINFO"),
        ("ftp://push.example.net/x", "SCHEME"),
        ("javascript:alert(1)", "SCHEME"),
    ],
)
async def test_an_endpoint_that_is_not_a_public_https_address_is_not_kept(away, endpoint, code):
    with pytest.raises(EgressRefused) as caught:
        await away.subscribe(endpoint)
    assert caught.value.code == code or code == "USERINFO"
    assert subscriptions_of(away.app.db.reader, "dev_test") == []


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "fd00::1"])
async def test_a_public_name_that_leads_inside_is_not_kept(sample, address):
    async with push_service() as service:
        away = Away(sample(), service, [address])
        with pytest.raises(EgressRefused) as caught:
            await away.subscribe()
        assert caught.value.code == "SPECIAL_ADDRESS"


async def test_a_name_that_leads_inside_later_is_not_followed_there(sample):
    async with push_service() as service:
        away = Away(sample(), service, ["93.184.216.34"], ["127.0.0.1"])
        await away.subscribe()
        await away.ask()
        assert await away.engine.tick() == 1
        assert service.got == []
        assert away.rows() == [("due", 1, "SPECIAL_ADDRESS")]


async def test_an_endpoint_nobody_can_look_up_is_not_kept(sample):
    async with push_service() as service:
        away = Away(sample(), service)

        async def nowhere(host):
            raise OSError("no such name")

        away.app.transport.judge._resolve = nowhere
        with pytest.raises(TransportError):
            await away.subscribe()


# Whose they are


async def test_subscriptions_of_a_revoked_device_are_gone_and_so_is_what_was_to_be_sent(away):
    await away.subscribe()
    await away.ask()
    away.app.db.write_now(lambda tx: revoke_device(tx, "dev_test", "2026-01-01T00:00:00.000Z"))
    assert subscriptions_of(away.app.db.reader, "dev_test") == []
    assert await away.engine.tick() == 0
    assert (away.rows(), away.service.got) == ([], [])


async def test_a_device_that_is_signed_out_is_told_nothing(away):
    await away.subscribe()
    away.app.db.write_now(end_all_tokens)
    await away.ask()
    assert (await away.engine.tick(), away.rows()) == (0, [])


async def test_a_device_has_few_subscriptions_and_the_oldest_goes(away):
    kept = [(await away.subscribe(f"{ENDPOINT}/{number}")).endpoint for number in range(MOST_OF_A_DEVICE + 2)]
    assert [row.endpoint for row in subscriptions_of(away.app.db.reader, "dev_test")] == kept[:1:-1]


async def test_a_browser_that_was_paired_anew_is_told_once(away):
    enrol(away.home, "dev_2", "tok_2")
    first, second = await away.subscribe(), await away.subscribe(device_id="dev_2")
    assert first.subscription_id == second.subscription_id
    await away.ask()
    assert await away.engine.tick() == 1
    assert subscriptions_of(away.app.db.reader, "dev_test") == []


# The key


async def test_the_key_is_one_for_all_processes_and_outlives_a_rotation(away):
    first = await away.push.public_key()
    sealed = sealed_secret(away.app.db.reader, KEY_NAME)
    assert first == await Push(away.app).public_key()
    _, count = rotate_keys(away.app)
    assert count == 1
    assert sealed_secret(away.app.db.reader, KEY_NAME) != sealed
    assert first == await Push(away.app).public_key()


async def test_the_key_is_in_no_file_as_it_is(away):
    await away.subscribe()
    await away.ask()
    await away.engine.tick()
    value = (await away.push.key()).private_numbers().private_value.to_bytes(32, "big")
    written = text_of(value).encode()
    for file in away.home.home.root.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert value not in data
            assert written not in data
    assert text_of(value) not in away.app.redact(f"key {text_of(value)}")
