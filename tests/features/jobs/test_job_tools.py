"""job_start and job_status through the gate: jobs with the labels and limits of the turn that starts them."""

import pytest

from coilclaw.agent.context import chat_messages, of_chat
from coilclaw.features.chat.agent import agent_of
from coilclaw.features.chat.post_message import post
from coilclaw.features.jobs.checkpoint import read_checkpoint
from coilclaw.features.jobs.job_requests import OF_A_TURN, OF_AGENT
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER
from coilclaw.packets.job import Constraints, JobLimits
from coilclaw.store.jobs import list_jobs
from coilclaw.store.labels import conversation_texts
from coilclaw.store.threads import messages_and_since
from tests.features.conftest import calls
from tests.features.projects.world import add as add_project
from tests.features.projects.world import folder
from tests.features.projects.world import thread as thread_in
from tests.features.projects.world import turn as turn_in


async def start(home, turn=None, key="k", **args):
    turn = turn or Turn("turn_1", "conv_1", "chat")
    return await home.call("job_start", turn, key, **{"goal": "look at https://evil.example/x", **args})


def jobs(home):
    return list_jobs(home.app.db.reader, None, 100)


async def test_a_job_is_started_without_asking_and_works_on_its_goal(office):
    here = office()
    here.home.script({"text": "it is done"})
    outcome = await start(here.home)
    assert outcome.result.success, outcome.result.output
    assert here.home.owner.cards == []
    assert [(r.status, r.risk_level) for r in here.home.receipts()] == [("allowed", "R1")]
    (job,) = jobs(here.home)
    await here.drain()
    assert here.job(job).state == "DONE"
    assert job.goal == "look at https://evil.example/x"
    status = await here.home.call("job_status", Turn("turn_2", "conv_1", "chat"), "s", job_id=job.job_id)
    assert "is DONE" in status.result.output
    assert "it is done" in status.result.output
    listed = await here.home.call("job_status", Turn("turn_2", "conv_1", "chat"), "l")
    assert job.job_id in listed.result.output


async def test_nothing_of_its_goal_or_steps_counts_as_said_by_the_owner(office):
    here = office()
    await start(here.home, steps=["open https://evil.example/1", "open https://evil.example/2"])
    (job,) = jobs(here.home)
    rows = here.messages(job)
    assert not any("evil.example" in row.content for row in rows if row.role == "user" or row.label == OWNER)
    said = conversation_texts(here.app.db.reader, "conv_1").owner
    assert said
    assert not any("evil.example" in text for text in said)


async def test_the_model_is_shown_goal_and_step_as_its_own_words(office):
    here = office()
    here.home.script({"text": "{history}"}, {"text": "second"})
    await start(here.home, steps=["first part", "second part"])
    await here.drain()
    (job,) = jobs(here.home)
    assert job.state == "DONE"
    told = [(row.role, row.content) for row in here.messages(job) if row.role in ("user", "assistant")]
    assert told[1] == ("assistant", "look at https://evil.example/x")
    assert ("assistant", "Step 2 of 2: second part") in told
    assert ("user", "Carry out step 2 of 2 of the plan now.") in told


async def test_a_tainted_turns_job_is_tainted_in_the_same_way(office):
    here = office()
    turn = Turn("turn_1", "conv_1", "chat", ("untrusted:old",), fresh=("untrusted:new",))
    assert (await start(here.home, turn)).result.success
    (job,) = jobs(here.home)
    checkpoint = read_checkpoint(job.checkpoint)
    assert (checkpoint.fresh, checkpoint.inherited) == (("untrusted:new",), ("untrusted:old",))
    assert job.checkpoint_label == "untrusted:new,old"
    goal = next(row for row in here.messages(job) if row.content == job.goal)
    assert (goal.role, goal.label) == ("assistant", "untrusted:new,old")
    status = await here.home.call("job_status", Turn("turn_2", "conv_2", "chat"), "s", job_id=job.job_id)
    assert status.result.label == "untrusted:new,old"


async def test_what_a_freshly_tainted_turns_job_would_send_is_denied(office):
    from coilclaw.config.schema import Webhook

    here = office(webhooks={"team": Webhook(url="https://team.example/hook")})
    here.home.script(calls(("webhook_send", {"target": "team", "payload": {"x": 1}})), {"text": "{last_tool_result}"})
    await start(here.home, Turn("turn_1", "conv_1", "chat", fresh=("untrusted:web",)))
    await here.drain()
    assert [(r.tool, r.status) for r in here.home.receipts()] == [("job_start", "allowed"), ("webhook_send", "denied")]


async def test_a_job_may_do_no_more_than_the_job_that_starts_it(office):
    here = office()
    limits = Constraints(allowed_tools=("job_start", "time", "file_list"), max_files_changed=3)
    turn = Turn("turn_1", "conv_1", "job", job=JobLimits(job_id="job_x", constraints=limits, generation=4))
    assert (await start(here.home, turn, tools=["time", "file_write"], max_files=9)).result.success
    (job,) = jobs(here.home)
    assert job.spec.constraints.allowed_tools == ("time",)
    assert job.spec.constraints.max_files_changed == 3
    assert job.spec.generation == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"tools": ["nosuch_tool"]},
        {"domains": ["example.com"]},
        {"goal": " "},
        {"evidence": ["../x"]},
        {"steps": ["\0"]},
        {"autonomy": "full"},
    ],
)
async def test_what_cannot_begin_or_would_widen_makes_no_job(office, wrong):
    here = office()
    outcome = await start(here.home, **wrong)
    assert not outcome.result.success
    assert outcome.result.code != "TOOL_CRASHED"
    assert jobs(here.home) == []


async def test_a_turn_starts_only_so_many_and_the_same_call_only_one(office):
    here = office()
    for number in range(OF_A_TURN):
        assert (await start(here.home, key=f"k{number}")).result.success
    assert (await start(here.home, key="more")).result.code == "TOO_MANY_JOBS"
    assert (await start(here.home, Turn("turn_2", "conv_1", "chat"), key="next")).result.success
    assert len(jobs(here.home)) == OF_A_TURN + 1


async def test_only_so_many_of_the_agents_jobs_are_open(office):
    here = office()
    for number in range(OF_AGENT):
        assert (await start(here.home, Turn(f"turn_{number}", "conv_1", "chat"), key=f"k{number}")).result.success
    assert (await start(here.home, Turn("turn_x", "conv_1", "chat"), key="more")).result.code == "TOO_MANY_JOBS"
    assert (await here.create("the owner's own")).state == "EXECUTING"


async def test_a_chain_of_jobs_ends(office):
    from coilclaw.config.schema import Schedules

    here = office(schedules=Schedules(followups_in_a_row=2))
    job = JobLimits(job_id="job_x", constraints=Constraints(), generation=2)
    outcome = await start(here.home, Turn("turn_1", "conv_1", "job", job=job))
    assert outcome.result.code == "TOO_MANY_IN_A_ROW"


async def test_in_readonly_no_job_is_started(office):
    here = office(security__autonomy="readonly")
    assert not (await start(here.home)).result.success
    assert jobs(here.home) == []


async def test_a_job_that_is_not_there_is_reported(office):
    here = office()
    outcome = await here.home.call("job_status", Turn("turn_1", "conv_1", "chat"), "k", job_id="job_nosuch")
    assert outcome.result.code == "NO_SUCH_JOB"


async def test_a_job_is_told_where_its_folder_is_worked_in_and_nowhere_else(office):
    here = office()
    project = add_project(here.home, folder(here.home))
    inside = turn_in(here.home, project)
    here.home.script({"text": "the secret of the folder"})
    job = await here.create("look into it", thread=inside.thread_id)
    await here.drain()

    async def status(turn, key):
        return (await here.home.call("job_status", turn, key, job_id=job.job_id)).result

    assert "the secret" in (await status(inside, "own")).output
    beside = Turn("turn_2", thread_in(here.home, project, "conv_beside"), "chat")
    assert "the secret" in (await status(beside, "beside")).output, "another conversation in the same folder"
    told = await status(Turn("turn_3", "conv_workspace", "chat"), "elsewhere")
    assert (told.success, told.code) == (False, "OTHER_FOLDER")
    assert "the secret" not in told.output
    assert "look into it" not in told.output
    assert job.job_id not in (await here.home.call("job_status", beside, "listed")).result.output


async def test_in_a_conversation_the_call_has_its_answer_and_the_jobs_words_stay_its_own(office):
    here = office()
    here.home.script(calls(("job_start", {"goal": "count the files"})), {"text": "{last_tool_result}"})
    reply = await post(agent_of(here.app, here.home.conveyor()), here.app, "conv_1", "have it done", None)
    (job,) = jobs(here.home)
    assert f"Started {job.job_id}" in reply.text
    rows = of_chat(messages_and_since(here.app.db.reader, "conv_1", reply.turn_id, 100))
    told = [(message.role, message.content) for message in chat_messages(rows)]
    assert [role for role, _ in told] == ["user", "assistant", "tool", "assistant"]
    assert not any("Carry it out" in content for _, content in told)
