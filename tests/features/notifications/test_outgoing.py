"""One outgoing address and mail: fixed words to real servers, quiet hours, and a switch for each type."""

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from aiosmtpd.controller import UnthreadedController
from aiosmtpd.smtp import AuthResult

from coilclaw.airlock import Airlock
from coilclaw.airlock.smtp import mail_url
from coilclaw.config.notify import Notify, Smtp
from coilclaw.features.notifications.deliveries import Deliveries, is_quiet
from coilclaw.features.notifications.notifier import Notifier
from coilclaw.packets.card import Answer
from tests.airlock.test_airlock_tls import Authority
from tests.features.notifications.push_service import push_service, reply

HOSTILE = "urgent\r\nBcc: all@example.org"


class Away:
    """A home whose owner is away, with an address to be told at."""

    def __init__(self, home):
        self.home, self.app = home, home.app
        self.later = timedelta()
        real = home.app.clock
        home.app.clock = lambda: real() + self.later
        home.owner.answer = Answer(approved=None)
        self.engine = Deliveries(self.app)
        self.notifier = Notifier(db=self.app.db, clock=self.app.clock, settings=lambda: self.app.config.notify)

    async def ask(self, path="a.txt"):
        outcome = await self.home.call("file_write", None, path, path=path, content=HOSTILE)
        await self.notifier.tick()
        return outcome.action.action_id

    def rows(self):
        return self.app.db.reader.execute("SELECT way, status, attempts, code FROM notification_deliveries").fetchall()


@pytest.fixture
async def ntfy():
    async with push_service() as service:
        service.answers = [reply(200)]
        yield service


def telling(service, **settings):
    return Notify(url=f"http://127.0.0.1:{service.port}/topic", **settings)


async def test_an_ntfy_server_gets_fixed_words_and_where_to_look(sample, ntfy):
    away = Away(sample(notify=telling(ntfy, token_env="NTFY_TOKEN"), environ={"NTFY_TOKEN": "tk_secret_value_1234"}))
    action_id = await away.ask("Bcc: all@example.org <b>now.txt")
    assert await away.engine.tick() == 1
    assert await away.engine.tick() == 0
    (got,) = ntfy.got
    assert (got.path, got.body) == ("/topic", b"Something waits for your approval")
    assert got.headers["title"] == "CoilClaw"
    assert got.headers["click"] == f"http://localhost:8377/#/approvals/{action_id}"
    assert got.headers["authorization"] == "Bearer tk_secret_value_1234"
    assert "example.org" not in str(got)
    assert away.rows() == [("url", "sent", 1, "HTTP_200")]


async def test_an_ntfy_server_that_is_busy_is_asked_again(sample, ntfy):
    ntfy.answers = [reply(500), reply(200)]
    away = Away(sample(notify=telling(ntfy)))
    await away.ask()
    await away.engine.tick()
    away.later += timedelta(minutes=1)
    assert await away.engine.tick() == 1
    assert away.rows() == [("url", "sent", 2, "HTTP_200")]


async def test_notifications_reach_no_other_host_than_the_configured_one(sample, ntfy):
    away = Away(sample(notify=telling(ntfy)))
    await away.ask()
    assert away.app.transport  # it knows what was configured when it was made
    away.app.config = msgspec.structs.replace(away.app.config, notify=Notify(url="http://127.0.0.1:1/elsewhere"))
    await away.engine.tick()
    assert away.rows() == [("url", "due", 1, "NOT_LISTED")]


async def test_only_the_types_that_are_switched_on_go_out(sample, ntfy):
    away = Away(sample(notify=telling(ntfy, types=("job_failed",))))
    await away.ask()
    assert (await away.engine.tick(), away.rows()) == (0, [])


async def test_nothing_is_sent_in_quiet_hours_and_what_is_of_use_follows(sample, ntfy):
    home = sample(notify=telling(ntfy, quiet="22:00-07:00", timezone="Europe/Berlin"))
    home.app.clock = lambda: datetime(2026, 5, 4, 20, 30, tzinfo=UTC)  # 22:30 in Berlin
    away = Away(home)
    await away.ask()
    assert await away.engine.tick() == 0
    away.later = timedelta(hours=8, minutes=29)
    assert await away.engine.tick() == 0
    away.later = timedelta(hours=8, minutes=31)
    assert await away.engine.tick() == 1


@pytest.mark.parametrize(
    ("hours", "utc", "quiet"),
    [
        ("22:00-07:00", 21, True),
        ("22:00-07:00", 4, True),
        ("22:00-07:00", 6, False),
        ("22:00-07:00", 12, False),
        ("12:00-14:00", 11, True),
        ("12:00-14:00", 13, False),
        ("08:00-08:00", 8, False),
    ],
)
def test_quiet_hours_are_read_by_the_clock_of_their_zone(hours, utc, quiet):
    assert is_quiet(hours, datetime(2026, 1, 5, utc, 0, tzinfo=UTC), ZoneInfo("Europe/Berlin")) is quiet


# Mail


class Box:
    """What a mail server took."""

    def __init__(self):
        self.mails = []
        self.refuse = ""

    async def handle_DATA(self, server, session, envelope):
        if self.refuse:
            return self.refuse
        self.mails.append(envelope)
        return "250 OK"


@asynccontextmanager
async def mail_server(tmp_path, *, name="127.0.0.1", tls=True):
    """A real mail server on loopback that wants STARTTLS and a password."""
    box = Box()
    ours = Authority(tmp_path, "ours")

    def authenticator(server, session, envelope, mechanism, data):
        right = (data.login, data.password) == (b"me@example.org", b"pass-word-1234")
        return AuthResult(success=right, handled=right)

    controller = UnthreadedController(
        box,
        hostname="127.0.0.1",
        port=0,
        loop=asyncio.get_running_loop(),
        tls_context=ours.server(name) if tls else None,
        require_starttls=tls,
        auth_required=tls,
        authenticator=authenticator,
    )
    server = await controller._create_server()
    try:
        yield box, server.sockets[0].getsockname()[1], ours.file
    finally:
        server.close()
        await asyncio.sleep(0.05)


def by_mail(sample, port, ca, host="127.0.0.1", **settings):
    smtp = Smtp(host=host, port=port, from_="me@example.org", to="you@example.org", password_env="MAIL_PASSWORD")
    home = sample(notify=Notify(smtp=smtp, **settings), environ={"MAIL_PASSWORD": "pass-word-1234"})
    home.app.airlock = Airlock(home.app.listing, log=home.events.append, clock=home.app.clock, ca_file=ca)
    return Away(home)


async def test_mail_has_fixed_words_and_goes_over_tls_with_the_password(sample, tmp_path):
    async with mail_server(tmp_path) as (box, port, ca):
        away = by_mail(sample, port, ca)
        action_id = await away.ask("Subject: hostile <script>.txt")
        assert await away.engine.tick() == 1
        assert await away.engine.tick() == 0
        (mail,) = box.mails
        text = mail.content.decode()
        assert (mail.mail_from, mail.rcpt_tos) == ("me@example.org", ["you@example.org"])
        assert "\r\nSubject: CoilClaw: Something waits for your approval\r\n" in text
        assert text.rstrip().endswith(f"/#/approvals/{action_id}")
        assert "hostile" not in text
        assert "Bcc" not in text
        assert away.rows() == [("smtp", "sent", 1, "SMTP_250")]


async def test_no_hostile_title_comes_into_a_subject_or_a_message(sample, ntfy, tmp_path):
    title = "a\x1b[2J\u202eexe\u2066\x07 Subject: evil"
    async with mail_server(tmp_path) as (box, port, ca):
        away = by_mail(sample, port, ca, url=telling(ntfy).url)
        action_id = await away.ask(title)
        assert await away.engine.tick() == 2
        (mail,), (got,) = box.mails, ntfy.got
        text = mail.content.decode("ascii")
        heads, _, body = text.partition("\r\n\r\n")
        assert [line for line in heads.split("\r\n") if line.startswith("Subject")] == [
            "Subject: CoilClaw: Something waits for your approval"
        ]
        assert body.split("\r\n")[0] == "Something waits for your approval."
        assert (got.headers["title"], got.body) == ("CoilClaw", b"Something waits for your approval")
        assert got.headers["click"].endswith(f"/#/approvals/{action_id}")
        assert "evil" not in text + str(got)
        assert text.replace("\r\n", "").isprintable()


async def test_a_mail_server_without_tls_or_with_a_strange_certificate_is_told_nothing(sample, tmp_path):
    for folder, name, tls in (("a", "127.0.0.1", False), ("b", "other.example.net", True)):
        (tmp_path / folder).mkdir()
        async with mail_server(tmp_path / folder, name=name, tls=tls) as (box, port, ca):
            away = by_mail(sample, port, ca)
            await away.ask()
            await away.engine.tick()
            assert away.rows() == [("smtp", "due", 1, "NO_CONNECTION")]
            assert box.mails == []


@pytest.mark.parametrize(("said", "status"), [("451 later", "due"), ("554 never", "failed")])
async def test_what_a_mail_server_refuses_is_tried_again_or_left(sample, tmp_path, said, status):
    async with mail_server(tmp_path) as (box, port, ca):
        box.refuse = said
        away = by_mail(sample, port, ca)
        await away.ask()
        await away.engine.tick()
        assert away.rows() == [("smtp", status, 1, f"SMTP_{said[:3]}")]


async def test_a_wrong_password_is_refused_and_recorded_nowhere(sample, tmp_path):
    async with mail_server(tmp_path) as (box, port, ca):
        away = by_mail(sample, port, ca)
        away.home.environ["MAIL_PASSWORD"] = "another-word-99"
        await away.ask()
        await away.engine.tick()
        assert (away.rows(), box.mails) == ([("smtp", "failed", 1, "SMTP_535")], [])
        assert "another-word-99" not in str(away.home.events)


@pytest.mark.parametrize(
    "lines",
    [
        b"220 hi\r\n" + b"250-x\r\n" * 100,
        b"HTTP/1.1 200 OK\r\n",
        b"220 " + b"x" * 200_000,
        b"220 hi\r\n250 OK\r\n",
        b"220 hi\r\n250 STARTTLS\r\n220 go\r\n250 AUTH PLAIN\r\n",  # the last line stands before TLS
    ],
)
async def test_a_server_that_speaks_no_smtp_gets_no_mail_and_no_password(sample, tmp_path, lines):
    heard = []

    async def serve(reader, writer):
        writer.write(lines)
        with suppress(OSError, TimeoutError):
            heard.append(await asyncio.wait_for(reader.read(-1), 5))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    away = by_mail(sample, server.sockets[0].getsockname()[1], None)
    await away.ask()
    await away.engine.tick()
    assert away.rows() == [("smtp", "due", 1, "NO_CONNECTION")]
    server.close()
    await asyncio.sleep(0.05)
    assert b"AUTH" not in b"".join(heard)


def test_a_mail_server_is_listed_as_the_place_it_is():
    assert (mail_url("mail.example.net", 587), mail_url("::1", 465)) == (
        "https://mail.example.net:587/",
        "https://[::1]:465/",
    )
