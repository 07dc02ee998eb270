"""The whole story against two counterparts, unchanged: the strict Google that ships, and somebody else's emulation.

The emulation accepts any token and does not say whose mailbox it is, so both are proved on ours: there the accounts are
connected by the whole flow here too, but the mailboxes are noted by hand.
"""

import base64
import contextlib
from email.parser import BytesParser
from email.policy import compat32

import httpx
import pytest

from coilclaw.config.google import Google
from coilclaw.features.mail.accounts import google_accounts
from coilclaw.packets.errors import TransportError
from coilclaw.runtime.oauth.sign_in import sign_in
from coilclaw.sandbox.fake_google_mail import compose
from coilclaw.store.actions import load_action
from coilclaw.store.meta import write_meta
from coilclaw.store.oauth import find_token
from tests.features.mail.accounts_harness import BOT, OWNER, SECRET, connect, fake_google, section
from tests.features.mail.mail_harness import MailHome, carry
from tests.runtime.emulated_google import consent_as, emulated

pytestmark = pytest.mark.slow

DANA, LETTER = "dana@partner.example", "<numbers-1@partner.example>"
SEND = "/gmail/v1/users/me/drafts/send"
EVENT = {"id": "ev1", "summary": "Budget review", "description": "Bring the numbers"}
BEGIN, END = "2026-11-18T10:00:00Z", "2026-11-18T11:00:00Z"


SEED = {
    "users": [{"email": OWNER, "name": "Owner"}, {"email": BOT, "name": "Bot"}],
    "messages": [
        {
            "id": "m1", "thread_id": "t1", "user_email": BOT, "from": f"Dana <{DANA}>", "to": BOT,
            "subject": "Numbers?", "body_text": "Please confirm.\n\nDana", "message_id": LETTER,
            "label_ids": ["INBOX", "UNREAD"],
        }
    ],
    "calendars": [{"id": "primary", "user_email": OWNER, "summary": "Owner", "primary": True}],
    "calendar_events": [{**EVENT, "user_email": OWNER, "start_date_time": BEGIN, "end_date_time": END}],
}  # fmt: skip


class Ours:
    """The Google that ships."""

    def __init__(self, fake):
        self.fake = fake
        self.section = section(fake)
        raw = compose(sender=f"Dana <{DANA}>", to=BOT, subject="Numbers?", text="Please confirm.\n\nDana",
                      headers={"Message-ID": LETTER})  # fmt: skip
        fake.mailbox(BOT).add(raw)
        fake.events[OWNER].append({**EVENT, "start": {"dateTime": BEGIN}, "end": {"dateTime": END}})

    async def connect(self, home):
        for identity, address in (("user", OWNER), ("bot", BOT)):
            self.fake.subject = address
            await connect(google_accounts(home.app), identity)


class Emulated:
    """Somebody else's."""

    def __init__(self, url):
        self.section = Google(
            client_id="any-client", client_secret_env=SECRET, gmail_url=url, calendar_url=url,
            authorize_url=f"{url}/o/oauth2/v2/auth", token_url=f"{url}/oauth2/token",
            revoke_url=f"{url}/oauth2/revoke",
        )  # fmt: skip

    async def connect(self, home):
        app = home.app
        for identity, address in (("user", OWNER), ("bot", BOT)):
            shown = []
            client, grant = await sign_in(
                app.transport, app.redactor, google_accounts(app).client(identity), shown.append,
                paste=lambda shown=shown, address=address: consent_as(address, shown[0]),
            )  # fmt: skip
            await app.oauth.connect(client, grant, keep_client=False)
            row = find_token(app.db.reader, "google", identity)
            noted = f"{row.token_id} {address}"
            await app.db.write(lambda tx, n=noted, i=identity: write_meta(tx, f"google_mailbox:{i}", n))


@pytest.fixture(params=["ours", "emulated"])
def counterpart(request, tmp_path):
    with contextlib.ExitStack() as stack:
        if request.param == "ours":
            yield Ours(stack.enter_context(fake_google()))
        else:
            yield Emulated(stack.enter_context(emulated(tmp_path, SEED)))


@pytest.fixture
async def home(tmp_path, counterpart):
    made = MailHome(tmp_path / "of-owner", google=counterpart.section, executor__backoff_seconds=0.01)
    await counterpart.connect(made)
    yield made
    made.close()


async def mailbox(home):
    """What is in the bot's mailbox, asked without any of our own code: drafts, and sent mail as it stands there."""
    headers = {"Authorization": f"Bearer {await google_accounts(home.app).bearer('bot')}"}
    base = f"{home.app.config.google.gmail}/gmail/v1/users/me/"
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=60, trust_env=False) as client:
        drafts = (await client.get("drafts")).json().get("drafts", [])
        sent = []
        for found in (await client.get("messages", params={"q": "in:sent"})).json().get("messages", []):
            raw = (await client.get(f"messages/{found['id']}", params={"format": "raw"})).json()["raw"]
            data = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4))
            sent.append(BytesParser(policy=compat32).parsebytes(data))
        return drafts, sent


async def found(home):
    """The id of Dana's message, as a search gives it."""
    outcome = await carry(home, "gmail_search_threads", "bot", query="confirm")
    assert outcome.result.success, outcome.result.output
    assert "Subject: Numbers?" in outcome.result.output
    assert outcome.result.label == "untrusted:gmail:partner.example"
    return outcome.result.output.split()[1]


async def drafted(home):
    """Search, read, and a draft that answers; its id."""
    message_id = await found(home)
    short = await carry(home, "gmail_get_snippet", "bot", message_id=message_id)
    assert "From: Dana <dana@partner.example>" in short.result.output
    whole = await carry(home, "gmail_get_full", "bot", message_id=message_id)
    assert "Please confirm.\n\nDana" in whole.result.output
    outcome = await carry(home, "gmail_create_draft_reply", "bot", message_id=message_id, body="Yes.\n\nThe bot")
    assert outcome.result.success, outcome.result.output
    assert (home.owner.cards[-1].target_entity, home.owner.cards[-1].identity) == (f"To {DANA}", "bot")
    drafts, sent = await mailbox(home)
    assert ([each["id"] for each in drafts], sent) == ([outcome.result.metadata["draft_id"]], [])
    return drafts[0]["id"]


def is_the_answer(mail):
    assert (mail["To"], mail["Subject"], mail["In-Reply-To"]) == (DANA, "Re: Numbers?", LETTER)
    assert mail.get_payload(decode=True).decode().replace("\r\n", "\n").strip() == "Yes.\n\nThe bot"


async def test_found_read_answered_and_sent_once(home):
    draft_id = await drafted(home)
    outcome = await carry(home, "gmail_send_draft", "bot", draft_id=draft_id)
    assert outcome.result.success, outcome.result.output
    card = home.owner.cards[-1]
    assert card.target_entity == f"To {DANA}"
    assert "Yes.\n\nThe bot" in card.preview_or_diff
    drafts, (mail,) = await mailbox(home)
    is_the_answer(mail)
    assert drafts == []
    again = await carry(home, "gmail_send_draft", "bot", draft_id=draft_id)
    assert again.result.code == "NOT_FOUND"
    assert len((await mailbox(home))[1]) == 1


class CutOff:
    """Lets requests through, and loses the first answer from a path."""

    def __init__(self, transport, path, *, arrives):
        self.transport, self.path, self.arrives = transport, path, arrives

    async def send(self, request):
        if self.path and request.url.endswith(self.path) and request.method == "POST":
            self.path = ""
            if self.arrives:
                await self.transport.send(request)
            raise TransportError("the connection broke", sent=True)
        return await self.transport.send(request)

    def __getattr__(self, name):
        return getattr(self.transport, name)


async def settled(home, action_id):
    """Carry on with an action until it is at its end; its status."""
    for _ in range(10):
        action = load_action(home.app.db.reader, action_id)
        if action.status != "APPROVED":
            break
        await home.conveyor().execute(action)
    return load_action(home.app.db.reader, action_id).status


@pytest.mark.parametrize("arrives", [True, False], ids=["answer lost", "request lost"])
async def test_lost_send_is_looked_up_and_sent_once(home, arrives):
    draft_id = await drafted(home)
    home.app.__dict__["transport"] = CutOff(home.checked, SEND, arrives=arrives)
    outcome = await carry(home, "gmail_send_draft", "bot", draft_id=draft_id)
    assert outcome.receipt.status == "unknown"
    assert await settled(home, outcome.action.action_id) == "EXECUTED"
    drafts, (mail,) = await mailbox(home)
    is_the_answer(mail)
    assert drafts == []


@pytest.mark.parametrize("arrives", [True, False], ids=["answer lost", "request lost"])
async def test_lost_draft_is_looked_up_and_written_once(home, arrives):
    message_id = await found(home)
    home.app.__dict__["transport"] = CutOff(home.checked, "/drafts", arrives=arrives)
    outcome = await carry(home, "gmail_create_draft_reply", "bot", message_id=message_id, body="Yes.")
    assert outcome.receipt.status == "unknown"
    assert await settled(home, outcome.action.action_id) == "EXECUTED"
    drafts, sent = await mailbox(home)
    assert (len(drafts), sent) == (1, [])


async def test_calendar_is_read_and_the_owner_never_sends(home):
    times = {"time_min": "2026-11-18T00:00:00+00:00", "time_max": "2026-11-19T00:00:00+00:00"}
    events = await carry(home, "gcal_list_events", "user", **times)
    assert "Budget review" in events.result.output
    assert events.result.label == "untrusted:gcal"
    assert (await carry(home, "gmail_send_draft", "user", draft_id="r-1")).result.code == "USER_NEVER_SENDS"
