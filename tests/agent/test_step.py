"""A step that was left in the middle: what is stored is taken up, never asked for or done again."""

import msgspec
import pytest

from coilclaw.agent.context import chat_messages, of_chat
from coilclaw.agent.spending import spent_on
from coilclaw.agent.step import StepOrder
from coilclaw.agent.window import size_of
from coilclaw.features.chat.agent import agent_of
from coilclaw.gate.turn import Turn
from coilclaw.packets.chat import NOTICE, ChatMessage, ChatRequest, ChatResponse, ProposedCall, ProviderCapabilities
from coilclaw.store.jobs import job_limits
from coilclaw.store.threads import MessageRow, add_message, ensure_thread
from tests.features.conftest import Office


@pytest.fixture
def here(sample):
    office = Office(sample())
    office.home.script({"text": "wrong: the model was asked again"}, {"text": "{last_tool_result}"})
    return office


async def left_behind(here, job, *tools):
    """The model answered with these calls, and the process died right after that was stored."""
    turn = Turn(job.turn_id, job.thread_id, "job", job=job_limits(here.app.db.reader, job.job_id))
    proposed = tuple(
        ProposedCall(call_id=f"c{n}", tool=tool, arguments=msgspec.json.encode(args).decode())
        for n, (tool, args) in enumerate(tools)
    )
    calls = here.background._stepper()._calls
    response = ChatResponse(final_text="", tool_calls=proposed)
    return turn, await calls.propose(turn, 0, response, [], {"job_id": job.job_id, "step": 0})


def answers(here, job):
    return [row.content for row in here.messages(job) if row.role == "tool"]


async def test_calls_that_never_began_are_carried_now(here):
    job = await here.create()
    await left_behind(here, job, ("time", {}), ("file_list", {"path": "."}))
    await here.drain()
    assert here.job(job).state == "DONE"
    assert [receipt.tool for receipt in here.home.receipts()] == ["time", "file_list"]
    assert "SYSTEM.md" in here.said(job)[-1][1]


async def test_a_call_that_has_an_end_is_told_and_not_done_again(here):
    job = await here.create()
    turn, actions = await left_behind(here, job, ("time", {}), ("time", {}))
    await here.background.conveyor.carry(actions[0], turn, stored=True, record=None)
    await here.drain()
    assert len(here.home.receipts()) == 2
    assert len(answers(here, job)) == 2
    assert here.job(job).state == "DONE"


async def test_a_call_that_waits_is_waited_for(here):
    job = await here.create()
    turn, actions = await left_behind(here, job, ("file_write", {"path": "x", "content": "x"}))
    await here.background.conveyor.carry(actions[0], turn, stored=True, record=None)
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    await here.answer()
    await here.drain()
    assert here.job(job).state == "DONE"
    assert (here.home.workspace / "x").read_text() == "x"
    assert len(here.home.receipts()) == 1


async def test_a_call_that_had_begun_is_settled_first(here):
    job = await here.create()
    _, actions = await left_behind(here, job, ("shell", {"command": "make"}))
    here.app.db.write_now(
        lambda tx: tx.execute(
            "UPDATE proposed_actions SET status = 'APPROVED', attempt = 1, begun_at = created_at, worker = 'gone'"
        )
    )
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.home.statuses() == ["UNKNOWN"]
    assert "is unknown" in here.said(job)[-1][1]
    assert actions[0].idempotency_key


async def test_an_answer_without_calls_is_not_asked_for_again(here):
    job = await here.create()
    turn = Turn(job.turn_id, job.thread_id, "job", job=job_limits(here.app.db.reader, job.job_id))
    calls = here.background._stepper()._calls
    await calls.answer(turn, "the end", ChatResponse(final_text="the end"), [], {"job_id": job.job_id, "step": 0})
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.said(job) == [("assistant", "the end")]


async def test_what_every_answer_cost_is_kept_with_it(here):
    here.home.script({"text": "done", "usage": {"input_tokens": 7, "output_tokens": 3}})
    job = await here.create()
    await here.drain()
    rows = here.app.db.reader.execute("SELECT job_id, input_tokens, output_tokens, estimated FROM usage").fetchall()
    assert rows == [(job.job_id, 7, 3, 0)]


async def test_answers_that_nobody_could_read_cost_too(here):
    here.home.script(*[{"text": " ", "usage": {"input_tokens": 5, "output_tokens": 5}}] * 2)
    await here.create()
    await here.drain()
    assert here.app.db.reader.execute("SELECT sum(input_tokens) FROM usage").fetchone() == (10,)


async def test_a_turn_that_is_cut_keeps_what_it_spent(here):
    import asyncio

    from coilclaw.features.chat.post_message import post

    asked = asyncio.Event()

    class Silent:
        name = "silent"
        capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True)

        async def chat(self, request, on_text=None):
            asked.set()
            await asyncio.Event().wait()

    here.app.provider = lambda name="": Silent()
    talk = asyncio.ensure_future(post(agent_of(here.app, here.home.conveyor()), here.app, "conv_1", "hello", None))
    await asked.wait()
    talk.cancel()
    await asyncio.wait({talk})
    assert talk.cancelled()
    ((model, sent, answered, estimated),) = here.app.db.reader.execute(
        "SELECT model, input_tokens, output_tokens, estimated FROM usage"
    ).fetchall()
    assert (model, answered, estimated) == (here.app.config.default_model, 1, 1)
    assert sent > 100  # the prompt had been sent


def test_what_a_provider_does_not_say_is_estimated():
    request = ChatRequest(
        system_prompt="s" * 400, messages=(ChatMessage(role="user", content="u" * 400),), tools=(), model="m"
    )
    guessed = spent_on(request, ChatResponse(final_text="t" * 40))
    assert guessed.estimated
    assert guessed.output_tokens == 11
    assert 200 < guessed.input_tokens < 250


# What the model is shown


def row(role, content="", *, action=None, label="internal", calls=(), call_id="", **metadata):
    return MessageRow(
        message_id="m1", thread_id="t", turn_id="job" if "job_id" in metadata else "u", role=role, content=content,
        label=label, action_id=action,
        tool_calls=tuple(ProposedCall(call_id=c, tool="x", arguments="{}") for c in calls), tool_call_id=call_id,
        metadata=metadata,
    )  # fmt: skip


def test_the_outcome_of_a_call_that_waited_is_its_answer():
    shown = chat_messages([
        row("user", "q"), row("assistant", calls=["a"]), row("tool", "pending act_1", call_id="a", action="act_1"),
        row("assistant", "It waits."), row("system", "x (act_1): evil", action="act_1", label="untrusted:web"),
        row("user", "and now?"),
    ])  # fmt: skip
    assert [message.role for message in shown] == ["user", "assistant", "tool", "assistant", "user"]
    assert shown[2].content == "[untrusted:web m1 begins]\nx (act_1): evil\n[untrusted:web m1 ends]"


def test_an_outcome_that_the_answer_tells_already_is_not_told_twice():
    shown = chat_messages([
        row("user", "q"), row("assistant", calls=["a"]), row("system", "x (act_1): ok", action="act_1"),
        row("tool", "ok", call_id="a", action="act_1"),
    ])  # fmt: skip
    assert [(message.role, message.content) for message in shown][2:] == [("tool", "ok")]


def test_other_notices_stand_before_the_owners_next_words():
    shown = chat_messages([row("user", "q"), row("assistant", "a"), row("system", "news"), row("user", "r")])
    assert [message.content for message in shown] == ["q", "a", f"{NOTICE} news\n\nr"]


def test_notices_that_nobody_followed_up_stand_last():
    shown = chat_messages([row("user", "q"), row("assistant", "a"), row("system", "evil", label="untrusted:w")])
    assert shown[-1].role == "user"
    assert "[untrusted:w m1 begins]\nevil" in shown[-1].content


def test_a_conversation_is_not_shown_the_inner_work_of_a_job():
    rows = [
        row("user", "goal", job_id="j"),
        row("assistant", calls=["a"], job_id="j"), row("tool", call_id="a", job_id="j"),
        row("system", "EXECUTING", job_id="j", state="EXECUTING"), row("assistant", "answer", job_id="j"),
        row("system", "DONE", job_id="j", state="DONE"), row("user", "hi"),
    ]  # fmt: skip
    assert [each.content for each in of_chat(rows)] == ["goal", "answer", "DONE", "hi"]


async def test_the_goal_is_shown_however_long_the_job_works(here):
    many = [{"tool_calls": [{"tool": "time", "args": {}}]} for _ in range(40)]
    here.home.script(*[{**call, "match": "the goal"} for call in many])
    job = await here.create("the goal")
    await here.drain()
    assert here.job(job).state == "FAILED"  # by its steps; the script never ran out of the goal
    assert "steps" in here.job(job).reason


async def test_a_job_goes_on_when_its_conversation_is_gone(here):
    job = await here.create("the goal", steps=("first", "second"))
    here.app.db.write_now(lambda tx: tx.execute("DELETE FROM messages"))
    here.home.script({"text": "one", "match": "Step 1 of 2: first"}, {"text": "two", "match": "Step 2 of 2: second"})
    await here.drain()
    assert here.job(job).state == "DONE"
    assert [text for _, text in here.said(job)] == ["one", "two"]


class Looker:
    """A provider with a small window that looks at something else each time, or always at the same."""

    name = "looker"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True, context_window=32_000)

    def __init__(self, rounds, *, same=False):
        self.asked = []
        self.summed_up = 0
        self._rounds = rounds
        self._same = same

    async def chat(self, request, on_text=None):
        if request.metadata["hint"] == "summarise":
            self.summed_up += 1
            return ChatResponse(final_text="They looked at files.", provider="looker", model="m")
        self.asked.append(request)
        if len(self.asked) > self._rounds:
            return ChatResponse(final_text="done", provider="looker", model="m")
        path = "f" if self._same else f"f{len(self.asked)}"
        call = ProposedCall(call_id="c", tool="file_read", arguments=msgspec.json.encode({"path": path}).decode())
        return ChatResponse(final_text="", tool_calls=(call,), provider="looker", model="m")


async def test_a_job_keeps_to_the_window_and_its_oldest_work_is_summed_up(here):
    model = Looker(20)
    here.app.provider = lambda name="": model
    for at in range(1, 21):
        (here.home.workspace / f"f{at}").write_text(f"file {at}\n" + "words of a file\n" * 700)

    def talk(tx):
        ensure_thread(tx, here.app.clock, "conv_1", "cli", "long")
        for at in range(100):
            said = MessageRow(
                message_id=f"m{at}",
                thread_id="conv_1",
                turn_id=f"turn_{at}",
                role="assistant" if at % 2 else "user",
                content=f"words {at} " + "and more " * 100,
                label="internal" if at % 2 else "owner",
            )
            add_message(tx, here.app.clock, said)

    here.app.db.write_now(talk)
    job = await here.create("count the blue herons")
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    assert all(size_of(request.messages) < 32_000 for request in model.asked)
    assert all(any("blue herons" in each.content for each in request.messages) for request in model.asked)
    assert 0 < model.summed_up < 20, "one summary holds for several steps"


async def test_a_job_that_goes_in_circles_is_told_and_then_ended(here):
    model = Looker(20, same=True)
    here.app.provider = lambda name="": model
    (here.home.workspace / "f").write_text("the same")
    job = await here.create("read it")
    await here.drain()
    assert (here.job(job).state, len(model.asked)) == ("FAILED", 4)
    assert "the same result" in here.job(job).reason
    assert "the same result 3 times" in model.asked[3].messages[-1].content


@pytest.mark.parametrize("said", ["That is all.", ""])
async def test_a_last_word_makes_no_calls_whatever_the_model_says(here, said):
    class Eager:
        name = "eager"
        capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True)

        async def chat(self, request, on_text=None):
            call = ProposedCall(call_id="c", tool="memory_store", arguments='{"key": "k", "value": "v"}')
            return ChatResponse(final_text=said, tool_calls=(call,), provider="eager", model="m")

    here.app.provider = lambda name="": Eager()
    job = await here.create()
    order = StepOrder(
        thread_id=job.thread_id,
        turn_id=job.turn_id,
        number=0,
        words=(("go on", "owner"),),
        task="",
        limits=job_limits(here.app.db.reader, job.job_id),
        inherited=(),
        fresh=(),
        may_call=False,
    )
    report = await here.background._stepper().step(order)
    assert (report.stage, report.text) == ("answered" if said else "called", said)
    assert here.home.statuses() == []
