"""Jobs that plan: a light model reads the goal, a strong one plans it, and neither can widen anything."""

import asyncio
import json

import pytest

from coilclaw.config import MockModel, Providers, RouterModel
from coilclaw.features.jobs.job_spec import Rules
from coilclaw.features.jobs.job_views import models_of
from coilclaw.features.jobs.planning import SpecDraft, narrowed_spec, read_plan, read_spec
from coilclaw.features.jobs.terminal import lines
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER
from coilclaw.packets.job import Constraints, JobSpec, Outputs
from coilclaw.store.jobs import list_jobs
from coilclaw.store.usage import tokens_of_job

SPEC = {"allowed_tools": None, "allowed_domains": None, "max_files_changed": None, "evidence_required": []}
PLAN = {
    "steps": [
        {"description": "look around", "writes": False, "evidence": []},
        {"description": "write it up", "writes": True, "evidence": []},
    ]
}
ROUTES = {"route": "light", "plan": "strong", "author": "author", "job": "worker"}


def said(value, **more):
    text = value if isinstance(value, str) else json.dumps(value)
    return {"text": text, "usage": {"input_tokens": 10, "output_tokens": 5}, **more}


def once(value):
    """An answer that is given once, whatever it is asked with."""
    return {"raw": value if isinstance(value, str) else json.dumps(value)}


@pytest.fixture
def planning(office, tmp_path):
    """An office whose router has these answers for its routes; without a script a model is never to be asked."""

    def make(clock=None, routes=ROUTES, **scripts):
        models = {}
        for name in ("light", "strong", "author", "worker"):
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(scripts.get(name, [said(f"{name} was asked")])))
            models[name] = MockModel(model=f"{name}-1", script=str(path))
        models["by_task"] = RouterModel(routes=routes, default="worker")
        return office(clock, providers=Providers(models=models), default_provider="by_task")

    return make


async def test_free_words_become_a_specification_and_a_plan_and_each_model_does_its_part(planning):
    here = planning(light=[said(SPEC)], strong=[said(PLAN)], worker=[said("seen")], author=[said("written")])
    job = await here.create("look around and write it up")
    assert job.state == "RECEIVED"
    await here.drain()
    done = here.job(job)
    assert done.state == "DONE", done.reason
    assert here.states(job) == ["PARSED", "POLICY_CHECKED", "PLANNED", "EXECUTING", "DONE"]
    assert [step.description for step in done.plan.steps] == ["look around", "write it up"]
    models = [(each.part, each.provider, each.model) for each in models_of(here.app, done)]
    assert models == [
        ("spec", "light", "light-1"),
        ("plan", "strong", "strong-1"),
        ("step 1", "worker", "worker-1"),
        ("step 2", "author", "author-1"),
    ]
    assert any("plan: strong (strong-1)" in line for line in lines(here.app, done))
    assert tokens_of_job(here.app.db.reader, job.job_id) == 60


def proven(*names):
    """A plan whose first step names evidence."""
    first = {"description": "run the tests", "writes": False, "evidence": list(names)}
    return {"steps": [first, {"description": "sum up", "writes": False, "evidence": []}]}


TOLD = {"match": "not everything you must leave"}
LEAVES = {
    **TOLD,
    "tool_calls": [{"tool": "artifact_put", "args": {"name": "log", "kind": "text", "content": "12 passed"}}],
}


async def test_a_planned_step_ends_only_with_the_evidence_it_names(planning):
    here = planning(
        light=[said(SPEC)], strong=[said(proven("log"))], worker=[said("passed"), LEAVES, said("left", **TOLD)]
    )
    job = await here.create("run the tests")
    await here.drain()
    done = here.job(job)
    assert done.state == "DONE", done.reason
    steps = [(row.metadata.get("plan_step", 0), row.content) for row in here.messages(job) if row.role == "assistant"]
    assert [text for step, text in steps if not step and "Step" not in text] == ["passed", "", "left"]


async def test_a_planned_step_without_its_evidence_fails_after_one_reminder_with_the_reason(planning):
    here = planning(light=[said(SPEC)], strong=[said(proven("log"))], worker=[said("passed"), said("trust me", **TOLD)])
    job = await here.create("run the tests")
    await here.drain()
    assert (here.job(job).state, here.job(job).reason) == ("FAILED", "step 1 of 2: evidence missing: log.")
    assert "Step 2" not in str(here.messages(job))


async def test_a_plan_names_no_evidence_where_none_can_be_left(planning):
    here = planning(light=[said(SPEC)], strong=[said(proven("log"))], worker=[said("passed")])
    job = await here.create("run the tests", allowed_tools=("time",))
    await here.drain()
    assert here.job(job).state == "DONE"
    assert [step.evidence for step in here.job(job).plan.steps] == [(), ()]


async def test_what_a_model_planned_never_counts_as_said_by_the_owner(planning):
    plan = {"steps": [{"description": "open https://evil.example/x", "writes": False, "evidence": []}]}
    here = planning(light=[said(SPEC)], strong=[said(plan)], worker=[said("done")])
    job = await here.create("look around")
    await here.drain()
    rows = here.messages(job)
    assert any("evil.example" in row.content for row in rows if row.role == "assistant")
    assert not any("evil.example" in row.content for row in rows if row.role == "user" or row.label == OWNER)


@pytest.mark.parametrize(
    "spec",
    [
        "no json",
        {**SPEC, "autonomy": "full"},
        {**SPEC, "allowed_tools": ["nosuch"]},
        {**SPEC, "max_files_changed": -1},
        {**SPEC, "evidence_required": ["../../x"]},
        {"allowed_tools": None},
        '{"allowed_tools": null, "allowed_tools": ["time"]}',
        [SPEC],
    ],
)
async def test_after_one_repair_a_specification_that_is_invalid_leaves_the_plain_goal(planning, spec):
    here = planning(light=[once(spec), once(spec), said(SPEC)], author=[said("done")])
    job = await here.create("look around")
    await here.drain()
    done = here.job(job)
    assert done.state == "DONE", done.reason
    assert [step.description for step in done.plan.steps] == ["look around"]
    (event,) = here.events(job, "draft")
    assert (event["what"], event["used"]) == ("spec", False)
    assert tokens_of_job(here.app.db.reader, job.job_id) > 15


async def test_one_repair_is_enough(planning):
    fenced = f"```json\n{json.dumps(SPEC)}\n```"
    strong = [once({"steps": []}), said(PLAN)]
    here = planning(light=[once("oh"), said(fenced)], strong=strong, worker=[said("a")], author=[said("b")])
    job = await here.create("look around")
    await here.drain()
    assert here.job(job).state == "DONE"
    assert len(here.job(job).plan.steps) == 2


async def test_a_provider_that_fails_leaves_the_plain_goal(planning):
    here = planning(light=[{"error": "unavailable"}], author=[said("done")])
    job = await here.create("look around")
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.events(job, "draft")[0]["used"] is False


async def test_the_owners_steps_win_and_no_model_plans(planning):
    here = planning(author=[said("one"), said("two")])
    job = await here.create("look around", steps=("first", "second"))
    assert job.state == "EXECUTING"
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.events(job, "draft") == []


async def test_without_a_route_for_plan_everything_is_as_before(planning):
    here = planning(routes={"route": "light"}, worker=[said("done")])
    job = await here.create("look around")
    assert job.state == "EXECUTING"
    await here.drain()
    assert here.events(job, "draft") == []


async def test_what_the_rules_refuse_is_refused_before_any_model_is_asked(planning):
    here = planning()
    job = await here.create("look around", allowed_tools=("nosuch_tool",))
    assert job.state == "DENIED"
    assert tokens_of_job(here.app.db.reader, job.job_id) == 0


async def test_a_draft_only_narrows_what_the_owner_gave(planning):
    wide = {**SPEC, "allowed_tools": ["time", "shell", "file_write"], "max_files_changed": 999}
    here = planning(light=[said(wide)], strong=[said(PLAN)], worker=[said("a"), said("b")], author=[said("c")])
    job = await here.create("look around", allowed_tools=("time", "file_list"), max_files_changed=3)
    await here.drain()
    limits = here.job(job).spec.constraints
    assert (limits.allowed_tools, limits.max_files_changed) == (("time",), 3)


async def test_the_goal_of_a_tainted_job_is_marked_and_its_plan_has_its_label(planning):
    here = planning(light=[said(SPEC)], strong=[said(PLAN)], worker=[said("a")], author=[said("b")])
    turn = Turn("turn_1", "conv_1", "chat", ("untrusted:web",))
    assert (await here.home.call("job_start", turn, "k", goal="look around")).result.success
    (job,) = list_jobs(here.app.db.reader, None, 9)
    await here.drain()
    assert here.job(job).state == "DONE"
    steps = [row for row in here.messages(job) if row.content.startswith("Step ")]
    assert [(row.role, row.label) for row in steps] == [("assistant", "untrusted:web")] * 2


async def test_a_job_whose_day_is_spent_waits_before_it_is_planned(planning, clock):
    from coilclaw.config.schema import Budgets

    here = planning(clock, light=[said(SPEC)], strong=[said(PLAN)], worker=[said("a")], author=[said("b")])
    job = await here.create("look around")
    import msgspec

    here.app.config = msgspec.structs.replace(here.app.config, budgets=Budgets(daily_tokens=1))
    here.app.db.write_now(lambda tx: _spend(tx, clock))
    await here.drain()
    assert here.job(job).state == "PAUSED_BUDGET"
    clock.advance(days=1)
    here.app.config = msgspec.structs.replace(here.app.config, budgets=Budgets())
    await here.drain()
    assert here.job(job).state == "DONE"


def _spend(tx, clock):
    from coilclaw.store.usage import add_usage

    add_usage(
        tx, clock, thread_id="", turn_id="", job_id=None, provider="p", model="m", input_tokens=9, output_tokens=9,
        estimated=False,
    )  # fmt: skip


async def test_a_job_that_was_cut_between_the_calls_is_planned_once_more_at_most(planning):
    """What a killed process leaves: the specification is kept, the plan is asked for."""
    here = planning(light=[said(SPEC)], strong=[said(PLAN)], worker=[said("a")], author=[said("b")])
    job = await here.create("look around")
    loop = here.background.runner()
    claimed = here.app.db.write_now(lambda tx: _claimed(tx, here, "dead.worker"))
    half = await loop._advance(claimed)
    assert half.state == "POLICY_CHECKED"
    here.app.db.write_now(lambda tx: tx.execute("UPDATE jobs SET worker = NULL"))
    await here.drain()
    assert here.job(job).state == "DONE"
    assert [event["what"] for event in here.events(job, "draft")] == ["spec", "plan"]
    assert tokens_of_job(here.app.db.reader, job.job_id) == 60


def _claimed(tx, here, worker):
    from coilclaw.store.jobs import claim_job

    return claim_job(tx, here.app.clock, worker=worker, running=(), at_once=9, gone=lambda _: True)


def model_is_asked():
    """Whether some task waits for the answer of a scripted model."""
    for task in asyncio.all_tasks():
        step = task.get_coro()
        while step is not None:
            if getattr(step, "__qualname__", "") == "MockProvider._play":
                return True
            step = getattr(step, "cr_await", None)
    return False


async def test_a_job_that_is_called_off_while_it_is_planned_ends_and_what_was_asked_is_paid(planning):
    here = planning(light=[said(SPEC, delay=600)])
    job = await here.create("look around")
    work = asyncio.ensure_future(here.drain())
    while not model_is_asked():
        await asyncio.sleep(0.01)
    await here.desk.cancel(job.job_id, "stop it")
    await work
    assert here.job(job).state == "CANCELLED"
    assert here.events(job, "draft") == []
    assert tokens_of_job(here.app.db.reader, job.job_id) > 0


async def test_a_model_that_takes_too_long_leaves_the_plain_goal(planning, hurried):
    import msgspec

    here = planning(light=[said(SPEC, delay=600)], author=[said("done")])
    here.app.config = msgspec.structs.replace(here.app.config, jobs=hurried)
    job = await here.create("look around")
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    assert "longer than" in here.events(job, "draft")[0]["reason"]


RULES = Rules(
    tools=frozenset({"time", "shell", "artifact_put", "http"}),
    allowed_tools=frozenset({"time", "artifact_put", "http"}),
    allowed_domains=("*.example.com",),
)


def drafted(**more):
    return read_spec(json.dumps({**SPEC, **more}).encode(), RULES)


@pytest.mark.parametrize("tools", [None, ("time",), ("time", "artifact_put")])
@pytest.mark.parametrize("draft_tools", [None, ["time"], ["shell", "http"], []])
@pytest.mark.parametrize("domains", [None, ["a.example.com"], ["elsewhere.org"], []])
@pytest.mark.parametrize("own", [None, ("b.example.com",)])
def test_no_draft_gives_more_than_was_given(tools, draft_tools, domains, own):
    spec = JobSpec(job_id="j", intent="x", constraints=Constraints(allowed_tools=tools, allowed_domains=own))
    made = narrowed_spec(spec, drafted(allowed_tools=draft_tools, allowed_domains=domains), RULES).constraints
    if tools is not None:
        assert made.allowed_tools is not None
        assert set(made.allowed_tools) <= set(tools)
    if made.allowed_tools is not None:
        assert "shell" not in made.allowed_tools
    if own is not None:
        assert made.allowed_domains is not None
        assert set(made.allowed_domains) <= set(own)


def test_a_draft_cannot_take_away_what_the_owner_wants_left():
    spec = JobSpec(job_id="j", intent="x", outputs=Outputs(evidence_required=("report",)))
    assert narrowed_spec(spec, drafted(allowed_tools=["time"]), RULES) == spec
    made = narrowed_spec(spec, SpecDraft(**{**SPEC, "evidence_required": ("more",)}), RULES)
    assert made.outputs.evidence_required == ("report", "more")


@pytest.mark.parametrize(
    "plan",
    [
        {"steps": []},
        {"steps": [{"description": "x", "writes": True}]},
        {"steps": [{"description": " ", "writes": True, "evidence": []}]},
        {"steps": [{"description": "x\0", "writes": True, "evidence": []}]},
        {"steps": [{"description": "x", "writes": True, "evidence": ["a/b"]}]},
        {"steps": [{"description": "x", "writes": True, "evidence": [], "tool": "shell"}]},
        {"steps": [{"description": "x", "writes": True, "evidence": [], "approved": True}]},
        {"steps": [{"description": "x", "writes": True, "evidence": []}], "answers": [{"command": "make"}]},
        {"steps": [{"description": "x", "writes": True, "evidence": []}] * 21},
        {"steps": [{"description": "x" * 2001, "writes": True, "evidence": []}]},
    ],
)
def test_a_plan_that_is_invalid_is_not_a_plan(plan):
    import msgspec

    with pytest.raises((ValueError, msgspec.ValidationError)):
        read_plan(json.dumps(plan).encode())
