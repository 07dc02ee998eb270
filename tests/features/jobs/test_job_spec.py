"""What a job may ask for: it narrows, it never widens."""

import pytest

from coilclaw.features.jobs.job_spec import Rules, check_goal, covered, faults, objections, plan_of, steps_of
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import Constraints, JobSpec, Outputs

RULES = Rules(
    tools=frozenset({"time", "shell", "http", "artifact_put"}),
    allowed_tools=frozenset({"time", "http", "artifact_put"}),
    allowed_domains=("example.com", "*.sub.example", "http://localhost:8080"),
)


def spec(**more):
    limits = {name: more.pop(name) for name in list(more) if name in Constraints.__struct_fields__}
    outputs = {name: more.pop(name) for name in list(more) if name in Outputs.__struct_fields__}
    return JobSpec(
        job_id="job_1", intent="do it", constraints=Constraints(**limits), outputs=Outputs(**outputs), **more
    )


def test_a_plain_job_is_fine():
    assert faults(spec()) == []
    assert objections(spec(), RULES) == []


@pytest.mark.parametrize(("more", "words"), [
    ({"allowed_tools": ("tiem",)}, "Did you mean time"),
    ({"allowed_tools": ("shell",)}, "cannot extend"),
    ({"allowed_domains": ("other.example",)}, "cannot extend"),
    ({"allowed_domains": ("*.example.com",)}, "cannot extend"),
    ({"pr_required": True}, "pull request"),
    ({"evidence_required": ("report",), "allowed_tools": ("time",)}, "artifact_put"),
])  # fmt: skip
def test_what_widens_or_cannot_be_done_is_objected_to(more, words):
    (reason,) = objections(spec(**more), RULES)
    assert words in reason


@pytest.mark.parametrize("more", [
    {"allowed_tools": ("time", "http")},
    {"allowed_domains": ("example.com", "a.sub.example", "*.a.sub.example", "http://localhost:8080")},
    {"allowed_tools": ()},
    {"max_files_changed": 0, "max_prs": 0},
    {"evidence_required": ("report",)},
])  # fmt: skip
def test_what_narrows_passes(more):
    assert faults(spec(**more)) == []
    assert objections(spec(**more), RULES) == []


@pytest.mark.parametrize("more", [
    {"allowed_tools": ("a b",)},
    {"allowed_tools": ("",)},
    {"allowed_domains": ("exa mple.com",)},
    {"allowed_domains": ("https://user@example.com",)},
    {"evidence_required": ("../x",)},
    {"evidence_required": tuple(f"e{n}" for n in range(201))},
    {"max_files_changed": -1},
    {"max_prs": -1},
    {"pr_required": True, "max_prs": 0},
])  # fmt: skip
def test_a_specification_that_is_invalid_is_told_apart(more):
    assert len(faults(spec(**more))) == 1


@pytest.mark.parametrize(("domain", "allowed", "holds"), [
    ("example.com", ("example.com",), True),
    ("EXAMPLE.com", ("example.com",), True),
    ("a.example.com", ("example.com",), False),
    ("a.example.com", ("*.example.com",), True),
    ("example.com", ("*.example.com",), False),
    ("badexample.com", ("*.example.com",), False),
    ("*.a.example.com", ("*.example.com",), True),
    ("*.com", ("*.example.com",), False),
])  # fmt: skip
def test_a_domain_is_covered_by_itself_or_a_wildcard_above_it(domain, allowed, holds):
    assert covered(domain, allowed) is holds


@pytest.mark.parametrize("goal", ["", " \n", "a\0b", "\ud800", "x" * 65537])
def test_a_goal_that_cannot_be_taken_is_refused(goal):
    with pytest.raises(UsageError):
        check_goal(goal)


def test_the_plan_has_a_step_for_each_that_was_asked_for():
    assert [step.description for step in plan_of(spec(), ()).steps] == ["do it"]
    plan = plan_of(spec(evidence_required=("report",)), ("first", "second"))
    assert [(step.step_id, step.description) for step in plan.steps] == [("s1", "first"), ("s2", "second")]
    assert plan.required_evidence == plan.steps[-1].evidence == ("report",)


@pytest.mark.parametrize("steps", [["x"] * 101, [""], [1], "text", {"a": 1}])
def test_steps_that_are_no_steps_are_refused(steps):
    with pytest.raises(UsageError):
        steps_of(spec(inputs={"steps": steps}))
