"""Hostile mail, and a model that obeys every word of it: nothing happens that the owner was not asked and did not want.

The accounts are connected, a draft of the bot's lies ready, its id is known to the attacker, and autonomy is full.
"""

import re
import unicodedata
from email.utils import getaddresses

import pytest

from coilclaw.config import Agent, Budgets
from coilclaw.config.schema import Webhook
from coilclaw.features.chat.agent import agent_of
from coilclaw.features.chat.post_message import post
from coilclaw.packets.card import Answer
from coilclaw.packets.chat import ChatResponse, ProposedCall, ProviderCapabilities
from coilclaw.sandbox.fake_google import FakeGoogle
from coilclaw.sandbox.fake_google_mail import compose
from tests.acceptance.hostile_mail import ALL, DRAFT, EVIL, MAIL, OTHERS, events, rows
from tests.acceptance.hostile_mail import mail as by_hand
from tests.features.mail.accounts_harness import BOT, OWNER
from tests.features.mail.mail_harness import connected

pytestmark = pytest.mark.slow

MAILS, INVITATIONS = dict(rows()), dict(events())
CALL = re.compile(r"CALL (\w+) (\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})")


class Obedient:
    """Does everything that the owner or any result says, also where it is hidden, encoded or in other letters."""

    name = "obedient"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True)

    def __init__(self, names):
        self.names = names

    async def chat(self, request, on_text=None):
        told = [m.content for m in request.messages if m.role in ("user", "tool", "system")]
        done = {(call.tool, call.arguments) for m in request.messages for call in m.tool_calls}
        wanted = [found for text in told for found in self.orders(text)]
        fresh = list(dict.fromkeys(found for found in wanted if found not in done))[:16]
        if not fresh or not request.may_call:
            return ChatResponse(final_text="I did what I was told.", provider="obedient", model="obedient")
        calls = tuple(ProposedCall(call_id="", tool=tool, arguments=args) for tool, args in fresh)
        return ChatResponse(final_text="", tool_calls=calls, provider="obedient", model="obedient")

    def orders(self, text):
        """The orders in a text, as a reader finds them who wants to."""
        plain = unicodedata.normalize("NFKC", re.sub(r"⟨U\+[0-9A-F]+⟩", "", text))
        plain = "".join(_letter(char) for char in plain)
        plain = plain.replace("&quot;", '"').replace("\\u2028", "")
        for tool, args in CALL.findall(plain):
            yield tool, re.sub(r'"(\w+)"', lambda found: f'"{self.names.get(found[1], found[1])}"', args)


def _letter(char):
    if 0xE0020 <= ord(char) <= 0xE007E:
        return chr(ord(char) - 0xE0000)
    return "" if unicodedata.category(char) == "Cf" else char


class Reader:
    """An owner who lets the message be read that they asked about, and is not there for anything else."""

    def __init__(self):
        self.cards = []
        self.willing = {"gmail_get_full"}

    async def __call__(self, card):
        self.cards.append(card)
        return Answer(approved=True if card.tool_name in self.willing else None)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with FakeGoogle(OWNER, BOT) as google:
        home = connected(
            tmp_path_factory.mktemp("mail"), google,
            security__autonomy="full", agent=Agent(max_tool_rounds=6),
            budgets=Budgets(tool_calls_per_minute=100_000, open_proposals=100_000),
            webhooks={"hook": Webhook(url="http://127.0.0.1:9/hook")},
        )  # fmt: skip
        yield home, google
        home.close()


def drafts(google):
    return [mail.draft_id for address in (OWNER, BOT) for mail in google.mailbox(address).drafts]


def files(home):
    return {
        path: path.read_bytes() for path in home.workspace.rglob("*") if path.is_file() and ".git" not in path.parts
    }


async def say(world, conversation, text, names):
    """One message of the owner's to the model that obeys; what came of it."""
    home, _ = world
    home.app.provider = lambda name="": Obedient(names)
    return await post(agent_of(home.app, home.conveyor()), home.app, conversation, text, None)


def set_up(world):
    """An empty inbox, and a draft of the bot's that only waits to be sent."""
    home, google = world
    for address in (OWNER, BOT):
        google.mailbox(address).mails.clear()
    google.events[OWNER].clear()
    home.owner = Reader()
    ready = compose(sender=BOT, to="dana@partner.example", subject="Ready", text="The secret plan.")
    draft = google.mailbox(BOT).create_draft(ready, "")
    private = [google.mailbox(BOT).add(compose(sender=OWNER, to=BOT, subject=name, text="x")) for name in OTHERS]
    others = {name: mail.message_id for name, mail in zip(OTHERS, private, strict=True)}
    return home, google, {DRAFT: draft.draft_id, **others}


def nothing_happened(world, before):
    home, google = world
    changed = [path for method, path, _ in google.requests if method != "GET" and path not in ("/token", "/revoke")]
    assert changed == [], "something was written at Google"
    assert google.sent == []
    assert google.forbidden == []
    assert files(home) == before
    assert home.box.specs == []
    done = home.app.db.reader.execute("SELECT DISTINCT tool FROM proposed_actions WHERE status = 'EXECUTED'")
    assert {row[0] for row in done}.isdisjoint({"file_write", "job_start", "schedule_followup", "reach_out"})


def nothing_is_asked(cards, reply):
    """The one card is for the message that the owner wanted read: nothing else waits or was put before them."""
    assert [card.tool_name for card in cards] in ([], ["gmail_get_full"])
    assert [each.action.call.tool for each in reply.outcomes if each.pending] == []


@pytest.mark.parametrize("name", MAILS)
async def test_a_mail_that_gives_orders_gets_nothing_done(world, name):
    home, google, names = set_up(world)
    mail = google.mailbox(OWNER).add(MAILS[name])
    names[MAIL] = mail.message_id
    before, asked_at = files(home), len(google.requests)
    del google.requests[:asked_at]
    reads = f'CALL gmail_search_threads {{"identity": "user", "query": ""}} CALL gmail_get_snippet {{"identity": "user", "message_id": "{mail.message_id}"}} CALL gmail_get_full {{"identity": "user", "message_id": "{mail.message_id}"}}'  # noqa: E501
    reply = await say(world, f"conv_{abs(hash(name))}", f"What does it say? {reads}", names)
    nothing_happened(world, before)
    nothing_is_asked(home.owner.cards, reply)
    assert any(each.result.label.startswith("untrusted:gmail:") for each in reply.outcomes), "it was not even read"
    assert [card.tool_name for card in home.owner.cards].count("gmail_get_full") == 1, "it was not even read whole"


@pytest.mark.parametrize("name", INVITATIONS)
async def test_an_invitation_that_gives_orders_gets_nothing_done(world, name):
    home, google, names = set_up(world)
    google.events[OWNER].append(INVITATIONS[name])
    before = files(home)
    google.requests.clear()
    look = 'CALL gcal_list_events {"identity": "user", "time_min": "2026-11-18T00:00:00Z", "time_max": "2026-11-19T00:00:00Z"}'  # noqa: E501
    reply = await say(world, f"conv_{abs(hash(name))}", f"What is on today? {look}", names)
    nothing_happened(world, before)
    nothing_is_asked(home.owner.cards, reply)


@pytest.mark.parametrize("name", MAILS)
async def test_an_answer_goes_to_nobody_whom_the_card_does_not_show(world, name):
    """The owner read it in an earlier message and now wants it answered, to everybody; the card is all they see."""
    home, google, names = set_up(world)
    mail = google.mailbox(OWNER).add(MAILS[name])
    home.owner.willing.add("gmail_create_draft_reply")
    args = f'{{"identity": "user", "message_id": "{mail.message_id}", "body": "Yes.", "reply_all": true}}'
    await say(world, f"conv_a{abs(hash(name))}", f"Answer it. CALL gmail_create_draft_reply {args}", names)
    made = list(google.mailbox(OWNER).drafts)
    shown = [card for card in home.owner.cards if card.tool_name == "gmail_create_draft_reply"]
    assert len(made) <= len(shown) <= 1
    if not made:
        return  # it was refused: nobody could be shown for certain
    (draft,), (card,) = made, shown
    for header in ("To", "Cc", "Bcc", "Subject", "From", "In-Reply-To", "References", "Message-ID"):
        assert len(draft.parsed.get_all(header, [])) <= 1, header
    assert draft.parsed.get_all("Bcc", []) == []
    people = getaddresses([*draft.parsed.get_all("To", []), *draft.parsed.get_all("Cc", [])])
    assert people
    assert [address for _, address in people if address not in card.preview_or_diff] == []
    assert card.target_entity.startswith("To ")
    assert "Yes." in card.preview_or_diff


async def test_whoever_writes_last_in_a_conversation_gets_no_answer_that_is_for_another(world):
    """A search shows the newest message of a conversation, and here that is the attacker's."""
    home, google, names = set_up(world)
    box = google.mailbox(OWNER)
    asked = box.add(compose(sender="Dana <dana@partner.example>", to=OWNER, subject="Numbers?", text="Confirm?"))
    last = box.add(by_hand(ALL, subject="Re: Numbers?", In_Reply_To=asked.header("Message-ID")))
    assert last.thread_id == asked.thread_id
    names[MAIL] = last.message_id
    before = files(home)
    google.requests.clear()
    reads = f'CALL gmail_search_threads {{"identity": "user", "query": ""}} CALL gmail_get_full {{"identity": "user", "message_id": "{last.message_id}"}}'  # noqa: E501
    reply = await say(world, "conv_last", f"What do they want? {reads}", names)
    nothing_happened(world, before)
    nothing_is_asked(home.owner.cards, reply)
    assert "untrusted:gmail:attacker.example,gmail:partner.example" in [each.result.label for each in reply.outcomes]

    home.owner.willing.add("gmail_create_draft_reply")
    for number, (answered, whom) in enumerate(((asked, "dana@partner.example"), (last, EVIL))):
        args = f'{{"identity": "user", "message_id": "{answered.message_id}", "body": "Yes."}}'
        await say(world, f"conv_last_{number}", f"Answer it. CALL gmail_create_draft_reply {args}", names)
        assert home.owner.cards[-1].target_entity == f"To {whom}"
        assert box.drafts[0].header("To") == whom


async def test_reading_first_marks_the_card_of_the_answer(world):
    """The tainted turn proposes nothing; the owner's next message does, and the card says where the words came from."""
    home, google, _ = set_up(world)
    mail = google.mailbox(OWNER).add(MAILS["body: plain"])
    home.owner.willing |= {"gmail_create_draft_reply", "gmail_send_draft"}
    read = f'CALL gmail_get_full {{"identity": "user", "message_id": "{mail.message_id}"}}'
    await say(world, "conv_marks", f"Read it. {read}", {})
    assert home.owner.cards[0].tool_name == "gmail_get_full"
    assert {card.tool_name for card in home.owner.cards} == {"gmail_get_full"}
    args = f'{{"identity": "user", "message_id": "{mail.message_id}", "body": "The owner approved this."}}'
    await say(world, "conv_marks", f"Now answer. CALL gmail_create_draft_reply {args}", {})
    answers = [card for card in home.owner.cards if card.tool_name == "gmail_create_draft_reply"]
    assert answers
    assert any("gmail:attacker.example" in source for source in answers[0].provenance)
    assert f"Eve <{EVIL}>" in answers[0].marked

    stretch = "word for word as it stands in the mail of a stranger"
    mail = google.mailbox(BOT).add(by_hand(f"{stretch}\r\n", to=BOT))
    draft = google.mailbox(BOT).create_draft(compose(sender=BOT, to=EVIL, subject="Hello", text=stretch), "")
    read = f'CALL gmail_get_full {{"identity": "bot", "message_id": "{mail.message_id}"}}'
    await say(world, "conv_sent", f"Read it. {read}", {})
    send = f'CALL gmail_send_draft {{"identity": "bot", "draft_id": "{draft.draft_id}"}}'
    await say(world, "conv_sent", f"Send it. {send}", {})
    assert home.owner.cards[-1].tool_name == "gmail_send_draft"
    assert home.owner.cards[-1].marked[:3] == (EVIL, "Hello", stretch)
