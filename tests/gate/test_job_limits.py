"""What a job said it would stay within holds for every call it makes."""

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.packets.box import BoxResult
from coilclaw.packets.job import Constraints, JobLimits


def turn_within(**constraints):
    used = {key: constraints.pop(key) for key in ("files_changed",) if key in constraints}
    return Turn("t", "", "job", job=JobLimits(job_id="job_1", constraints=Constraints(**constraints), **used))


@pytest.fixture
def home(sample):
    made = sample(security__autonomy="full", security__allowed_domains=("a.example", "b.example"))
    made.app.db.write_now(_a_job)
    return made


def _a_job(tx):
    tx.execute("INSERT INTO users (user_id, email, created_at) VALUES ('owner', '', '') ON CONFLICT DO NOTHING")
    tx.execute(
        "INSERT INTO threads (thread_id, user_id, channel, created_at, updated_at) VALUES ('t', 'owner', 'x', '', '')"
    )
    tx.execute(
        "INSERT INTO jobs (job_id, thread_id, user_id, goal, state, budget_json, created_at, updated_at)"
        " VALUES ('job_1', 't', 'owner', 'g', 'EXECUTING', '{}', '', '')"
    )


async def test_a_tool_the_job_does_not_name_is_denied(home):
    outcome = await home.call("time", turn=turn_within(allowed_tools=("file_read",)))
    assert (outcome.result.code, outcome.receipt.status) == ("JOB_TOOL", "denied")
    assert outcome.action.job_id == "job_1"
    assert (await home.call("time", turn=turn_within(allowed_tools=("time",)))).result.success
    assert (await home.call("time", turn=turn_within())).result.success


async def test_a_program_the_job_does_not_name_is_denied(home):
    turn = turn_within(allowed_programs=("git", "ls"))
    outcome = await home.call("shell", turn=turn, command="cat a.txt")
    assert (outcome.result.code, outcome.receipt.status) == ("JOB_PROGRAM", "denied")
    hidden = await home.call("shell", turn=turn, command="ls; bash -c 'cat a.txt'", key="k2")
    assert hidden.result.code == "JOB_PROGRAM"
    assert (await home.call("shell", turn=turn, command="ls", key="k3")).action.decision.verdict == "allow"
    assert (await home.call("time", turn=turn)).result.success


async def test_a_job_cannot_widen_what_the_configuration_grants(home):
    outcome = await home.call("http", turn=turn_within(allowed_domains=("c.example",)), url="https://c.example/")
    assert outcome.result.code == "NOT_LISTED"


async def test_a_domain_the_job_does_not_name_is_denied_before_anything_is_looked_up(home):
    outcome = await home.call("http", turn=turn_within(allowed_domains=("a.example",)), url="https://b.example/")
    assert outcome.result.code == "NARROWED"
    opened = await home.call("web_open", turn=turn_within(allowed_domains=()), url="https://c.example/")
    assert opened.result.code == "NARROWED"


async def test_the_job_may_change_so_many_files_and_no_more(home):
    turn = turn_within(max_files_changed=2)
    for number in range(2):
        assert (
            await home.call("file_write", turn=turn, path=f"{number}.txt", content="x", key=f"a{number}")
        ).result.success
    assert (
        await home.call("file_write", turn=turn, path="1.txt", content="y", key="b")
    ).result.success  # not a new one
    third = await home.call("file_write", turn=turn, path="3.txt", content="x", key="c")
    assert third.result.code == "JOB_FILES"
    assert not (home.workspace / "3.txt").exists()
    rows = home.app.db.reader.execute("SELECT path FROM job_files ORDER BY path").fetchall()
    assert [row[0] for row in rows] == ["0.txt", "1.txt"]


async def test_a_command_that_changed_too_many_files_has_failed_and_the_next_is_denied(home):
    async def run(spec, *, released, on_output):
        for number in range(5):
            (home.workspace / f"made{number}.txt").write_text("x")
        return BoxResult(end="exited", exit_code=0, stdout=b"", stderr=b"", seconds=0.1, tier="A")

    home.box.run = run
    turn = turn_within(max_files_changed=3)
    outcome = await home.call("shell", turn=turn, command="make all", key="m")
    assert (outcome.result.code, outcome.receipt.status) == ("JOB_FILES", "failed")
    again = await home.call("shell", turn=turn, command="make more", key="n")
    assert (again.result.code, again.receipt.status) == ("JOB_FILES", "denied")
    reads = await home.call("shell", turn=turn, command="ls", key="o")
    assert reads.receipt.status == "allowed"


async def test_work_in_the_background_asks_before_it_steers_later_work(home):
    from coilclaw.packets.card import Answer

    home.owner.answer = Answer(approved=None)
    for path in ("cron/jobs.json", "sops/x/SOP.toml", "skills/x.md"):
        outcome = await home.call("file_write", turn=turn_within(), path=path, content="x", key=path)
        assert (outcome.pending, outcome.action.decision.code) == (True, "STEERS_LATER_WORK")
    chat = await home.call("file_write", turn=Turn("t", "", "chat"), path="skills/x.md", content="x", key="chat")
    assert chat.result.success  # somebody watches, and autonomy is full
    by_command = await home.call("shell", turn=turn_within(), command="cp a.txt cron/jobs.json", key="cp")
    assert by_command.result.code == "PATH_PROTECTED"
    await home.call("shell", turn=turn_within(), command="make", key="make")
    assert any(path.endswith("/cron") for path in home.box.specs[-1].read_only)


@pytest.mark.parametrize("source", ["chat", "cli", "job"])
async def test_nobody_but_a_procedure_puts_its_question(home, source):
    turn = Turn("t", "", source)
    outcome = await home.call("sop_approval", turn=turn, sop="x", step="ask", message="Shall it go on?")
    assert (outcome.result.code, outcome.action.decision.rule) == ("TOOL_NOT_ALLOWED", "tool.runtime")
    assert home.owner.cards == []
