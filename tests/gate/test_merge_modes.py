"""Which merges the owner answered in advance: nothing in a pull request can turn a question into an answer."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coilclaw.gate.merge_modes import answered_in_advance
from coilclaw.packets.forge import MergeFacts

PATHS = st.sampled_from(
    ["intel/a.md", "INTEL/a.md", "memory/x", "skills/a/SKILL.md", "agent/x.py", "notes.md", "intel/.envrc", "a\nb"]
)
ALLOW = st.sampled_from(["intel/**", "memory/**", "**", "[A-Z]*/**", "*.md", "INTEL/**", "", "**/**/**"])
FACTS = st.builds(
    MergeFacts,
    mode=st.sampled_from(["strict", "whitelist", "yolo"]),
    allow=st.lists(ALLOW, max_size=4).map(tuple),
    paths=st.lists(PATHS, max_size=5).map(tuple),
    governs=st.lists(st.sampled_from(["SYSTEM.md", ".github/x"]), max_size=1).map(tuple),
    risk=st.sampled_from(["R0", "R1", "R2", "R3"]),
    tainted=st.booleans(),
    checks_passed=st.booleans(),
    of_job=st.booleans(),
)
GOOD = MergeFacts(
    mode="whitelist",
    allow=("intel/**", "memory/**"),
    paths=("intel/2026-11/web.md",),
    governs=(),
    risk="R1",
    tainted=False,
    checks_passed=True,
    of_job=True,
)


def facts(**changed):
    return msgspec.structs.replace(GOOD, **changed)


def test_whitelist_merges_what_it_lists():
    assert "intel/**" in answered_in_advance(GOOD)
    assert answered_in_advance(facts(paths=("intel/a", "memory/b/c")))


def test_whitelist_merges_what_the_runtime_alone_wrote():
    assert answered_in_advance(facts(paths=()))


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": "strict"},
        {"paths": ("intel/a.md", "notes.md")},
        {"paths": ("INTEL/a.md",)},
        {"paths": ("intelligence/a.md",)},
        {"paths": ("intel/.vscode/tasks.json",)},
        {"paths": ("intel/deep/.ENVRC",)},
        {"allow": ("**",), "paths": ("agent/run.py",), "risk": "R3"},
        {"allow": ()},
        {"checks_passed": False},
        {"of_job": False},
        {"governs": ("SYSTEM.md",)},
        {"tainted": True, "risk": "R2"},
    ],
)
def test_whitelist_leaves_the_rest_to_the_owner(changed):
    assert answered_in_advance(facts(**changed)) == ""


@pytest.mark.parametrize("path", ["intel/.envrc", ".vscode/tasks.json", "src/AGENTS.md", "lib/x.pth"])
@pytest.mark.parametrize("changed", [{}, {"mode": "yolo"}, {"of_job": False, "auto": True}])
def test_no_answer_in_advance_covers_what_other_programs_execute(changed, path):
    assert answered_in_advance(facts(**changed))
    assert answered_in_advance(facts(**changed, paths=(*GOOD.paths, path))) == ""


def test_a_letter_case_that_the_owner_excluded_stays_excluded():
    assert answered_in_advance(facts(allow=("notes/[!S]*",), paths=("notes/secret",))) == ""


def test_a_tainted_job_may_still_merge_what_is_informational():
    assert answered_in_advance(facts(tainted=True))
    assert answered_in_advance(facts(tainted=True, mode="yolo"))


def test_yolo_merges_high_risk_of_a_job_whose_checks_pass():
    assert "yolo" in answered_in_advance(facts(mode="yolo", paths=("agent/run.py",), risk="R3"))


@pytest.mark.parametrize(
    "changed",
    [{"checks_passed": False}, {"of_job": False}, {"governs": ("x",)}, {"tainted": True, "risk": "R3"}],
)
def test_yolo_leaves_the_rest_to_the_owner(changed):
    assert answered_in_advance(facts(mode="yolo", **changed)) == ""


@given(FACTS, PATHS)
def test_a_further_path_never_brings_an_answer(merge, path):
    more = msgspec.structs.replace(merge, paths=(*merge.paths, path))
    assert not answered_in_advance(more) or answered_in_advance(merge)


@given(FACTS)
@example(facts(mode="yolo", risk="R3"))
def test_what_speaks_against_a_merge_never_brings_an_answer(merge):
    worse = [
        {"tainted": True},
        {"checks_passed": False},
        {"governs": (*merge.governs, "SYSTEM.md")},
        {"of_job": False},
        {"mode": "strict"},
        {"allow": merge.allow[:-1]},
        *({"risk": risk} for risk in ("R0", "R1", "R2", "R3") if risk > merge.risk),
    ]
    for changed in worse:
        if answered_in_advance(msgspec.structs.replace(merge, **changed)):
            assert answered_in_advance(merge)


@given(FACTS)
def test_an_answer_means_that_every_rule_holds(merge):
    if answered_in_advance(merge):
        assert merge.mode != "strict"
        assert merge.checks_passed
        assert merge.of_job
        assert not merge.governs
        assert not (merge.tainted and merge.risk > "R1")
        assert merge.mode == "yolo" or merge.risk != "R3"


@given(FACTS)
def test_the_answer_depends_on_the_facts_alone(merge):
    assert answered_in_advance(merge) == answered_in_advance(msgspec.structs.replace(merge))
