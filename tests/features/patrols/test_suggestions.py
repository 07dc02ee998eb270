"""Quests become drafts where the owner enabled that, and drafts ask to be merged once their patrol passes."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from coilclaw.config.runner import Repo, repo_faults
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import pulls_before
from coilclaw.features.patrols.patrol_job import job_of_run
from coilclaw.features.patrols.store import needed_quest, quests_before
from coilclaw.features.runner.drafts import draft_call
from coilclaw.features.runner.store import events_after, load_session, say
from coilclaw.packets.card import nobody
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.store.actions import load_action, result_of
from tests.features.patrols.patrol_world import MENDED

pytestmark = pytest.mark.slow
TWO = """\
<testsuite><testcase name='one'><failure message='no'/></testcase>\
<testcase name='two'><failure message='no'/></testcase></testsuite>"""
TWO_FAIL = f'echo "{TWO}" >"$PATROL_REPORT"; exit 1'


def quests(world, *states):
    return quests_before(world.app.db.reader, None, 100, states)


def pulls(world):
    return pulls_before(world.app.db.reader, ("OPEN", "MERGED", "CLOSED"), None, 100)


def with_fake(world):
    runner = msgspec.structs.replace(world.app.config.runner, fake_provider=True)
    world.app.config = msgspec.structs.replace(world.app.config, runner=runner)
    return world


async def taken(world):
    await world.patrol()
    await world.quests().upkeep()
    (quest,) = quests(world, "offered")
    return await world.quests().take(quest.quest_id, by="terminal")


def commit(world, quest, text, name="code_of_site.py"):
    """Commit in the checkout of a quest's session, as a program there would."""
    checkout = load_session(world.app.db.reader, quest.session_id).checkout
    Path(checkout.path, name).write_text(text)
    environ = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": checkout.cache,
    }  # fmt: skip
    for words in (("add", "-A"), ("commit", "-qm", "work")):
        subprocess.run(["git", *words], cwd=checkout.path, env=environ, check=True, capture_output=True)


def told(world, quest, kind):
    session = load_session(world.app.db.reader, quest.session_id)
    return [each.data for each in events_after(world.app.db.reader, session, 0, 1000) if each.type == kind]


async def reviewed(world, quest):
    quest = await world.quests().review(quest.quest_id)
    await world.work(job_of_run(world.app, quest.run_id))
    await world.quests().upkeep()
    return needed_quest(world.app.db.reader, quest.quest_id)


async def test_draft_of_a_quest_is_updated_and_asks_once_its_patrol_passes(patrol_world):
    world = patrol_world(opens_pr=True)
    quest = await taken(world)
    commit(world, quest, "more\n", "README.md")
    quest = await reviewed(world, quest)
    (draft,) = pulls(world)
    assert (quest.state, draft.draft, draft.repository, draft.target) == ("taken", True, "site", "main")
    assert draft.title == "Mend test of site"
    assert {"suggested", "session"} <= set(draft.labels)
    settle = Pulls(world.app, world.app.conveyor(nobody)).settle_plain
    assert await settle() == 0, "a draft is not asked about"
    commit(world, quest, MENDED)
    quest = await reviewed(world, quest)
    (ready,) = pulls(world)
    assert (quest.state, ready.number, ready.draft) == ("done", draft.number, False)
    assert ready.head_sha != draft.head_sha
    assert ready.head_sha == quest.checked, "what is asked about is what the patrol passed on"
    await settle()
    question = pulls(world)[0].action_id
    assert question is not None
    (asked,) = told(world, quest, "APPROVAL_REQUESTED")
    assert (asked["approval_id"], asked["category"], asked["context"]["branch"]) == (question, "merge", ready.branch)
    assert "into main of site" in asked["summary"]
    await settle()
    assert told(world, quest, "APPROVAL_RESOLVED") == []
    action = load_action(world.app.db.reader, question)
    await world.app.approvals(world.app.conveyor(nobody)).reject(action, reason="not like this", by="terminal")
    await settle()
    await settle()
    (answered,) = told(world, quest, "APPROVAL_RESOLVED")
    assert (answered["approval_id"], answered["approved"]) == (question, False)
    assert len(told(world, quest, "APPROVAL_REQUESTED")) == 1


async def merge_question(world):
    """A quest whose session's work passed, and the question whether to merge it."""
    quest = await taken(world)
    commit(world, quest, MENDED)
    quest = await reviewed(world, quest)
    await Pulls(world.app, world.app.conveyor(nobody)).settle_plain()
    (pull,) = pulls(world)
    return quest, load_action(world.app.db.reader, pull.action_id)


async def test_approved_merge_is_told_to_its_session_once(patrol_world):
    world = patrol_world(opens_pr=True)
    quest, action = await merge_question(world)
    conveyor = world.app.conveyor(nobody)
    yes = await world.app.approvals(conveyor).approve(action, by="terminal", digest=action.digest)
    outcome = await conveyor.execute(yes)
    assert outcome.result.success, outcome.result
    for _ in range(2):
        await Pulls(world.app, conveyor).settle_plain()
    assert [each.state for each in pulls(world)] == ["MERGED"]
    (answered,) = told(world, quest, "APPROVAL_RESOLVED")
    assert (answered["approval_id"], answered["approved"]) == (action.action_id, True)
    assert answered["by"] == "terminal"


async def test_withdrawn_merge_is_told_to_its_session_once(patrol_world):
    world = patrol_world(opens_pr=True)
    quest, action = await merge_question(world)
    pulled = Pulls(world.app, world.app.conveyor(nobody))
    for _ in range(2):
        await pulled.withdraw_question(pulls(world)[0])
    (answered,) = told(world, quest, "APPROVAL_RESOLVED")
    assert (answered["approval_id"], answered["approved"], answered["by"]) == (action.action_id, False, "")
    assert "has other commits now" in answered["reason"]


async def test_without_leave_no_draft_is_opened(patrol_world):
    world = patrol_world()
    quest = await taken(world)
    commit(world, quest, MENDED)
    quest = await reviewed(world, quest)
    assert (quest.state, pulls(world)) == ("done", [])
    session = load_session(world.app.db.reader, quest.session_id)
    calls = OwnerCalls(world.app, world.app.conveyor(nobody))
    action = await calls.make(draft_call(session, quest.checked, "x", ready=True), by="terminal", key=None)
    assert result_of(world.app.db.reader, action.action_id).code == "NOT_ENABLED"
    assert pulls(world) == []


async def test_drafts_of_a_day_are_capped_where_the_row_is_added(patrol_world):
    world = patrol_world(opens_pr=True, suggestions_per_day=0)
    quest = await taken(world)
    commit(world, quest, MENDED)
    quest = await reviewed(world, quest)
    assert (quest.state, pulls(world)) == ("done", [])


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
async def test_suggest_takes_no_more_than_the_day_has_room_for(patrol_world, autonomy):
    patrols = {"test": TWO_FAIL, "suggest": "fake"}
    overrides = {"security__autonomy": autonomy}
    world = with_fake(patrol_world(overrides=overrides, patrols=patrols, opens_pr=True, suggestions_per_day=1))
    await world.patrol("site test")
    job = await world.patrol("site suggest")
    assert job.state == "DONE", job.reason
    (quest,) = quests(world, "taken")
    session = load_session(world.app.db.reader, quest.session_id)
    assert (session.spec.provider, session.spec.structured) == ("fake", True), "nobody sits at a screen"
    waits = load_action(world.app.db.reader, session.action_id).status == "PENDING"
    assert waits == (autonomy == "supervised"), "in supervised autonomy the owner says yes to each start"
    assert len(quests(world, "offered")) == 1
    await world.patrol("site suggest")
    assert len(quests(world, "taken")) == 1
    assert world.run().kind == "suggest"
    assert world.health() == {"site": 35}, "a run of it says nothing about the repository"


async def test_suggest_without_leave_only_offers(patrol_world):
    world = patrol_world(patrols={"test": TWO_FAIL, "suggest": "fake"})
    await world.patrol("site test")
    await world.patrol("site suggest")
    assert [each.state for each in quests(world)] == ["offered", "offered"]


async def test_suggest_is_never_merely_found(patrol_world):
    world = patrol_world(opens_pr=True)
    await world.patrol("site all")
    assert {run["kind"] for run in (msgspec.to_builtins(world.run()),)} == {"test"}
    job = await world.patrol("site suggest")
    assert (job.state, "no coding program is named" in job.reason) == ("FAILED", True)
    fault = repo_faults(Repo(path=Path("/x"), patrols={"suggest": "make suggestions"}))
    assert "suggest must be one of" in fault[0][1]


async def test_program_that_rests_has_its_branch_looked_at(patrol_world):
    world = patrol_world()
    quest = await taken(world)
    commit(world, quest, MENDED)
    await world.quests().upkeep()
    assert needed_quest(world.app.db.reader, quest.quest_id).state == "taken"
    session = load_session(world.app.db.reader, quest.session_id)
    told = {"severity": "info", "code": "NEEDS_YOU", "message": ""}
    world.app.db.write_now(lambda tx: say(tx, world.app.clock, session, "ALERT_RAISED", told))
    await world.quests().upkeep()
    quest = needed_quest(world.app.db.reader, quest.quest_id)
    assert quest.state == "in_review"
    await world.work(job_of_run(world.app, quest.run_id))
    await world.quests().upkeep()
    assert needed_quest(world.app.db.reader, quest.quest_id).state == "done"
