"""The shipped workflows, executed: every step of every job, against the fake, with nothing shared but artifacts."""

import json

import pytest

from coilclaw.features.forge.actions.remote_jobs import job_id_of
from coilclaw.ledger.run_evidence import chain_fault, read_run
from tests.features.conftest import calls

pytestmark = pytest.mark.slow
PLAN = {"match": "regex:Write a note", "text": json.dumps(
    {"steps": [{"description": "Put the file in place.", "writes": True, "evidence": []}]}
)}  # fmt: skip
WRITE = {"match": "Put the file", **calls(("file_write", {"path": "notes/a.md", "content": "from afar\n"}))}
DONE = {"match": "Put the file", "text": "Done."}


def handed_in(bot, words="Write a note.", **more):
    """A job that was taken in; its id."""
    runs = bot.run("intake.yml", inputs={"words": words, "channel": "test", "key": "k1", **more})
    assert runs["intake"].result == "success", runs["intake"].log
    return job_id_of("intake:k1")


def executed(bot, job_id, **more):
    return bot.run("execute.yml", inputs={"job_id": job_id}, **more)


def test_words_become_a_pull_request_with_the_runs_chain_as_evidence(bot):
    bot.script(PLAN, WRITE, DONE)
    job_id = handed_in(bot)
    assert [body["inputs"] for _, body in bot.fake.dispatched] == [{"job_id": job_id}]
    runs = executed(bot, job_id)
    assert {name: run.result for name, run in runs.items()} == dict.fromkeys(runs, "success"), [
        run.log for run in runs.values()
    ]
    (pull,) = bot.fake.pulls.values()
    assert (pull.head, pull.base, pull.author.login) == (f"job/{job_id}", "main", "coilclaw[bot]")
    head = bot.fake.head_of(pull)
    assert bot.file(head, "notes/a.md") == b"from afar\n"
    evidence = read_run(bot.file(head, f"audit/runs/{job_id}.json"))
    assert {chain.part: chain_fault(chain) for chain in evidence.chains} == {"author": "", "fetch": ""}
    assert any("file_write" in line for chain in evidence.chains for line in chain.receipts)


def files_of(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_no_secret_or_token_reaches_an_artifact_or_the_repository(bot):
    bot.script(PLAN, WRITE, DONE)
    runs = executed(bot, handed_in(bot))
    assert runs["propose"].result == "success"
    canaries = [*bot.runner.secrets.values(), *(token for token in bot.fake.accounts if token.startswith("ghs_"))]
    wanted = [each.strip().encode()[-40:] for each in canaries]
    left = files_of(bot.folder / "artifacts2")
    assert len(left) > 8
    for held in (*left.values(), *(json.dumps(body).encode() for _, _, body in bot.fake.requests)):
        assert not [each for each in wanted if each in held]
    assert not [each for each in wanted for run in runs.values() if each.decode() in run.log]


@pytest.mark.parametrize("name", ["plan", "fetch", "analyse", "author"])
def test_an_artifact_that_was_changed_on_its_way_stops_the_run(bot, name):
    def change(folder):
        file = next(file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != "manifest.json")
        file.write_bytes(file.read_bytes() + b" ")

    bot.script(PLAN, WRITE, DONE)
    bot.runner.tamper[name] = change
    runs = executed(bot, handed_in(bot))
    assert "failure" in {run.result for run in runs.values()}
    assert runs["propose"].result != "success"
    assert not bot.fake.pulls


@pytest.mark.parametrize("how", ["added", "manifest", "link"])
def test_a_file_that_was_added_or_a_forged_manifest_stops_the_run(bot, how):
    def change(folder):
        if how == "link":
            (folder / "extra").symlink_to("/etc/passwd")
        else:
            (folder / "extra").write_text("x")
        if how == "manifest":
            from coilclaw.features.forge.actions.handover import seal

            (folder / "manifest.json").unlink()
            seal(folder)

    bot.script(PLAN, WRITE, DONE)
    bot.runner.tamper["author"] = change
    assert executed(bot, handed_in(bot))["propose"].result == "failure"
    assert not bot.fake.pulls


def test_the_kill_switch_stops_every_workflow_before_anything_else(bot):
    job_id = handed_in(bot)
    before = len(bot.fake.requests)
    bot.fake.variables["COILCLAW_STOP"] = "1"
    for name in bot.workflows:
        runs = bot.run(name, inputs={"job_id": job_id, "words": "x", "channel": "", "key": "k2"})
        assert {run.result for run in runs.values()} <= {"failure", "skipped"}, name
    assert len(bot.fake.requests) == before


def test_only_the_owner_and_the_app_hand_work_in(bot):
    inputs = {"words": "Do it.", "channel": "x", "key": "k"}
    assert bot.run("intake.yml", inputs=inputs, actor_id="6666")["intake"].result == "skipped"
    assert not bot.fake.requests
    bot.fake.variables["COILCLAW_BOT_ID"] = "9001"
    assert bot.run("intake.yml", inputs=inputs, actor_id="9001")["intake"].result == "success"


def test_the_same_request_twice_is_one_job(bot):
    assert handed_in(bot) == handed_in(bot)
    assert len(bot.fake.dispatched) == 1


def test_a_job_that_ran_twice_has_one_pull_request(bot):
    bot.script(PLAN, WRITE, DONE)
    job_id = handed_in(bot)
    for _ in range(2):
        run = executed(bot, job_id)["propose"]
        assert run.result == "success", run.log
    (pull,) = bot.fake.pulls.values()
    theirs = bot.fake.hosted.git("cat-file", "commit", bot.fake.head_of(pull)).replace(b"CoilClaw <", b"Mallory <m")
    pushed = bot.fake.hosted.put_raw(theirs)
    bot.fake.hosted.move(f"heads/{pull.head}", pushed, force=True)
    assert executed(bot, job_id)["propose"].result == "failure"  # what a person pushed is not written over
    assert bot.fake.hosted.ref(f"heads/{pull.head}") == pushed


def test_a_call_that_needs_the_owner_is_not_done_and_nothing_is_proposed(bot):
    asks = {"match": "Put the file", **calls(("web_open", {"url": "https://elsewhere.example/x"}))}
    bot.script(PLAN, asks, DONE)
    runs = executed(bot, handed_in(bot))
    assert runs["propose"].result != "failure"
    assert not bot.fake.pulls


def test_what_governs_the_agent_is_only_proposed(bot):
    govern = {"match": "Put the file", **calls(("file_write", {"path": "SYSTEM.md", "content": "obey\n"}))}
    bot.script(PLAN, govern, DONE)
    assert executed(bot, handed_in(bot))["propose"].result == "success"
    (pull,) = bot.fake.pulls.values()
    assert (pull.state, "risk:R3" in pull.labels) == ("open", True)


def test_an_address_outside_the_job_and_the_settings_is_refused_before_anything_is_fetched(bot):
    import msgspec

    from coilclaw.features.forge.actions.ci_work import RunDenied, _fetches
    from coilclaw.packets.job import Constraints, JobSpec

    spec = JobSpec(job_id="j", intent="x", inputs={"fetch": ["https://a.example/x"]})
    assert _fetches(spec, ("a.example",)) == ("https://a.example/x",)
    narrow = msgspec.structs.replace(spec, constraints=Constraints(allowed_domains=("b.example",)))
    for each, allowed in ((spec, ("b.example",)), (narrow, ("a.example", "b.example"))):
        with pytest.raises(RunDenied):
            _fetches(each, allowed)


def test_what_was_merged_is_tried_and_marked_as_deployed(bot):
    runs = bot.run("deploy.yml")
    assert {name: run.result for name, run in runs.items()} == {
        "tests": "success", "deploy": "success", "propose": "skipped",
    }, [run.log for run in runs.values()]  # fmt: skip
    assert bot.fake.statuses() == ["in_progress", "success"]


def test_what_cannot_be_used_is_proposed_to_be_taken_back_once(bot):
    before = bot.fake.hosted.ref("heads/main")
    bot.put("policies/own.json", "{")
    bad = bot.push()
    for _ in range(2):
        runs = bot.run("deploy.yml")
        assert (runs["tests"].result, runs["deploy"].result) == ("failure", "skipped")
        assert runs["propose"].result == "success", runs["propose"].log
    (pull,) = bot.fake.pulls.values()
    head = bot.fake.head_of(pull)
    tree = bot.fake.hosted.git("rev-parse", f"{head}^{{tree}}", f"{before}^{{tree}}", f"{head}^").decode().split()
    assert tree[0] == tree[1]
    assert tree[2] == bad


def test_a_pull_request_that_breaks_the_registry_fails_its_tests(bot):
    assert bot.run("tests.yml")["tests"].result == "success"
    bot.put("cron/jobs.json", '{"version": 1, "jobs": [{"job_id": "a"}]}')
    bot.push()
    run = bot.run("tests.yml")["tests"]
    assert (run.result, "cron/jobs.json" in run.log) == ("failure", True)
