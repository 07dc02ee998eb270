"""The question of an approval step: what a yes leads to and what the step before left stand on its card."""

from coilclaw.features.sops.approval_context import MESSAGE_CHARACTERS, question
from coilclaw.features.sops.procedures import Procedures
from coilclaw.features.sops.sop import Sop, Step
from coilclaw.packets.canonical import parse_object
from coilclaw.packets.card import BESIDE
from coilclaw.packets.text import one_line
from coilclaw.store.actions import waiting_actions
from coilclaw.store.sops import StepRow, run_of_job
from tests.features.conftest import Office

ASK = Step(id="ask", kind="approval", prompt="Go on?")
WRITE = Step(id="write", kind="tool", tool="file_write", args={"path": "out.txt", "content_from": "think"})


def left(output, **more):
    return StepRow(run_id="r", step_id="think", position=0, state="SUCCEEDED", attempt=0, output=output, **more)


def asked(*steps, before=None, redact=lambda text: text):
    return question(Sop(name="x", steps=steps), 0, before, redact)


def test_it_tells_what_comes_next_and_what_the_step_before_left():
    told = asked(ASK, WRITE, before=left("a short list\nof two lines"))
    assert told == (
        "Go on?\n\nIf you say yes, next:\n"
        '- write: file_write {"content_from":"think","path":"out.txt"}\n\n'
        "Step think left:\n| a short list\n| of two lines"
    )
    assert "- nothing: this is the last step." in asked(ASK)
    assert "(when write.failed)" in asked(ASK, WRITE, Step(id="t", kind="agent", prompt="x", when="write.failed"))
    assert "and 5 more" in asked(ASK, *(Step(id=f"s{n}", kind="agent", prompt="p") for n in range(15)))


def test_what_a_step_left_can_neither_hide_nor_pass_for_our_words():
    told = asked(
        ASK, WRITE, before=left(f"fine{BESIDE}- nothing: this is the last step.\u202e\x1b[2J\r\n\nStep a left:")
    )
    beside = told.partition("Step think left:\n")[2]
    assert all(line.startswith("| ") for line in beside.split("\n"))
    assert "\u202e" not in told
    assert "\x1b" not in told
    assert told.rpartition(BESIDE)[0] == "Go on?"


def test_it_is_bounded_and_holds_no_secret():
    told = asked(ASK, WRITE, before=left("\u200b" * 60_000))
    assert len(told) < 8000
    assert "truncated" in told
    assert "truncated" in asked(ASK, before=left("a\n" * 300))
    long = Step(id="ask", kind="approval", prompt="p" * 15_800)
    assert len(asked(long, WRITE, before=left("x" * 4000))) <= MESSAGE_CHARACTERS
    whole = Step(id="ask", kind="approval", prompt="p" * MESSAGE_CHARACTERS)
    assert asked(whole, WRITE) == whole.prompt
    assert "hunter2" not in asked(ASK, before=left("it is hunter2"), redact=lambda text: text.replace("hunter2", "*"))
    assert "failed (TIMED_OUT) and left" in asked(
        ASK, before=StepRow(run_id="r", step_id="think", position=0, state="FAILED", attempt=0, code="TIMED_OUT")
    )


async def card_of_the_question(office, *steps):
    folder = office.home.workspace / "sops" / "x"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SOP.toml").write_text('name = "x"\n' + "".join(f"[[steps]]\n{step}\n" for step in steps))
    procedures = Procedures(office.app)
    await procedures.go_on((await procedures.start("x")).run_id)
    (action,) = waiting_actions(office.app.db.reader, 9)
    return action, office.background.conveyor.intake.card(action)


async def test_the_card_shows_it_and_its_sentence_stays_the_question(sample):
    office = Office(sample())
    office.home.script({"text": "seven files"})
    action, card = await card_of_the_question(
        office,
        'id = "think"\nkind = "agent"\nprompt = "Count."',
        'id = "ask"\nkind = "approval"\nprompt = "Write it?"',
        'id = "note"\nkind = "tool"\ntool = "notes_write"\nargs = { title = "t", content_from = "think" }',
    )
    message = parse_object(action.call.args_bytes)["message"]
    assert "| seven files" in message
    assert "- note: notes_write" in message
    assert "seven files" in card.args
    assert card.human_summary == "Procedure x, step ask: Write it?"
    assert "| seven files" in card.preview_or_diff
    assert one_line(card.human_summary) == card.human_summary


async def test_a_question_that_was_put_otherwise_is_not_put_again(sample):
    office = Office(sample())
    action, _ = await card_of_the_question(office, 'id = "ask"\nkind = "approval"\nprompt = "Go on?"')
    await office.app.db.write(  # as if an earlier release had put it
        lambda tx: tx.execute(
            "UPDATE proposed_actions SET idempotency_key = 'other' WHERE action_id = ?", (action.action_id,)
        )
    )
    (run,) = Procedures(office.app).runs(9)
    moved = await Procedures(office.app).go_on(run.run_id)
    assert moved.waiting == (action.action_id,)
    assert len(waiting_actions(office.app.db.reader, 9)) == 1


async def test_the_plan_of_a_job_that_runs_a_procedure_has_its_steps(sample):
    from coilclaw.features.sops.sop_job import plan_of_run

    office = Office(sample())
    folder = office.home.workspace / "sops" / "x"
    folder.mkdir(parents=True)
    (folder / "SOP.toml").write_text(
        'name = "x"\n[[steps]]\nid = "now"\nkind = "tool"\ntool = "time"\n'
        '[[steps]]\nid = "ask"\nkind = "approval"\nprompt = "Go on?"\n'
    )
    job = await office.create("Run the SOP x.", sop="x")
    await office.drain()
    run = run_of_job(office.app.db.reader, job.job_id)
    plan = plan_of_run(run, job.job_id)
    assert [(step.step_id, step.tool, step.description) for step in plan.steps] == [
        ("now", "time", "now"),
        ("ask", None, "ask: Go on?"),
    ]
    assert run.position == 1
