"""Mail in the panel, with the real executable: connect, search, read, suggest, draft, send, and sent once."""

import contextlib
import re

import pytest

from coilclaw.sandbox.fake_google import FakeGoogle
from coilclaw.sandbox.fake_google_mail import compose
from tests.panel.acts import approve, begin_talk, say, settle_in
from tests.panel.house import House
from tests.panel.test_accounts import BOT, OWNER, connect, google_variables, open_accounts
from tests.panel.window import Look

pytestmark = pytest.mark.slow

TEXT = "Hello Dana,\n\nyes, the numbers are right.\n\nThe bot"


@pytest.fixture
def fake():
    with FakeGoogle(BOT, OWNER) as made:
        raw = compose(
            sender="Dana Reyes <dana@partner.example>", to=BOT, subject="Thursday's numbers",
            text="Could you confirm the numbers by Thursday?\n\nDana\n",
            headers={"Reply-To": "numbers@partner.example"},
        )  # fmt: skip
        made.letter = made.mailbox(BOT).add(raw)
        yield made


def script(fake):
    """What the model says: it reads and suggests; told to, it drafts, and goes on to send when that is done."""
    read = {"identity": "bot", "message_id": fake.letter.message_id}
    draft_id = fake.mailbox(BOT)._new_id("r", 2)  # the first draft, beside Dana's letter
    return [
        {"match": "dana want", "text": "I look.", "tool_calls": [
            {"tool": "gmail_search_threads", "args": {"identity": "bot", "query": "numbers"}},
            {"tool": "gmail_get_full", "args": read, "justification": "You asked what she wants."},
        ]},
        {"match": "dana want", "text": f"She wants the numbers confirmed. I suggest:\n\n{TEXT}"},
        {"match": "answer her", "text": "", "tool_calls": [
            {"tool": "gmail_create_draft_reply", "args": {**read, "body": TEXT}, "justification": "You said so."},
        ]},
        {"match": "answer her", "text": "", "tool_calls": [
            {"tool": "gmail_send_draft", "args": {"identity": "bot", "draft_id": draft_id}},
        ]},
        {"match": "answer her", "text": "It is sent."},
    ]  # fmt: skip


@pytest.fixture
def house(tmp_path, fake):
    with contextlib.closing(House(tmp_path, script=script(fake), environ=google_variables(fake))) as made:
        yield made


@pytest.mark.parametrize("look", [Look("desktop", "light")], ids=str)
def test_mail_is_read_answered_and_sent_once(house, window, fake, look):
    w = window(look)
    settle_in(w)
    open_accounts(w)
    fake.subject = OWNER
    connect(w, 0)
    w.sees(OWNER)
    fake.subject = BOT
    connect(w, 1)
    w.sees(BOT)

    talk = begin_talk(w, "What does Dana want?")
    w.sees("Reads all of this message")
    w.scene("mail-read-card")
    w.click(re.compile("^Approve"))
    w.sees("She wants the numbers confirmed.")
    w.page.get_by_role("group", name="Mail that was read").last.locator("summary").click()
    w.sees("Could you confirm the numbers by Thursday?")
    w.scene("mail-suggested")

    say(w, "Good. Answer her like that.")  # the last word of it: a product without a gate would send now
    w.sees("numbers@partner.example")
    w.sees("the answer goes where Reply-To says")
    w.scene("mail-draft-card")
    approve(w, passkey=True)
    w.sees("Sends this mail as bot (bot@example.com)")  # its card stands there without another word
    (draft,) = fake.mailbox(BOT).drafts
    assert fake.sent == []
    assert TEXT in draft.parsed.get_payload(decode=True).decode().replace("\r\n", "\n")
    w.scene("mail-send-card")
    approve(w, passkey=True)
    w.sees("It is sent.")
    assert w.place == f"/chat/{talk}", "each card stands in the conversation: three presses, one for each yes"
    w.scene("mail-sent")
    (sent,) = fake.sent
    assert sent.header("To") == "numbers@partner.example"
    assert fake.forbidden == []
    open_accounts(w)
    w.scene("accounts-used")
