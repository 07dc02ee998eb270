"""Structured sessions as they are used: the fake program in a real box with its relay, its keeper and the server."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from coilclaw.features.runner.adapters.contract import CliLaunch
from coilclaw.features.runner.guard import ProgramGuard
from coilclaw.features.runner.structured import fake
from tests.features.runner.session_world import until
from tests.features.runner.test_hooks import actions, decide, ended, said, type_line, with_fake

TIERS = ("A", "B")
pytestmark = pytest.mark.slow


@pytest.fixture
def home(sessions_of_a_home):
    """A home whose sessions may run the fake."""
    return lambda tier="B", **runner: with_fake(sessions_of_a_home(tier), **runner)


async def begin(world, site, *lines, **body):
    """A structured session of the fake with a script."""
    return await world.start(site, provider="fake", structured=True, task={"goal": "\n".join(lines)}, **body)


@pytest.mark.parametrize("tier", TIERS)
async def test_program_without_a_screen_does_its_task_and_ends(home, tier):
    world = home(tier)
    async with world.serving() as site:
        session_id = await begin(world, site, "run: echo hel''lo", "write: made.txt text", "say: All done.")
        over = await ended(world, session_id)
        assert (over.state, over.code, over.exit_code) == ("COMPLETED", "EXITED", 0)
        text = await world.text(site, session_id)
        for words in ("$ echo hel''lo", "allowed: echo", "hello", "allowed: Write"):
            assert words in text
        done = actions(world, session_id)
        assert [(each.call.tool, each.status, each.decision.lane) for each in done] == [
            ("session_command", "EXECUTED", "A"),
            ("session_write", "EXECUTED", "A"),
        ]
        shown = (await site.http.get(f"/runner/v1/sessions/{session_id}")).json()
        assert (shown["structured"], shown["usage"]["files_touched"]) == (True, 1)


async def test_unknown_command_waits_for_the_owner_without_a_screen(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run: frobnicate || echo ra''n", "run: frobnicate || touch made")
        waiting = await until(lambda: actions(world, session_id, "PENDING"))
        await decide(site, session_id, waiting[0], "allow")
        await said(world, site, session_id, "ran")
        waiting = await until(lambda: actions(world, session_id, "PENDING"))
        await decide(site, session_id, waiting[0], "deny", "not now")
        over = await ended(world, session_id)
        assert over.exit_code == 0
        assert "not now" in await world.text(site, session_id)
        assert [each.status for each in actions(world, session_id)] == ["EXECUTED", "REJECTED"]
        assert not Path(world.row(session_id).checkout.path, "made").exists()


async def test_question_waits_over_a_killed_server(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run: echo on''e", "run: frobnicate || echo tw''o", "say: bye")
        await said(world, site, session_id, "one")
        [waiting] = await until(lambda: actions(world, session_id, "PENDING"))
    assert world.row(session_id).state == "RUNNING"
    async with world.serving() as site:
        await decide(site, session_id, waiting, "allow")
        assert (await ended(world, session_id)).exit_code == 0
        text = await world.text(site, session_id)
        assert text.count("$ echo on''e") == 1
        assert text.count("two\n") == 1
        assert [each.status for each in actions(world, session_id)] == ["EXECUTED", "EXECUTED"]


async def test_work_that_was_answered_is_not_asked_again_by_the_next_server(home):
    world = home()
    async with world.serving() as site:
        script = "frobnicate; while test ! -e go; do sleep 0.1; done; echo on''e"
        session_id = await begin(world, site, f"run: {script}", "run: echo tw''o")
        [waiting] = await until(lambda: actions(world, session_id, "PENDING"))
        await decide(site, session_id, waiting, "allow")
        await said(world, site, session_id, "allowed: frobnicate")
    async with world.serving() as site:
        Path(world.row(session_id).checkout.path, "go").touch()
        assert (await ended(world, session_id)).exit_code == 0
        assert [each.status for each in actions(world, session_id)] == ["EXECUTED", "EXECUTED"]
        assert (await world.text(site, session_id)).count("allowed: frobnicate") == 1


@pytest.mark.parametrize("act", ["sneak", "defy"])
async def test_program_that_acts_without_a_yes_is_killed_without_a_screen(home, act):
    world = home()
    async with world.serving() as site:
        policy = {"shell_denylist": ["frobnicate now"]}
        session_id = await begin(world, site, f"{act}: frobnicate now || true", "run: touch after", policy=policy)
        if act == "sneak":
            waiting = await until(lambda: actions(world, session_id, "PENDING"))
            await decide(site, session_id, waiting[0], "deny")
        over = await ended(world, session_id)
        assert (over.state, over.code) == ("FAILED", "UNGUARDED")
        assert "had not asked for" in over.reason


async def test_typed_line_is_the_next_prompt(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run: frobnicate || true", "say: first")
        waiting = await until(lambda: actions(world, session_id, "PENDING"))
        await type_line(site, session_id, "run: echo sec''ond")
        await decide(site, session_id, waiting[0], "deny")
        over = await ended(world, session_id)
        assert over.exit_code == 0
        assert "second" in await world.text(site, session_id)


async def test_late_yes_is_told_to_a_program_that_is_done(home):
    world = home(approval_wait_seconds=1)
    async with world.serving() as site:
        session_id = await begin(world, site, "run: frobnicate || echo ra''n", "say: done")
        await said(world, site, session_id, "Not yet")
        [waiting] = actions(world, session_id, "PENDING")
        assert world.row(session_id).state == "RUNNING"
        await decide(site, session_id, waiting, "allow")
        await said(world, site, session_id, f"> The owner approved {waiting.action_id}")
        assert (await ended(world, session_id)).exit_code == 0


async def test_late_yes_is_told_however_long_typing_it_takes(home, monkeypatch):
    typed = ProgramGuard._type

    async def slowly(self, text):
        await asyncio.sleep(2)  # longer than a talk waits before it looks whether anything more can come
        await typed(self, text)

    monkeypatch.setattr(ProgramGuard, "_type", slowly)
    world = home(approval_wait_seconds=1)
    async with world.serving() as site:
        session_id = await begin(world, site, "run: frobnicate || echo ra''n", "say: done")
        await said(world, site, session_id, "Not yet")
        [waiting] = actions(world, session_id, "PENDING")
        await decide(site, session_id, waiting, "allow")
        await said(world, site, session_id, f"> The owner approved {waiting.action_id}")
        assert (await ended(world, session_id)).exit_code == 0


async def test_program_that_ends_without_a_word_fails(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "crash:")
        over = await ended(world, session_id)
        assert over.exit_code == 1
        assert "it crashed" in await world.text(site, session_id)


async def test_structured_session_needs_a_program_and_a_task(home):
    world = home()
    async with world.serving() as site:
        for body in ({"provider": "shell", "task": {"goal": "x"}}, {"provider": "fake"}):
            answer = await site.http.post(
                "/runner/v1/sessions", json={"repo": {"name": "site"}, "structured": True, **body}
            )
            assert answer.status_code in (400, 409, 422), answer.text


async def test_program_that_never_says_a_word_is_killed(home, monkeypatch):
    def silent(place):
        return CliLaunch(argv=("/bin/sleep", "600"))

    monkeypatch.setattr(fake, "DRIVER", msgspec.structs.replace(fake.DRIVER, launch=silent))
    monkeypatch.setattr("coilclaw.features.runner.hooks.GUARD_SECONDS", 1.0)
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "say: nothing")
        over = await ended(world, session_id)
        assert (over.state, over.code) == ("FAILED", "UNGUARDED")
