"""The acceptance criteria of the runner's document (§10), with real keepers, boxes and a second client."""

import pytest

from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.runner import follower
from coilclaw.packets.card import nobody
from tests.features.patrols.conftest import patrol_world  # noqa: F401
from tests.features.patrols.test_suggestions import merge_question, pulls
from tests.features.runner.conftest import sessions_of_a_home  # noqa: F401
from tests.features.runner.repo_world import git
from tests.features.runner.session_world import until
from tests.features.runner.test_stream import Client, opened

pytestmark = pytest.mark.slow


async def test_1_a_session_is_spawned(sessions_of_a_home):  # noqa: F811
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        told = (await site.http.get(f"/runner/v1/sessions/{session_id}")).json()
        assert (told["state"], told["provider"]) == ("RUNNING", "shell")
        assert told["worktree_path"].endswith("/site")


async def test_2_and_3_the_terminal_is_streamed_and_input_reaches_the_process(sessions_of_a_home):  # noqa: F811
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        async with opened(site) as socket:
            client = Client(socket)
            await client.say("subscribe", session_id=session_id)
            while "site $" not in client.output.get(session_id, ""):
                await client.hear()
            await client.say("input", session_id=session_id, data="echo heard-$((40+2))\r")
            while "heard-42" not in client.output[session_id]:
                await client.hear()


async def test_4_files_and_the_difference_are_told(sessions_of_a_home):  # noqa: F811
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        await world.sessions.type_in(session_id, "echo b >> README.md", line=True)
        await until(lambda: world.events(session_id, "DIFF_SUMMARY"))
        touched = world.events(session_id, "FILE_TOUCHED")[0]
        assert (touched.data["path"], touched.data["reason"]) == ("README.md", "write")
        assert world.events(session_id, "DIFF_SUMMARY")[0].data["changed_files"] == 1


async def test_5_usage_is_told_at_least_every_thirty_seconds(sessions_of_a_home, monkeypatch):  # noqa: F811
    assert follower.TICK_SECONDS <= 15  # leaves as much again for a busy machine
    monkeypatch.setattr(follower, "TICK_SECONDS", 0.2)
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        await until(lambda: len(world.events(session_id, "USAGE_TICK")) >= 3)
        told = world.events(session_id, "USAGE_TICK")[0].data
        assert told["provider"] == "shell"
        assert {"agent_seconds", "terminal_kb", "files_touched", "provider_invocations"} <= set(told["units"])


async def test_6_a_merge_is_blocked_until_it_is_approved(patrol_world):  # noqa: F811
    world = patrol_world(opens_pr=True)
    before = git(world.folder, "rev-parse", "main")
    _, question = await merge_question(world)
    conveyor = world.app.conveyor(nobody)
    for _ in range(2):
        await conveyor.recover()
        await world.app.executor(conveyor).run_due()
        await Pulls(world.app, conveyor).settle_plain()
    assert (git(world.folder, "rev-parse", "main"), pulls(world)[0].state) == (before, "OPEN")
    yes = await world.app.approvals(conveyor).approve(question, by="terminal", digest=question.digest)
    assert (await conveyor.execute(yes)).result.success
    assert (git(world.folder, "rev-parse", "main^1"), pulls(world)[0].state) == (before, "MERGED")
