"""Required checks: what a merge gives is looked at, byte by byte, before anybody is asked about it."""

import json

import pytest

from coilclaw.config.forge import ForgeCheck
from coilclaw.features.forge.builtin_checks import CheckTerms, MergeResult, path_faults
from coilclaw.features.forge.checks import BUILT_IN, MOST_DETAILS, run_checks
from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.forge import FileChange
from coilclaw.packets.job import Constraints, Outputs
from coilclaw.sandbox.bot_repository import BOT, Written
from coilclaw.store.job_history import add_job_artifact
from tests.features.forge.forge_world import JOB, moment

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4"


async def test_an_honest_pull_request_passes_every_check_in_order(bot):
    checks = await bot.checked({"reports/week.md": b"# Week\n", "intel/2026-11/a.md": b"x"})
    assert tuple(checks) == BUILT_IN
    assert [check.summary for check in checks.values() if not check.passed] == []


async def test_an_untainted_job_may_propose_what_governs(bot):
    policy = {"version": 1, "rules": []}
    assert await bot.failed({"SYSTEM.md": b"Be kind.\n", "policies/a.json": json.dumps(policy).encode()}) == {}


# Paths


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("M 100644 inline .git/config\ndata 1\nx\n", "its own folder"),
        ("M 100644 inline a/.GIT/hooks/x\ndata 1\nx\n", "its own folder"),
        ("M 100644 inline git~1/config\ndata 1\nx\n", "its own folder"),
        ('M 100644 inline "a\\nb"\ndata 1\nx\n', "control character"),
        ('M 100644 inline "\\377x"\ndata 1\nx\n', "not UTF-8"),
        ("M 120000 inline link\ndata 11\n/etc/passwd\n", "symbolic link"),
        (f"M 160000 {'1' * 40} sub\n", "submodule"),
        ("M 100755 inline bin/.run\ndata 1\nx\n", "hidden file that can be executed"),
        ("M 100644 inline audit/2026/11/17.jsonl\ndata 1\nx\n", "only the runtime"),
        ("M 100644 inline Audit/x\ndata 1\nx\n", "only the runtime"),
        ("M 100644 inline jobs/2026/02/job_other.md\ndata 1\nx\n", "only the runtime"),
        ("M 100644 inline system.md\ndata 1\nx\n", "take it for SYSTEM.md"),
        ("M 100644 inline Skills/x/SKILL.md\ndata 1\nx\n", "take it for skills"),
        ("M 100644 inline n/a\ndata 1\nx\nM 100644 inline n/A\ndata 1\nx\n", "take it for n/"),
        ('M 100644 inline "n/\\303\\251"\ndata 1\nx\nM 100644 inline "n/e\\314\\201"\ndata 1\nx\n', "take it for n/"),
        (
            "".join(f"M 100644 inline r/{name}\ndata 1\nx\n" for name in ("HEAD", "objects/x", "Refs/x")),
            "repository",
        ),
    ],
)  # fmt: skip
async def test_a_hostile_name_or_mode_fails_and_nothing_of_it_is_run(world, line, words):
    bot = world(forge__checks={"tests": ForgeCheck(command="true")})
    bot.add_job()
    bot.put_on_main(Written("SYSTEM.md", b"x"), Written("skills/x/SKILL.md", b"x"))
    head = bot.raw_commit(line)
    checks = {c.name: c for c in await run_checks(bot.app, bot.pull(head), bot.main, bot.tree_of(head))}
    assert not checks["coilclaw/paths"].passed
    assert words in " ".join(checks["coilclaw/paths"].details)
    assert not checks["tests"].passed
    assert "not run" in checks["tests"].summary
    assert bot.sample.box.specs == []


async def test_a_job_changes_no_more_files_than_it_may(bot):
    bot.add_job(constraints=Constraints(max_files_changed=2))
    assert await bot.failed({"a": b"1", "b": b"2"}) == {}
    assert "3 files are changed" in (await bot.failed({"a": b"1", "b": b"2", "c": b"3"}))["coilclaw/paths"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("SYSTEM.md", "steers"),
        ("policies/x.txt", "steers"),
        ("skills/x/SKILL.md", "steers"),
        ("cron/notes", "steers"),
        ("memory/PREFERENCES.md", "steers"),
        (".config/x", "steers"),
        ("docs/.envrc", "other programs execute docs/.envrc"),
        ("a/.vscode/tasks.json", "other programs execute a/.vscode"),
        ("CLAUDE.md", "other programs execute"),
    ],
)
async def test_a_tainted_job_touches_nothing_that_steers_or_runs(bot, path, words):
    assert "coilclaw/paths" not in await bot.failed({path: b"x"})
    assert words in (await bot.failed({path: b"x"}, taint=("untrusted:web",)))["coilclaw/paths"]
    bot.put_on_main(Written(path, b"x"))
    assert "coilclaw/paths" in await bot.failed({path: None}, taint=("untrusted:web",)), "removing is touching"


async def test_a_tainted_job_may_write_ordinary_files(bot):
    assert await bot.failed({"notes/a.md": b"x", "intel/b.md": b"y"}, taint=("untrusted:web",)) == {}


async def test_the_runtimes_files_count_only_as_the_runtime_wrote_them(bot):
    bot.add_job()
    head = bot.head_of({"a": b"1"})
    forged = bot.repository.commit(head, [Written(f"audit/jobs/{JOB}.jsonl", b"{}\n")], "forged", BOT, 1_800_000_000)
    checks = await run_checks(bot.app, bot.pull(head), bot.main, bot.tree_of(forged))
    assert not checks[0].passed
    assert f"audit/jobs/{JOB}.jsonl: it is not what the runtime wrote" in checks[0].details


async def test_the_forge_may_say_which_paths_the_runtime_writes(bot):
    head = bot.head_of({}, more=[Written("audit/2026/02/28.jsonl", b"{}\n")])
    tree = bot.tree_of(head)
    assert not (await run_checks(bot.app, bot.pull(head), bot.main, tree))[0].passed
    mine = lambda path: path.startswith(("audit/", "jobs/"))  # noqa: E731
    assert (await run_checks(bot.app, bot.pull(head), bot.main, tree, is_runtime=mine))[0].passed


async def test_removing_what_the_runtime_keeps_fails(bot):
    bot.put_on_main(Written("jobs/2025/01/job_old.md", b"x"))
    assert "only the runtime" in (await bot.failed({"jobs/2025/01/job_old.md": None}))["coilclaw/paths"]


def change(path, kind="added", mode="100644"):
    return FileChange(path=path, kind=kind, old_blob="", new_blob="b", old_mode="000000", new_mode=mode)


def merge_of(paths, **more):
    known = {
        "changes": tuple(change(path) for path in paths),
        "modes": dict.fromkeys(paths, "100644"),
        "sizes": dict.fromkeys(paths, 1),
        "new": {},
        "old": lambda _: b"",
        "policies": {},
        "skills": {},
        "of_head": {},
    }
    return MergeResult(**{**known, **more})


TERMS = CheckTerms(job_id=JOB, tainted=False, most_files=None, required=(), is_runtime=lambda _: False)


def test_a_hundred_thousand_files_and_a_hundred_megabytes_are_refused_by_their_count_and_size():
    found = list(path_faults(merge_of([f"d{number % 100}/{number}" for number in range(100_000)]), TERMS))
    assert found == ["100000 files are changed; a pull request may change 20000"]
    large = merge_of(["big.bin"], sizes={"big.bin": 100 << 20})
    assert list(path_faults(large, TERMS)) == ["big.bin: it has 104857600 bytes; a file may have 52428800"]
    several = merge_of(["a", "b", "c"], sizes=dict.fromkeys("abc", 50 << 20))
    assert "together" in next(path_faults(several, TERMS))


@pytest.mark.slow
async def test_a_real_blob_that_is_too_large_is_not_read(bot):
    failed = await bot.failed({"big.bin": b"\0" * (60 << 20), "small.md": b"x"})
    assert "62914560 bytes" in failed["coilclaw/paths"]
    assert "big.bin: it was not looked at" in failed["coilclaw/secrets"]
    assert "small.md" not in failed["coilclaw/secrets"]


async def test_only_so_many_faults_are_listed(bot):
    checks = await bot.checked({f".d{number}/x": b"x" for number in range(100)}, taint=("untrusted:web",))
    assert len(checks["coilclaw/paths"].details) == MOST_DETAILS
    assert "or more" in checks["coilclaw/paths"].summary


async def test_hidden_characters_of_names_are_shown(bot):
    failed = await bot.failed({".x\u202ey/a": b"x"}, taint=("untrusted:web",))
    assert "⟨U+202E⟩" in failed["coilclaw/paths"]


# Evidence


async def test_evidence_must_be_there_and_hold(bot):
    assert "is missing" in (await bot.failed({"a": b"1"}, own=False))["coilclaw/evidence"]
    path = f"audit/evidence/{JOB}.json"
    assert "not JSON" in (await bot.failed({"a": b"1"}, more=[Written(path, b"{")]))["coilclaw/evidence"]
    forged = canonical_bytes({"job_id": JOB, "manifest_hash": "0" * 64})
    assert "manifest_hash" in (await bot.failed({"a": b"1"}, more=[Written(path, forged)]))["coilclaw/evidence"]
    fields = {"job_id": "job_other"}
    other = canonical_bytes({**fields, "manifest_hash": sha256_hex(canonical_bytes(fields))})
    assert f"not of {JOB}" in (await bot.failed({"a": b"1"}, more=[Written(path, other)]))["coilclaw/evidence"]
    assert "coilclaw/evidence" in await bot.failed({"a": b"1"}, more=[Written(path, bytes(range(256)))])


async def test_required_evidence_must_be_named(bot):
    job = bot.add_job(outputs=Outputs(evidence_required=("tests_passed", "scan")))
    add = lambda tx: add_job_artifact(  # noqa: E731
        tx, moment, job, kind="report", name="scan", content=b"x", label="internal"
    )
    bot.app.db.write_now(add)
    failed = (await bot.failed({"a": b"1"}))["coilclaw/evidence"]
    assert "tests_passed is missing" in failed
    assert "scan" not in failed


async def test_a_file_holds_what_the_evidence_says(bot):
    failed = await bot.failed({"a": b"1"}, more=[Written("a", b"2")])
    assert "a: it is not what the evidence says" in failed["coilclaw/evidence"]


async def test_what_main_changed_meanwhile_is_no_fault_of_the_evidence(bot):
    before = bot.main
    bot.put_on_main(Written("a", b"1\n2\n3\n4\n5\n6\n7\n8\n"))
    base = bot.main
    head = bot.head_of({"a": b"1\n2\n3\n4\n5\n6\n7\n8 changed\n"})
    bot.put_on_main(Written("a", b"1 changed\n2\n3\n4\n5\n6\n7\n8\n"))
    assert before != base != bot.main
    merged = bot.repository.merge(bot.main, head)
    assert not merged.conflicts
    assert all(check.passed for check in await run_checks(bot.app, bot.pull(head), bot.main, merged.tree))


async def test_a_pull_request_of_no_job_needs_no_evidence(bot):
    bot.add_job()
    head = bot.head_of({"a": b"1"}, own=False)
    checks = await run_checks(bot.app, bot.pull(head, job_id=None), bot.main, bot.tree_of(head))
    assert all(check.passed for check in checks)


# Secrets


@pytest.mark.parametrize(
    "data",
    [
        f"token: {TOKEN}\n".encode(),
        TOKEN.encode(),
        bytes(range(256)) + TOKEN.encode() + b"\xff\xfe",
        TOKEN.encode("utf-16"),
        b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n",
        b"x\n" * 5 + b"the value is correct-horse-battery-staple-9\n",
    ],
)
async def test_a_secret_in_what_is_added_fails_and_is_not_repeated(bot, data):
    bot.app.redactor.register("MY_KEY", "correct-horse-battery-staple-9")
    failed = await bot.failed({"notes.md": data})
    assert set(failed) == {"coilclaw/secrets"}
    assert "notes.md: it contains a secret" in failed["coilclaw/secrets"]
    assert "correct-horse" not in failed["coilclaw/secrets"]
    assert TOKEN not in failed["coilclaw/secrets"]


async def test_a_secret_in_a_name_fails(bot):
    failed = await bot.failed({f"notes/{TOKEN}.md": b"x"})
    assert TOKEN not in str(failed)
    assert "name of a file" in failed["coilclaw/secrets"]


async def test_a_secret_that_was_there_before_is_not_held_against_a_job(bot):
    old = f"one\n{TOKEN}\ntwo\n".encode()
    bot.put_on_main(Written("notes.md", old))
    assert await bot.failed({"notes.md": old + b"three\n"}) == {}
    assert await bot.failed({"notes.md": b"one\ntwo\n"}) == {}
    assert "coilclaw/secrets" in await bot.failed({"notes.md": old + f"x {TOKEN}\n".encode()})
    other = TOKEN.replace("A1", "Z9").encode()
    assert "coilclaw/secrets" in await bot.failed({"notes.md": b"one\n" + other + b"\ntwo\n"}), "put in its place"


async def test_words_about_passwords_are_no_secrets(bot):
    assert await bot.failed({"a.py": b'password = read("PASSWORD")\nAuthorization: Bearer <token>\n'}) == {}


# What the runtime reads


@pytest.mark.parametrize(
    ("path", "data", "name", "words"),
    [
        ("policies/a.json", b"{", "coilclaw/policy", "not JSON"),
        ("policies/a.json", b'{"version": 2, "rules": []}', "coilclaw/policy", "policies/a.json"),
        ("policies/a.json", b" " * (1 << 20) + b"{}", "coilclaw/policy", "not a regular file of at most"),
        ("policies/A.JSON", b"\xff\xfe", "coilclaw/policy", "policies/A.JSON"),
        (
            "policies/a.json",
            b'{"version":1,"rules":[{"id":"x","when":{"tool":"no_tool"},"verdict":"deny","reason":"r"}]}',
            "coilclaw/policy",
            "there is no tool 'no_tool'",
        ),
        ("cron/jobs.json", b"{", "coilclaw/registry", "cron/jobs.json, line 1"),
        ("cron/jobs.json", b'{"version":1,"jobs":[{"job_id":"a"}]}', "coilclaw/registry", "timezone"),
        ("cron/jobs.json", b"\x00\xff", "coilclaw/registry", "UTF-8"),
        ("cron/jobs.json", b"[" * 100_000, "coilclaw/registry", "cron/jobs.json"),
        ("cron/jobs.json", None, "coilclaw/registry", "missing"),
        ("sops/a/SOP.toml", b"= x", "coilclaw/sops", "not TOML"),
        ("sops/a/SOP.toml", b"", "coilclaw/sops", "sops/a/SOP.toml"),
        ("sops/a/SOP.toml", b"x" * (2 << 20), "coilclaw/sops", "bytes"),
        ("skills/a/SKILL.md", b"x", "coilclaw/skills", "skills/a/SKILL.md: line 1: the file begins with"),
        ("skills/a/SKILL.md", b"---\nname: a\ndescription: &x d\n---\n", "coilclaw/skills", "an anchor"),
        ("skills/a/SKILL.md", b" " * (65 << 10), "coilclaw/skills", "larger than 65536"),
        ("skills/a/references/b.md", b"x", "coilclaw/skills", "skills/a/SKILL.md: it is missing"),
        (".github/workflows/own.yml", b"on: push\n", "coilclaw/workflows", "own.yml: there is no such workflow"),
        (".github/workflows/tests.yml", b"on: push\n", "coilclaw/workflows", "must be {} at the top"),
    ],
)
async def test_what_the_runtime_could_not_read_fails(bot, path, data, name, words):
    bot.put_on_main(Written("cron/jobs.json", b'{"version":1,"jobs":[]} '))
    failed = await bot.failed({path: data})
    assert set(failed) == {name}
    assert words in failed[name]


async def test_a_rule_whose_id_an_unchanged_file_has_fails(bot):
    rule = {"id": "x", "when": {"tool": "shell"}, "verdict": "deny", "reason": "r"}
    data = json.dumps({"version": 1, "rules": [rule]}).encode()
    bot.put_on_main(Written("policies/a.json", data))
    assert "already used" in (await bot.failed({"policies/b.json": data}))["coilclaw/policy"]
    assert await bot.failed({"policies/a.json": None, "policies/b.json": data}) == {}


async def test_other_files_beside_them_are_not_read(bot):
    assert await bot.failed({"policies/README.md": b"{", "sops/a/notes.md": b"=", "cron/x": b"{"}) == {}


# Faults of the checks themselves


async def test_a_repository_that_cannot_be_read_fails_every_check(bot):
    bot.add_job()
    head = bot.head_of({"a": b"1"})
    checks = await run_checks(bot.app, bot.pull(head), bot.main, "1" * 40)
    assert [check.name for check in checks] == list(BUILT_IN)
    assert not any(check.passed for check in checks)
    assert all("could not be carried out" in check.summary for check in checks)


async def test_a_job_that_is_not_there_fails_every_check(bot):
    head = bot.head_of({"a": b"1"})
    checks = await run_checks(bot.app, bot.pull(head, job_id="job_gone"), bot.main, bot.tree_of(head))
    assert not any(check.passed for check in checks)
