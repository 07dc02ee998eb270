"""The questions of a session's program are actions: asked by its hook, from a real box, and answered or denied."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from coilclaw.features.runner.store import questions_of
from coilclaw.packets.canonical import Json
from coilclaw.store.actions import load_action
from tests.features.runner.session_world import until

TIERS = ("A", "B")
pytestmark = pytest.mark.slow


def with_fake(world, **runner: Json):
    """Let sessions of a home run the fake coding program."""
    settings = msgspec.structs.replace(world.app.config.runner, fake_provider=True, **runner)
    world.app.config = msgspec.structs.replace(world.app.config, runner=settings)
    return world


@pytest.fixture
def home(sessions_of_a_home):
    """A home whose sessions may run the fake."""
    return lambda tier="B", **runner: with_fake(sessions_of_a_home(tier), **runner)


async def begin(world, site, *lines, **body):
    """A session of the fake with a script."""
    return await world.start(site, provider="fake", task={"goal": "\n".join(lines)}, **body)


def actions(world, session_id, *statuses):
    """The actions of a session."""
    wanted = statuses or ("PENDING", "APPROVED", "REJECTED", "EXECUTED", "FAILED", "UNKNOWN")
    return [load_action(world.app.db.reader, each) for each in questions_of(world.app.db.reader, session_id, *wanted)]


async def said(world, site, session_id, words):
    """Wait until its terminal shows these words."""

    async def look():
        return words in await world.text(site, session_id)

    await until(look)
    return await world.text(site, session_id)


async def decide(site, session_id, action, decision, note=""):
    """The owner's answer, from a paired device."""
    body = {"approval_id": action.action_id, "decision": decision, "note": note}
    answer = await site.http.post(f"/runner/v1/sessions/{session_id}/approve", json=body)
    assert answer.status_code < 300, answer.text


async def type_line(site, session_id, line):
    """Type a line into its terminal."""
    answer = await site.http.post(f"/runner/v1/sessions/{session_id}/input", json={"data": line, "mode": "line"})
    assert answer.status_code < 300, answer.text


async def ended(world, session_id):
    """Wait for its end."""
    return await until(lambda: world.row(session_id) if world.row(session_id).ended_at else None)


@pytest.mark.parametrize("tier", TIERS)
async def test_listed_command_runs_and_has_a_receipt(home, tier):
    world = home(tier)
    async with world.serving() as site:
        session_id = await begin(world, site, "run echo hel''lo", "write made.txt text")
        text = await said(world, site, session_id, "fake is done")
        assert "exit 0 hello" in text
        assert "wrote made.txt" in text
        done = actions(world, session_id)
        assert [(each.call.tool, each.status, each.decision.lane) for each in done] == [
            ("session_command", "EXECUTED", "A"),
            ("session_write", "EXECUTED", "A"),
        ]
        assert (await ended(world, session_id)).code == "EXITED"


@pytest.mark.parametrize("tier", TIERS)
async def test_denylisted_command_does_not_run(home, tier):
    world = home(tier)
    async with world.serving() as site:
        policy = {"shell_denylist": ["touch made"]}
        session_id = await begin(world, site, "run touch made", "run ls", policy=policy)
        text = await said(world, site, session_id, "fake is done")
        assert "denied: " in text
        assert "forbids 'touch made'" in text
        assert "made\n" not in text
        assert [each.status for each in actions(world, session_id)] == ["REJECTED", "EXECUTED"]


@pytest.mark.parametrize("tier", TIERS)
async def test_unknown_command_waits_for_the_owner(home, tier):
    world = home(tier)
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate || echo ra''n")
        waiting = await until(lambda: actions(world, session_id, "PENDING"))
        assert (await site.http.get(f"/runner/v1/sessions/{session_id}")).json()["state"] == "WAITING_FOR_APPROVAL"
        [asked] = world.events(session_id, "APPROVAL_REQUESTED")
        assert asked.data["approval_id"] == waiting[0].action_id
        assert asked.data["category"] == "command"
        assert "ran" not in await world.text(site, session_id)
        await decide(site, session_id, waiting[0], "allow")
        await said(world, site, session_id, "ran")
        [resolved] = await until(lambda: world.events(session_id, "APPROVAL_RESOLVED"))
        assert resolved.data["approved"] is True
        assert actions(world, session_id)[0].status == "EXECUTED"


async def test_no_of_the_owner_reaches_the_program(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate || touch made", "run ls")
        [waiting] = await until(lambda: actions(world, session_id, "PENDING"))
        await decide(site, session_id, waiting, "deny", note="not on a Tuesday")
        text = await said(world, site, session_id, "fake is done")
        assert "not on a Tuesday" in text
        assert "made\n" not in text


async def test_late_yes_counts_once_for_exactly_those_bytes(home):
    world = home(approval_wait_seconds=1)
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate || echo ra''n", "type")
        text = await said(world, site, session_id, "Not yet, act_")
        [waiting] = actions(world, session_id, "PENDING")
        assert waiting.action_id in text
        await decide(site, session_id, waiting, "allow")
        held = load_action(world.app.db.reader, waiting.action_id)
        assert held.status == "APPROVED"
        assert await site.background._conveyor.execute(held) is None  # no worker uses it up
        await type_line(site, session_id, "run frobnicate || echo r''an")
        await until(lambda: len(actions(world, session_id, "PENDING")) == 1)  # other bytes ask anew
        assert load_action(world.app.db.reader, waiting.action_id).status == "APPROVED"
        for _ in range(2):
            await type_line(site, session_id, "run frobnicate || echo ra''n")
        await said(world, site, session_id, "exit 0 ran")
        assert load_action(world.app.db.reader, waiting.action_id).status == "EXECUTED"
        await until(lambda: len(actions(world, session_id, "PENDING")) == 2)  # the second time asks anew, too


async def test_program_that_never_asks_is_killed(home, monkeypatch):
    monkeypatch.setattr("coilclaw.features.runner.hooks.GUARD_SECONDS", 1.0)
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "unguarded", "sleep 600")
        row = await ended(world, session_id)
        assert (row.state, row.code) == ("FAILED", "UNGUARDED")
        assert "did not call its hook" in row.reason


async def test_program_that_tells_a_result_it_did_not_ask_for_is_killed(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "unannounced touch made", "sleep 600")
        row = await ended(world, session_id)
        assert (row.state, row.code) == ("FAILED", "UNGUARDED")
        assert "had not asked for" in row.reason


async def test_killed_server_denies_what_was_asked(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate || touch made", "sleep 600")
        await until(lambda: actions(world, session_id, "PENDING"))
    async with world.serving() as site:
        text = await said(world, site, session_id, "denied: ")
        assert "Nobody could be asked" in text or "cannot be read" in text
        assert not Path(world.row(session_id).checkout.path, "made").exists()


async def test_fake_is_off_unless_configured(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        answer = await site.http.post(
            "/runner/v1/sessions", json={"repo": {"provider": "local", "name": "site"}, "provider": "fake"}
        )
        assert answer.status_code == 409, answer.text
        assert "switched off" in answer.text
        await asyncio.sleep(0)


async def test_session_is_told_of_a_late_yes(home):
    world = home(approval_wait_seconds=1)
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate || echo ra''n", "type")
        await said(world, site, session_id, "Not yet, act_")
        [waiting] = actions(world, session_id, "PENDING")
        await decide(site, session_id, waiting, "allow")
        text = await said(world, site, session_id, "The owner approved")
        assert f"The owner approved {waiting.action_id}" in text.replace("\n", "")


async def test_questions_of_an_ended_session_are_withdrawn(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate")
        [waiting] = await until(lambda: actions(world, session_id, "PENDING"))
        await world.sessions.stop(session_id)
        await ended(world, session_id)
        assert load_action(world.app.db.reader, waiting.action_id).status == "REJECTED"


async def test_nobody_is_asked_for_a_session_that_has_ended(home):
    world = home()
    recorded, left = world.sessions.record_end, []

    async def looked(session_id, *told):
        left.extend(actions(world, session_id, "PENDING"))
        await recorded(session_id, *told)

    world.sessions.record_end = looked
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate")
        await until(lambda: actions(world, session_id, "PENDING"))
        await site.http.post(f"/runner/v1/sessions/{session_id}/stop")
        assert (await ended(world, session_id)).code == "STOPPED"
    assert left == [], "a server killed right after it recorded the end would leave them for ever"


async def test_paused_session_gets_no_answer_until_it_is_resumed(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate || echo ra''n", "sleep 600")
        [waiting] = await until(lambda: actions(world, session_id, "PENDING"))
        await world.sessions.pause(session_id)
        await decide(site, session_id, waiting, "allow")
        await until(lambda: world.events(session_id, "APPROVAL_RESOLVED"))
        assert load_action(world.app.db.reader, waiting.action_id).status == "APPROVED"
        await world.sessions.resume(session_id)
        await said(world, site, session_id, "exit 0 ran")
