"""Long texts are redacted beside the event loop: nobody waits for a card, a file or a story, least of all ESTOP."""

import asyncio
import threading

import pytest

from coilclaw.secrets.redactor import Redactor
from coilclaw.server.redacting import KEPT, KEPT_CHARACTERS, WITHHELD, Redacting
from coilclaw.server.serving import Serving
from tests.features.approvals.queue_home import queue_home
from tests.server.house import house
from tests.server.parts import queue_part
from tests.server.site import served

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"
LONG = 8_000


class Gated(Redactor):
    """The redactor, held up at a long text until the test lets it go on: in the loop, nobody could."""

    def __init__(self):
        super().__init__()
        self.entered = threading.Event()
        self.go = threading.Event()
        self.threads = set()
        self.held = []
        self.at_once = self.most_at_once = 0

    def text(self, text):
        if len(text) >= LONG:
            self.threads.add(threading.get_ident())
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.entered.set()
            self.held.append(self.go.wait(120))
            self.at_once -= 1
        return super().text(text)


async def served_meanwhile(site, gate, path, other):
    """Ask for something long; while it is being redacted, somebody else is answered."""
    gate.go.clear()
    gate.entered.clear()
    asked = asyncio.ensure_future(site.http.get(path))
    while not gate.entered.is_set():
        assert not asked.done(), asked.result().text
        await asyncio.sleep(0.005)
    assert (await site.http.get(other)).status_code == 200
    assert not asked.done()
    gate.go.set()
    answer = await asked
    assert answer.status_code == 200, answer.text
    assert threading.get_ident() not in gate.threads
    assert all(gate.held)
    return answer


def long_text(*, words="password: x1y2z3w4\n"):
    return f"{words * (2 * LONG // len(words))}{TOKEN}\n"


@pytest.mark.parametrize("path", ["/v1/approvals", "/v1/approvals/{id}", "/v1/actions/{id}", "/v1/audit/{id}/story"])
async def test_others_are_answered_while_a_huge_card_is_read(tmp_path, path):
    with queue_home(tmp_path) as q:
        action_id = await q.write("big.txt", long_text(words="plain words\n"))
        q.home.app.redactor = gate = Gated()
        async with served(q.home, queue_part) as site:
            await served_meanwhile(site, gate, path.format(id=action_id), "/v1/receipts/head")


async def test_others_are_answered_while_a_long_reason_is_listed(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write()
        why = f"{'because ' * LONG}{TOKEN}"
        q.home.app.db.write_now(
            lambda tx: tx.execute("UPDATE proposed_actions SET justification = ? WHERE action_id = ?", (why, action_id))
        )
        q.home.app.redactor = gate = Gated()
        async with served(q.home, queue_part) as site:
            answer = await served_meanwhile(site, gate, "/v1/actions", "/v1/receipts/head")
            assert TOKEN not in answer.text


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("skills/long/SKILL.md", "/v1/skills/long"),
        ("policies/long.json", "/v1/policies/long.json"),
        ("SYSTEM.md", "/v1/system-prompt"),
    ],
)
async def test_others_are_answered_while_a_long_file_is_read(sample, file, path):
    home = sample()
    (home.workspace / file).parent.mkdir(parents=True, exist_ok=True)
    (home.workspace / file).write_text(long_text())
    home.app.redactor = gate = Gated()
    async with house(home) as site:
        answer = await served_meanwhile(site, gate, path, "/v1/estop")
        shown = answer.json().get("file", answer.json())
        assert shown["content"] == Redactor().text(long_text())
        assert TOKEN not in answer.text
        assert shown["redacted"] is True


async def test_few_long_texts_are_redacted_at_once(tmp_path):
    with queue_home(tmp_path) as q:
        ids = [await q.write(f"{number}.txt", f"{number}{long_text(words='plain ')}") for number in range(5)]
        q.home.app.redactor = gate = Gated()
        async with served(q.home, queue_part) as site:
            asked = [asyncio.ensure_future(site.http.get(f"/v1/approvals/{each}")) for each in ids]
            while not gate.entered.is_set():
                await asyncio.sleep(0.005)
            gate.go.set()
            assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
            assert gate.most_at_once <= 2


@pytest.fixture
def core(sample):
    home = sample()
    return Serving(home.app).core


@pytest.mark.parametrize(
    "text",
    [
        long_text(),
        long_text(words="plain words and "),
        f"{'x ' * 3000}password: {TOKEN[4:]}\n{'y ' * 3000}",
        "-----BEGIN PRIVATE KEY-----\n" + "a1B2c3D4e5F6g7H8\n" * 2000,
        f"{'a' * 16_380}{TOKEN}{'b ' * 9000}",
        "\udcff" * 5000 + TOKEN,
        TOKEN,
        "",
    ],
)
def test_what_is_shown_is_what_the_whole_text_shows_the_first_time_and_again(core, text):
    redacting = Redacting(core)
    wanted = core.redactor.text(text)
    assert [redacting.said(text), redacting.said(text)] == [wanted, wanted]
    for most in (1, 40, 4096, 4100, 6020, 16_390, 16_400):
        assert wanted.startswith(redacting.head(text, most))


def test_what_is_registered_later_is_taken_out_of_what_was_kept(core):
    redacting = Redacting(core)
    text = f"{'plain words ' * 1000} correct-horse-7"
    assert redacting.said(text).endswith("correct-horse-7")
    core.redactor.register("horse", "correct-horse-7")
    assert redacting.said(text).endswith("[redacted:horse]")


def test_only_so_much_is_kept(core):
    redacting = Redacting(core)
    for number in range(KEPT + 10):
        redacting.said(f"{number} {'plain ' * 1000}")
    assert len(redacting) == KEPT
    assert redacting.said("a b " * (KEPT_CHARACTERS // 4 + 1)).startswith("a b ")
    assert len(redacting) == 0


def test_what_cannot_be_redacted_is_withheld_and_not_kept(core):
    class Broken(Redactor):
        def text(self, text):
            raise RuntimeError("no")

        def stream(self):
            raise RuntimeError("no")

    object.__setattr__(core, "redactor", Broken())
    redacting = Redacting(core)
    assert redacting.said("plain " * 1000) == WITHHELD
    assert redacting.head("plain " * 1000, 4096) == WITHHELD
    assert len(redacting) == 0


async def test_what_is_told_of_a_skill_holds_no_secret_and_no_part_of_one(sample):
    home = sample()
    for name, head in (
        ("told", f"name: told\ndescription: {'w' * 900} {TOKEN}"),
        ("wrong", f"name: x\nlicense: {TOKEN}"),
    ):
        path = home.workspace / "skills" / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"---\n{head}\nmetadata:\n  coilclaw-domains: '{'w' * 60}/{TOKEN}'\n---\n\u202e {TOKEN}\n")
    (home.workspace / "skills" / "told" / "SKILL.md").write_text(
        f"---\nname: told\ndescription: {'w' * 900} {TOKEN}\n---\n"
    )
    async with house(home) as site:
        answer = await site.http.get("/v1/skills")
        described = next(each["description"] for each in answer.json()["items"] if each["name"] == "told")
        assert described.startswith("www")
        assert TOKEN[:12] not in answer.text
        assert TOKEN[:12] not in (await site.http.get("/v1/skills/wrong")).text
