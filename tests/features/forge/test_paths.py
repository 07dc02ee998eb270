"""Paths of a pull request: their risk, the runtime's own files, and what the owner alone merges."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.forge.paths import (
    events_path,
    evidence_path,
    governed,
    highest,
    is_runtime_file,
    job_file_path,
    path_risk,
)
from coilclaw.packets.forge import FileChange


@pytest.mark.parametrize(
    ("path", "risk"),
    [
        ("jobs/2026/11/job_1.md", "R1"),
        ("audit/2026/11/17.jsonl", "R1"),
        ("intel/2026-11/a.md", "R1"),
        ("INTEL/a.md", "R1"),
        ("memory/notes.md", "R1"),
        ("memory/PREFERENCES.md", "R2"),
        ("memory/preferences.MD", "R2"),
        ("memory/PREFERENCES.md.", "R2"),
        ("Memory/Prefe\u200drences.md", "R2"),
        ("memory/PREFERENCES.md/x", "R1"),
        ("intel/.envrc", "R2"),
        ("intel./a.md", "R2"),
        ("skills/a/SKILL.md", "R2"),
        ("cron/jobs.json", "R2"),
        ("sops/a/SOP.toml", "R2"),
        ("README.md", "R2"),
        ("docs/x", "R2"),
        ("agents/x", "R2"),
        ("agent/run.py", "R3"),
        ("Agent/run.py", "R3"),
        ("policies/a.json", "R3"),
        ("policies", "R3"),
        (".github/workflows/x.yml", "R3"),
        (".GitHub/x", "R3"),
        (".github./x", "R3"),
        (".git\u200chub/x", "R3"),
        ("SYSTEM.md", "R3"),
        ("system.md", "R3"),
        ("SYSTEM.md .", "R3"),
        ("CODEOWNERS", "R3"),
        ("codeowners", "R3"),
        ("docs/CODEOWNERS", "R3"),
        (".github/CODEOWNERS", "R3"),
        ("intel/CODEOWNERS", "R1"),
        ("notes/SYSTEM.md", "R2"),
        ("", "R2"),
        ("a\nb\x00\ud800", "R2"),
    ],
)
def test_a_path_has_its_risk(path, risk):
    assert path_risk(path) == risk


def test_the_risk_of_a_change_is_that_of_its_riskiest_path():
    assert highest([]) == "R0"
    assert highest(["intel/a"]) == "R1"
    assert highest(iter(["intel/a", "x"])) == "R2"
    assert highest(["x", "SYSTEM.md", "intel/a"]) == "R3"
    assert highest([f"intel/{number}" for number in range(100_000)]) == "R1"


@given(st.text(max_size=30), st.sampled_from([str.upper, str.lower, str.title, str.swapcase]))
def test_letter_case_makes_no_ascii_path_less_risky(path, spell):
    if path.isascii():
        assert path_risk(spell(path)) == path_risk(path)


def test_the_runtimes_own_files_are_those_three():
    made = job_file_path("job_1", "2026-11-17T10:00:00.000Z")
    assert made == "jobs/2026/11/job_1.md"
    assert all(is_runtime_file(path, "job_1") for path in (made, events_path("job_1"), evidence_path("job_1")))


@pytest.mark.parametrize(
    "path",
    [
        "jobs/2026/11/job_2.md",
        "jobs/2026/13/job_1.md",
        "jobs/2026/11/job_1.md/x",
        "jobs/2026/11/xjob_1.md",
        "jobs/2026/11/deep/job_1.md",
        "jobs/٢٠٢٦/11/job_1.md",
        "jobs/2026/11/",
        "jobs/2026/11/job_1.md\n",
        "Jobs/2026/11/job_1.md",
        "audit/evidence/job_10.json",
        "audit/jobs/../jobs/job_1.jsonl",
        "audit/2026/11/17.jsonl",
        "job_1.md",
    ],
)
def test_no_other_file_is_the_runtimes(path):
    assert not is_runtime_file(path, "job_1")


# What governs


def rule(name="no-shell", verdict="ask", **more):
    return {"id": name, "when": {"tool": "shell"}, "verdict": verdict, "reason": "because", **more}


def policy(*rules):
    return json.dumps({"version": 1, "rules": list(rules)}).encode()


def change(path):
    return FileChange(path=path, kind="changed", old_blob="a", new_blob="b", old_mode="100644", new_mode="100644")


def found(old, new):
    """What governs when the files of `old` become those of `new`."""
    paths = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
    return governed([change(path) for path in paths], old.get, new.get)


@pytest.mark.parametrize(
    "path",
    [".github/x", ".GITHUB/workflows/a.yml", "CODEOWNERS", "docs/codeowners", "SYSTEM.md", "System.MD", ".github"],
)
def test_the_owner_alone_merges_what_governs(path):
    assert found({}, {path: b"x"}) == (path,)
    assert found({path: b"x"}, {}) == (path,)


@pytest.mark.parametrize("path", ["README.md", "agent/x.py", "policies/README.md", "policies/deep/x.json", "intel/a"])
def test_other_files_do_not_govern(path):
    assert found({}, {path: b"x"}) == ()


def test_tightening_a_policy_needs_no_owner():
    old = {"policies/a.json": policy(rule())}
    assert found(old, {"policies/a.json": policy(rule(), rule("more"))}) == ()
    assert found(old, {"policies/a.json": policy(rule("more", "deny"), rule(verdict="deny"))}) == ()
    assert found(old, {**old, "policies/b.json": policy(rule("more"))}) == ()
    assert found(old, {"policies/b.json": policy(rule("more"), rule())}) == (), "moved to another file"
    assert found(old, {"policies/a.json": b" " + policy(rule())}) == (), "the same rules, written otherwise"


@pytest.mark.parametrize(
    "new",
    [
        {},
        {"policies/a.json": policy()},
        {"policies/a.json": policy(rule("other"))},
        {"policies/a.json": policy(rule(verdict="ask"))},
        {"policies/a.json": policy(rule(verdict="deny", reason="another"))},
        {"policies/a.json": policy(rule(verdict="deny", when={"tool": "write_file"}))},
        {"policies/a.json": policy(rule(verdict="deny", when={"tool": "shell", "source": "job"}))},
        {"policies/a.json": b"{"},
        {"policies/a.json": b""},
        {"policies/a.json": b"[" * 100_000},
        {"policies/a.json": policy(rule(verdict="deny")).replace(b'"version": 1', b'"version": 2')},
        {"policies/a.json": policy(rule(verdict="deny"), rule(verdict="ask"))},
        {"policies/a.json": policy(rule(verdict="deny")) + b" " * (1 << 20)},
        {"policies/a.txt": policy(rule(verdict="deny"))},
        {"policies/sub/a.json": policy(rule(verdict="deny"))},
    ],
)
def test_whatever_else_becomes_of_a_rule_is_the_owners(new):
    assert "policies/a.json" in found({"policies/a.json": policy(rule(verdict="deny"))}, new)


def test_a_rule_that_stands_in_two_files_is_the_owners():
    old = {"policies/a.json": policy(rule())}
    new = {"policies/a.json": policy(rule(verdict="deny")), "policies/b.json": policy(rule())}
    assert found(old, new) == ("policies/b.json",)


def test_repairing_a_broken_policy_is_the_owners_because_broken_ones_deny():
    assert found({"policies/a.json": b"{"}, {"policies/a.json": policy(rule())}) == ("policies/a.json",)


def test_case_and_dots_hide_no_policy():
    for path in ("Policies/a.JSON", "policies/a.json.", "POLICIES/a.json"):
        assert found({path: policy(rule())}, {path: policy()}) == (path,)
