"""kill -9 of a real serving process: no message is lost, none is answered twice, what was cut is told."""

import random
import time
from collections import Counter

import httpx
import pytest

from coilclaw.features.chat.feature import FEATURE as CHAT
from coilclaw.packets.card import nobody
from tests.features.chat.talking import events, messages, talking, until
from tests.features.chat.turns_life import living
from tests.home import Sample

pytestmark = pytest.mark.slow


def calls(*tools):
    return {"tool_calls": [{"tool": name, "args": args} for name, args in tools]}


def make(folder, *script):
    home = Sample(folder)
    home.script(*script)
    home.close()


def post(http, text, thread=None):
    thread = thread or http.post("/v1/chat/threads", json={}).json()["thread_id"]
    answer = http.post(f"/v1/chat/threads/{thread}/messages", json={"text": text})
    assert answer.status_code == 202, answer.text
    return answer.json()


def wait_for(http, path, holds):
    while True:
        answer = http.get(path).json()
        if holds(answer):
            return answer
        time.sleep(0.02)


async def test_what_a_killed_process_left_is_answered_or_told_by_the_next(tmp_path):
    make(
        tmp_path / "s",
        {"match": "quick", "text": "quick answer"},
        {"match": "slow", "text": "slow answer", "delay": 600},
        {"match": "work", **calls(("time", {}))},
        {"match": "work", "text": "work done", "delay": 600},
    )
    with living(tmp_path / "s") as (http, process):
        quick, slow, work = (post(http, text) for text in ("quick", "slow", "work"))
        behind = post(http, "quick too", slow["thread_id"])
        wait_for(http, f"/v1/chat/turns/{quick['turn_id']}", lambda turn: turn["state"] == "ANSWERED")
        wait_for(http, f"/v1/chat/turns/{slow['turn_id']}", lambda turn: turn["state"] == "RUNNING")
        wait_for(http, f"/v1/chat/threads/{work['thread_id']}/messages", lambda page: len(page["items"]) == 3)
        process.kill()
    home = Sample(tmp_path / "s")
    home.script(
        {"match": "quick", "text": "quick answer"},
        {"match": "slow", "text": "slow answer at last"},
        {"match": "work", "text": "work done after all"},
    )
    async with talking(home) as site:
        assert (await until(site, slow["turn_id"]))["answer"] == "slow answer at last"
        assert (await until(site, behind["turn_id"]))["answer"] == "quick answer"
        assert (await until(site, work["turn_id"]))["answer"] == "work done after all"
        assert (await until(site, quick["turn_id"]))["answer"] == "quick answer"
        told = await messages(site, work["thread_id"])
        assert [each["role"] for each in told] == ["user", "assistant", "tool", "assistant"]
        assert [receipt.tool for receipt in home.receipts()] == ["time"]
    home.close()


async def test_what_a_killed_server_left_is_gone_on_with_by_a_worker_alone(tmp_path):
    make(
        tmp_path / "s",
        {"match": "slow", "text": "slow answer", "delay": 600},
        {"match": "work", **calls(("time", {}))},
        {"match": "work", "text": "work done", "delay": 600},
    )
    with living(tmp_path / "s") as (http, process):
        slow, work = (post(http, text) for text in ("slow", "work"))
        behind = post(http, "quick", slow["thread_id"])
        wait_for(http, f"/v1/chat/turns/{slow['turn_id']}", lambda turn: turn["state"] == "RUNNING")
        wait_for(http, f"/v1/chat/threads/{work['thread_id']}/messages", lambda page: len(page["items"]) == 3)
        process.kill()
    home = Sample(tmp_path / "s")
    home.script(
        {"match": "slow", "text": "slow answer at last"},
        {"match": "quick", "text": "quick answer"},
        {"match": "work", "text": "work done after all"},
    )
    (chore,) = CHAT.chores(home.app, home.app.conveyor(nobody))
    home.app.estop.engage("first look", "2026-01-01T00:00:00Z")
    assert await chore.run() == 0
    home.app.estop.clear(home.app.estop.mark())
    assert await chore.run() == 3
    assert await chore.run() == 0
    turns = home.app.db.reader.execute("SELECT turn_id, state FROM turns").fetchall()
    assert dict(turns) == dict.fromkeys((slow["turn_id"], work["turn_id"], behind["turn_id"]), "ANSWERED")
    said = home.app.db.reader.execute("SELECT content FROM messages WHERE role = 'assistant' AND content != ''")
    assert sorted(row[0] for row in said) == ["quick answer", "slow answer at last", "work done after all"]
    assert [receipt.tool for receipt in home.receipts()] == ["time"]
    home.close()


async def test_killed_again_and_again_under_load_nothing_is_lost_and_nothing_answered_twice(tmp_path):
    make(tmp_path / "s", calls(("time", {})), {"text": "you said {last_user}", "delay": 0.02})
    chance = random.Random(20260301)
    kept: list[dict] = []
    threads: list[str | None] = [None, None, None]
    for life in range(5):
        with living(tmp_path / "s") as (http, process):
            for number in range(chance.randrange(3, 12)):
                place = number % len(threads)
                try:
                    posted = post(http, f"message {life}.{number}", threads[place])
                except httpx.HTTPError:
                    break
                threads[place] = posted["thread_id"]
                kept.append(posted)
            time.sleep(chance.random() * 0.15)
            process.kill()
    home = Sample(tmp_path / "s")
    home.environ["COILCLAW_MOCK_SCRIPT"] = str(home.folder / "script.json")
    async with talking(home) as site:
        states = Counter()
        for each in kept:
            states[(await until(site, each["turn_id"]))["state"]] += 1
            ends = [told for kind, told in events(home, each["turn_id"]) if kind == "turn_ended"]
            assert len(ends) == 1
            rows = home.app.db.reader.execute(
                "SELECT role, content, tool_calls FROM messages WHERE turn_id = ? ORDER BY seq", (each["turn_id"],)
            ).fetchall()
            assert [role for role, _, _ in rows].count("user") == 1
            answers = [content for role, content, made in rows if role == "assistant" and made == "[]"]
            assert len(answers) == (1 if ends[0]["state"] == "ANSWERED" else 0)
            assert all(answer.endswith(rows[0][1]) for answer in answers)  # a notice may stand before the message
        assert set(states) <= {"ANSWERED", "INTERRUPTED"}
        assert states["ANSWERED"] > len(kept) / 2
        for thread in filter(None, threads):
            began = home.app.db.reader.execute(
                "SELECT turn_id FROM turns WHERE thread_id = ? ORDER BY started_at, rowid", (thread,)
            ).fetchall()
            assert [row[0] for row in began] == [each["turn_id"] for each in kept if each["thread_id"] == thread]
    home.close()
