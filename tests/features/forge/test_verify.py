"""A clone alone: what a bot did holds; thirty ways to change it are found, by us and by an auditor's script."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.forge.merge_records import home_records
from coilclaw.features.forge.record_formats import trailers
from coilclaw.features.forge.store import pull_of_job
from coilclaw.features.forge.verify import MOST_FINDINGS, verify_clone
from coilclaw.ledger.anchors import HEADS, key_file
from coilclaw.ledger.heads import SigningKey
from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.forge import LEDGER, MAIN
from coilclaw.sandbox.bot_repository import BOT, BotRepository, Written
from coilclaw.sandbox.git import run_git
from tests.acceptance import auditor as auditor_module
from tests.acceptance.auditor import Audit
from tests.features.conftest import calls
from tests.features.forge.forge_home import Copy, git, make_bot, words

AUDITOR = auditor_module.__file__


@pytest.fixture(scope="module")
def bot(tmp_path_factory):
    made = make_bot(tmp_path_factory.mktemp("bot"))
    yield made
    made.home.close()


def test_a_new_bot_is_valid_and_says_that_nothing_is_signed_yet(tmp_path):
    run_git(tmp_path, "init", "--quiet")
    run_git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Make the bot")
    report = verify_clone(tmp_path)
    assert (report.valid, report.heads, report.commits) == (True, 0, 1)
    assert any("nothing is signed yet" in note for note in report.notes)
    run_git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", f"Edit\n\nLedger-Head: 3:{'a' * 64}")
    report = verify_clone(tmp_path)
    assert [(each.kind, each.path) for each in report.findings] == [("missing", HEADS)]


def test_many_claims_to_be_a_copy_are_one_note(tmp_path):
    run_git(tmp_path, "init", "--quiet", "--initial-branch=main")
    for _ in range(9):
        run_git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Make the bot")
        main = git(tmp_path, "rev-parse", "main").strip()
        run_git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", f"Begin\n\nCopied-From: {main}")
    notes = [note for note in verify_clone(tmp_path).notes if "made of a copy" in note]
    assert [note.partition(": ")[2][:20] for note in notes] == ["the 17 commits up to"]


@pytest.fixture
def copy(bot, tmp_path):
    return Copy(bot.clone(tmp_path / "copy", "--mirror"))


def kinds(folder):
    report = verify_clone(folder)
    assert report.valid == (not report.findings)
    assert all(each.words for each in report.findings)
    return {each.kind for each in report.findings}


def auditor(folder):
    return Audit(str(folder)).run()


def test_what_a_bot_did_holds_for_us_and_for_the_auditor(bot, tmp_path):
    for number, options in enumerate(((), ("--bare",), ("--mirror",))):
        folder = bot.clone(tmp_path / f"c{number}", *options)
        report = verify_clone(folder)
        assert report.findings == ()
        assert (report.jobs, report.days, report.heads) == (3, 3, 7)
        assert report.keys == (bot.app.signing_key.name(),)
        assert report.events >= 6
        assert auditor(folder) == []
    script = [sys.executable, AUDITOR, str(folder), bot.app.signing_key.name()]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("verified: 3 jobs")


async def test_a_job_that_the_forge_merged_holds_too(office, tmp_path):
    here = office(forge__enabled=True, receipts__head_every=1)
    here.home.script(calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"})), {"text": "Done."})
    job = await here.create("write a note")
    await here.drain()
    await here.home.approve(pull_of_job(here.app.db.reader, job.job_id).action_id)
    await here.drain()
    assert here.job(job).state == "DONE"
    await asyncio.to_thread(anchor_heads, here.app)
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-local", str(here.app.workspace), str(folder)], check=True)
    report = verify_clone(folder)
    assert (report.findings, report.jobs) == ((), 1)
    assert auditor(folder) == []


async def test_the_home_names_a_forged_merge_though_its_next_head_signs_it(office, tmp_path):
    """Whoever can write to the repository alone: main moves, and the runtime signs heads that name it."""
    here = office(forge__enabled=True, receipts__head_every=1)
    here.home.script(calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"})), {"text": "Done."})
    job = await here.create("write a note")
    await here.drain()
    await here.home.approve(pull_of_job(here.app.db.reader, job.job_id).action_id)
    await here.drain()
    workspace, db = here.app.workspace, here.app.db.reader
    assert verify_clone(workspace, home_records(db)).findings == ()
    merged = BotRepository(workspace).log(MAIN, 1)[0]
    folder = Copy(workspace, workspace / ".git")
    forged_merge(folder, words(merged), 1772000000)
    await here.home.call("file_list", path=".", key="more")
    await here.app.ledger.seal_now()
    await asyncio.to_thread(anchor_heads, here.app)
    found = verify_clone(workspace, home_records(db)).findings
    assert {each.commit for each in found} == {folder.main}
    assert any("records no such merge" in each.words for each in found)
    assert any(f"merged {merged.sha[:12]} instead" in each.words for each in found)
    folder.repository.put(MAIN, merged.parents[0])
    found = verify_clone(workspace, home_records(db)).findings
    assert merged.sha in {each.commit for each in found if each.kind == "rewritten"}


def test_a_forged_merge_is_named_with_its_reason(copy):
    merge_of_another_action(copy)
    report = verify_clone(copy.folder)
    assert {each.commit for each in report.findings} == {copy.main}
    assert {each.kind for each in report.findings} == {"unexplained", "unsigned"}
    assert any("merged" in each.words and "instead" in each.words for each in report.findings)
    assert all(line.startswith(copy.main) for line in auditor(copy.folder))


def test_jobs_on_the_other_side_of_a_merge_by_hand_are_verified_too(copy):
    """`git pull` on another machine puts what it has first, and what the bot did second."""
    main, repository = copy.main, copy.repository
    base = copy.merges()[0].sha
    own = repository.commit(base, [Written("own.md", b"mine\n")], "Write", BOT, 1772600000)
    top = repository.commit_tree(repository.merge(own, main).tree, [own, main], "Merge branch main", BOT, 1772700000)
    repository.move(MAIN, top, main)
    audit = Audit(str(copy.folder))
    assert audit.run() == []
    report = verify_clone(copy.folder)
    assert (report.findings, report.jobs, audit.jobs) == ((), 3, 3)


def test_a_job_that_the_owner_merged_in_words_of_their_own_is_verified(copy):
    """As GitHub's button does: the words say nothing, but the job's own commit does."""
    base, head = copy.merges()[-1].parents
    tree = copy.repository.merge(base, head).tree
    made = copy.repository.commit_tree(tree, [base, head], "Merge pull request #3 from x", BOT, 1772700000)
    copy.repository.put(MAIN, made)
    audit = Audit(str(copy.folder))
    audit.run()
    assert (verify_clone(copy.folder).jobs, audit.jobs) == (3, 3)


def test_what_governs_and_was_changed_by_hand_is_noted(copy):
    copy.put(Written("SYSTEM.md", b"obey\n"), message="tidy up")
    report = verify_clone(copy.folder)
    assert any(copy.main[:12] in note and "governs" in note for note in report.notes)


def test_what_no_signed_head_covers_is_noted_whatever_it_says_of_itself(copy):
    assert verify_clone(copy.folder).notes == ()
    for message in ("Changes in the workspace\n\nOrigin: outside", f"Revert #1\n\nTakes-Back: {copy.merges()[0].sha}"):
        copy.put(Written("SYSTEM.md", message.encode()), message=message)
        audit = Audit(str(copy.folder))
        audit.run()
        for notes in (verify_clone(copy.folder).notes, audit.notes):
            assert any(copy.main[:12] in note and "no signed head" in note and "governs" in note for note in notes)


def without_line(data, number=1):
    lines = data.splitlines(keepends=True)
    return b"".join(lines[:number] + lines[number + 1 :])


def swapped(data):
    lines = data.splitlines(keepends=True)
    return b"".join([lines[1], lines[0], *lines[2:]])


def rehashed(data, **fields):
    about = {**json.loads(data), **fields}
    del about["manifest_hash"]
    return canonical_bytes({**about, "manifest_hash": sha256_hex(canonical_bytes(about))}) + b"\n"


def day(copy):
    return next(path for path in copy.paths("audit/2") if copy.read(path).count(b"\n") > 1)


def other_key(copy):
    key = SigningKey(copy.folder / "other")
    key.create()
    return key


def head_of_another_key(copy):
    key, lines = other_key(copy), copy.read(HEADS, LEDGER).splitlines()
    last = json.loads(lines[-1])
    head = key.sign(last["size"] + 1, "e" * 64, last["time"]).line()
    public = Written(key_file(key.name()), key.public().hex().encode() + b"\n")
    copy.put(Written(HEADS, b"\n".join([*lines, head, b""])), public, name=LEDGER)


def in_evidence(copy, **fields):
    path = copy.paths("audit/evidence/")[0]
    job_id = path.removeprefix("audit/evidence/").removesuffix(".json")
    data = rehashed(copy.read(path), **fields)
    digest = json.loads(data)["manifest_hash"]
    return job_id, Written(path, data), digest


def files_beyond_the_evidence(copy):
    copy.remake(0, Written("notes/more.md", b"not named\n"))


def other_bytes_than_the_evidence_names(copy):
    copy.remake(0, Written("notes/a.md", b"not what was named\n"))


def evidence_made_anew_under_the_old_trailer(copy):
    _, written, _ = in_evidence(copy, tokens=999_999)
    copy.remake(0, written)


def evidence_of_another_job(copy):
    _, written, digest = in_evidence(copy, job_id="job_other")
    copy.remake(0, written, branch=lambda text: text.replace(text.split("Evidence: ")[1][:64], digest))


def trailing(name, word):
    def change(text):
        return "\n".join(f"{name}: {word}" if line.startswith(f"{name}: ") else line for line in text.split("\n"))

    return lambda copy: copy.remake(0, change=change, branch=change)


def rewritten_head(copy):
    copy.edit(HEADS, lambda data: data.replace(b'"hash":"', b'"hash":"0', 1), name=LEDGER)


def broken_object(copy):
    for pack in copy.folder.glob("objects/pack/*.pack"):
        data = pack.read_bytes()
        pack.chmod(0o600)
        pack.write_bytes(data[: len(data) // 2] + b"\0" * 40 + data[len(data) // 2 + 40 :])


def hostile_name(copy):
    """As git itself accepts it when it is not asked to check."""
    blob = git(copy.folder, "rev-parse", f"{MAIN}:notes/a.md").strip()
    inner = subprocess.run(
        ["git", "mktree"], cwd=copy.folder, input=f"100644 blob {blob}\tconfig\n", text=True, capture_output=True
    ).stdout.strip()
    listing = git(copy.folder, "ls-tree", MAIN) + f"040000 tree {inner}\t.git\n"
    tree = subprocess.run(["git", "mktree"], cwd=copy.folder, input=listing, text=True, capture_output=True).stdout
    commit = copy.repository.commit_tree(tree.strip(), [copy.main], "change", BOT, 1772700000)
    copy.repository.move(MAIN, commit, copy.main)


def forged_merge(copy, words, when, *files):
    """A merge that nobody allowed, on top of main."""
    base = copy.main
    head = copy.repository.commit(base, files or [Written("SYSTEM.md", b"obey\n")], "x", BOT, when)
    tree = copy.repository.tree_of(head)
    copy.repository.move(MAIN, copy.repository.commit_tree(tree, [base, head], words, BOT, when), base)


LATER = 1772000000 + 400 * 86400
MERGE = "Merge #9: x\n\nPull-Request: 9\nAction: {action}\nApproved-By: {by}\nPolicy-Hash: " + "a" * 64


def merge_of_nobody(when):
    return lambda copy: forged_merge(copy, MERGE.format(action="act_nonsense", by="passkey"), when)


def merge_of_another_action(copy):
    stated = trailers(words(copy.merges()[0]))
    forged_merge(copy, MERGE.format(action=stated["Action"][0], by="terminal"), LATER)


def merge_of_another_tool(copy):
    action = next(
        event["entity_id"]
        for path in copy.paths("audit/2")
        for event in map(json.loads, copy.read(path).splitlines())
        if event["event_type"] == "tool_requested" and event["payload"]["tool"] == "file_list"
    )
    forged_merge(copy, MERGE.format(action=action, by="terminal"), LATER)


def evil_merge(copy):
    """The merge of a job made anew, with the same words and parents, and a file more."""
    merge = copy.merges()[-1]
    base, head = merge.parents
    tree = copy.repository.merge(base, head).tree
    more = copy.repository.commit(base, [Written("SYSTEM.md", b"obey\n")], "x", BOT, 1772000000, base=tree)
    tree = copy.repository.tree_of(more)
    made = copy.repository.commit_tree(tree, [base, head], words(merge), BOT, 1772000000)
    copy.repository.move(MAIN, made, copy.main)


def invented_job(copy):
    """A job that never was, with evidence that somebody made for it."""
    job_id, written, digest = in_evidence(copy, job_id="job_new", files=[{"path": "x", "sha256": sha256_hex(b"x")}])
    summary = next(path for path in copy.paths("jobs/") if job_id in path)
    old = json.loads(copy.read(written.path))["manifest_hash"]
    text = copy.read(summary).replace(job_id.encode(), b"job_new").replace(old.encode(), digest.encode())
    files = (
        Written("x", b"x"),
        Written("audit/evidence/job_new.json", written.data),
        Written("audit/jobs/job_new.jsonl", b""),
        Written(summary.replace(job_id, "job_new"), text),
    )
    forged_merge(copy, f"Merge\n\nJob: job_new\nEvidence: {digest}\nPolicy-Hash: {'a' * 64}", LATER, *files)


def false_take_back(copy):
    merge = copy.merges()[-1].sha
    copy.put(Written("SYSTEM.md", b"obey\n"), message=f"Revert #3: it\n\nTakes-Back: {merge}", when=LATER)


def line_of_somebodys_own(copy, *, copied=False):
    """Main as it was becomes the other side of a merge onto commits that somebody made: their line comes first."""
    main, repository = copy.main, copy.repository
    own = repository.commit("", [Written("SYSTEM.md", b"obey\n")], "Make the bot", BOT, 1600000000)
    if copied:
        own = repository.commit(own, [Written("x", b"y")], f"Begin\n\nCopied-From: {own}", BOT, 1600000001)
    top = repository.commit_tree(repository.tree_of(own), [own, main], "tidy up", BOT, 1772700000)
    repository.move(MAIN, top, main)


TAMPERINGS = {
    "main joined onto a line of somebody's own": (line_of_somebodys_own, "dropped"),
    "such a line that claims to be a copy": (lambda c: line_of_somebodys_own(c, copied=True), "dropped"),
    "a merge of an action that is none": (merge_of_nobody(LATER), "unsigned"),
    "such a merge in other letters": (
        lambda c: forged_merge(c, MERGE.lower().format(action="act_nonsense", by="passkey"), LATER),
        "unsigned",
    ),
    "such a merge, dated back": (merge_of_nobody(1772000000), "unexplained"),
    "a merge of another merge's action": (merge_of_another_action, "unexplained"),
    "a merge of another tool's action": (merge_of_another_tool, "unexplained"),
    "a merge that holds more than its parents": (evil_merge, "unexplained"),
    "a job that never was": (invented_job, "unsigned"),
    "a take-back that does more": (false_take_back, "unexplained"),
    "another approval": (trailing("Approved-By", "passkey"), "unexplained"),
    "another action": (trailing("Action", "act_other"), "unexplained"),
    "another number": (trailing("Pull-Request", "77"), "rewritten"),
    "a sweep by an action that is none": (
        lambda c: c.put(Written("a", b"b"), message="Changes\n\nAction: act_nonsense", when=1772000000),
        "unexplained",
    ),
    "main set back": (lambda c: c.repository.put(MAIN, c.merges()[-1].parents[0]), "rewritten"),
    "the same changes as other commits": (lambda c: c.remake(0), "rewritten"),
    "an audit line edited": (
        lambda c: c.edit(day(c), lambda d: d.replace(b'"seq":', b'"extra":1,"seq":', 1)),
        "edited",
    ),
    "an audit line dropped": (lambda c: c.edit(day(c), without_line), "dropped"),
    "audit lines swapped": (lambda c: c.edit(day(c), swapped), "reordered"),
    "an audit line twice": (lambda c: c.edit(day(c), lambda d: d + d.splitlines(keepends=True)[-1]), "reordered"),
    "an audit line cut": (lambda c: c.edit(day(c), lambda d: d[:-5]), "damaged"),
    "an audit day that is no text": (lambda c: c.edit(day(c), lambda d: d + b"\xff\xfe\n"), "damaged"),
    "a day removed": (lambda c: c.put(Written(day(c), None)), "dropped"),
    "a job's summary removed": (lambda c: c.put(Written(c.paths("jobs/")[0], None)), "dropped"),
    "a job's trail removed": (lambda c: c.put(Written(c.paths("audit/jobs/")[0], None)), "dropped"),
    "a job's trail edited": (
        lambda c: c.edit(c.paths("audit/jobs/")[0], lambda d: d.replace(b'"payload":{', b'"payload":{"a":1,', 1)),
        "edited",
    ),
    "evidence edited": (
        lambda c: c.edit(c.paths("audit/evidence/")[0], lambda d: d.replace(b'"tokens":', b'"tokens":1')),
        "edited",
    ),
    "evidence removed": (lambda c: c.put(Written(c.paths("audit/evidence/")[0], None)), "dropped"),
    "evidence made anew under the old trailer": (evidence_made_anew_under_the_old_trailer, "disagrees"),
    "evidence of another job": (evidence_of_another_job, "disagrees"),
    "files that the evidence does not name": (files_beyond_the_evidence, "unexplained"),
    "other bytes than the evidence names": (other_bytes_than_the_evidence_names, "disagrees"),
    "the trailer Evidence changed": (trailing("Evidence", "b" * 64), "disagrees"),
    "the trailer Job changed": (trailing("Job", "job_nobody"), "missing"),
    "the trailer Job made nonsense": (trailing("Job", "../../x"), "damaged"),
    "the trailer Policy-Hash emptied": (trailing("Policy-Hash", "none"), "missing"),
    "the trailer Ledger-Head changed": (trailing("Ledger-Head", "2:" + "0" * 64), "disagrees"),
    "the trailer Ledger-Head made nonsense": (trailing("Ledger-Head", "x"), "damaged"),
    "a head dropped": (lambda c: c.edit(HEADS, without_line, name=LEDGER), "dropped"),
    "heads swapped": (lambda c: c.edit(HEADS, swapped, name=LEDGER), "reordered"),
    "a head changed": (rewritten_head, "forged"),
    "a head of another key": (head_of_another_key, "forged"),
    "all heads but the first dropped": (
        lambda c: c.edit(HEADS, lambda d: d.splitlines(keepends=True)[0], name=LEDGER),
        "dropped",
    ),
    "the branch ledger deleted": (lambda c: c.repository.remove(LEDGER), "missing"),
    "main deleted": (lambda c: c.repository.remove(MAIN), "missing"),
    "the key replaced": (lambda c: c.put(Written(c.paths_on_ledger()[0], b"0" * 64 + b"\n"), name=LEDGER), "damaged"),
    "a broken object": (broken_object, "damaged"),
    "a hostile name": (hostile_name, "name"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_found_by_us_and_by_the_auditor(copy, name):
    copy.paths_on_ledger = lambda: [p for p in copy.repository.entries(copy.repository.resolve(LEDGER)) if "keys/" in p]
    change, wanted = TAMPERINGS[name]
    change(copy)
    assert wanted in kinds(copy.folder)
    assert auditor(copy.folder)


def test_what_comes_after_the_last_head_is_only_noted_while_it_is_new(bot, tmp_path):
    folder = bot.clone(tmp_path / "copy", "--mirror")
    copy = Copy(folder)
    copy.put(message=f"later\n\nLedger-Head: 999:{'a' * 64}", when=bot.now())
    report = verify_clone(folder)
    assert report.valid
    assert any("newer than the last signed head" in note for note in report.notes)
    copy.put(message="much later\n\nOrigin: outside", when=bot.now() + 5 * 86400)
    assert kinds(folder) == {"dropped"}


def test_a_line_may_change_where_a_secret_was_taken_out(copy):
    path = day(copy)
    copy.edit(path, lambda data: data.replace(b'"payload":{', b'"payload":{"a":"[redacted:TOKEN]",', 1))
    assert kinds(copy.folder) == set()


def test_a_large_file_and_a_large_heads_file_are_named(copy):
    copy.put(Written(HEADS, bytes(100 << 20)), name=LEDGER)
    copy.put(Written("audit/2026/01/01.jsonl", b"x" * (65 << 20)))
    report = verify_clone(copy.folder)
    assert {(each.kind, each.path) for each in report.findings} >= {
        ("damaged", HEADS),
        ("damaged", "audit/2026/01/01.jsonl"),
    }


def test_only_so_many_findings_are_told(copy):
    lines = b"".join(canonical_bytes({"created_at": "2020", "seq": 10_000 + 2 * n}) + b"\n" for n in range(1000))
    copy.put(Written("audit/2026/01/01.jsonl", lines))
    report = verify_clone(copy.folder)
    assert len(report.findings) == MOST_FINDINGS
    assert report.more > 0


def test_a_folder_that_is_no_clone_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError):
        verify_clone(tmp_path)


def test_a_shallow_clone_is_named(bot, tmp_path):
    folder = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{bot.workspace}", str(folder)], check=True)
    assert "damaged" in kinds(folder)


def test_borrowed_objects_are_noted(bot, tmp_path):
    folder = tmp_path / "shared"
    subprocess.run(["git", "clone", "-q", "--shared", "--mirror", str(bot.workspace), str(folder)], check=True)
    assert any("another repository" in note for note in verify_clone(folder).notes)


def test_trailers_are_the_last_paragraph_alone():
    assert trailers("Title\n\nJob: x\n\nwords\n\nJob: y\nEvidence: z\n") == {"Job": ["y"], "Evidence": ["z"]}
    assert trailers("Title\n\nJob: x\nand words\n") == {}
    assert trailers("") == {}
    assert trailers("Docs: what looks like one\n") == {}
    assert trailers("Title\n\napproved-by: x\nAPPROVED-BY: y\n") == {"Approved-By": ["x", "y"]}


def test_nothing_that_a_hostile_folder_configures_runs_or_is_heeded(copy, tmp_path):
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    program.chmod(0o755)
    main, repository = copy.main, copy.repository
    text = "1\n2\n3\n4\n5\n6\n"
    base = repository.commit(main, [Written("m.md", text.encode())], "x", BOT, 1772700000)
    ours = repository.commit(base, [Written("m.md", text.replace("1", "one").encode())], "x", BOT, 1772700000)
    head = repository.commit(base, [Written("m.md", text.replace("6", "six").encode())], "x", BOT, 1772700000)
    tree = repository.merge(ours, head).tree
    repository.move(MAIN, repository.commit_tree(tree, [ours, head], "x\n\nJob: job_x", BOT, 1772700000), main)
    raw = git(copy.folder, "cat-file", "commit", MAIN).replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n\n", 1
    )
    options = {"cwd": copy.folder, "input": raw.encode(), "capture_output": True, "check": True}
    sha = subprocess.run(["git", "hash-object", "-t", "commit", "-w", "--stdin"], **options).stdout.decode().strip()
    git(copy.folder, "update-ref", MAIN, sha)
    (copy.folder / "info").mkdir(exist_ok=True)
    (copy.folder / "info" / "attributes").write_text("* merge=evil\n")
    settings = {
        "merge.evil.driver": program, "log.showSignature": "true", "gpg.program": program, "core.fsmonitor": program,
        "core.alternateRefsCommand": program, "fsck.skipList": program,
    }  # fmt: skip
    for key, value in settings.items():
        git(copy.folder, "config", key, str(value))
    found = auditor(copy.folder)
    assert not any("merging its parents" in each for each in found)
    assert not any("merging its parents" in each.words for each in verify_clone(copy.folder).findings)
    assert not ran.exists()


def test_the_module_of_the_auditor_uses_nothing_of_ours():
    assert "coilclaw" not in Path(AUDITOR).read_text()


@pytest.mark.slow
def test_no_shuffled_byte_goes_unseen_or_raises(bot, tmp_path):
    """Objects of a clone are damaged one after the other; each time something is said."""
    folder = bot.clone(tmp_path / "copy", "--mirror")
    pack = next(folder.glob("objects/pack/*.pack"))
    pack.chmod(0o600)
    data = pack.read_bytes()
    for place in range(12, len(data), max(1, len(data) // 25)):
        pack.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        assert kinds(folder)
