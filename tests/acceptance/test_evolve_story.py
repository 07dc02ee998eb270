"""The whole story with the real executable and a scripted model: directive, bad branch, fallback, good branch, merge,
rollback."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from coilclaw.sandbox.fake_openai import CompletionsExchange, FakeOpenAI
from coilclaw.sandbox.process_tree import descendants
from tests.acceptance.conftest import HomeAt, alive, one_sentence, until
from tests.missing import lacks

pytestmark = pytest.mark.slow
LOOK = (
    "pwd; cat /bot/logs/bootstrap.log; git --git-dir=/mnt/remote for-each-ref --format='%(refname)';"
    " git --git-dir=/mnt/remote ls-tree --name-only main"
)
WORK = "set -e; git clone -q /mnt/remote /bot/{0}/coilclaw; cd /bot/{0}/coilclaw; git checkout -q -b {0}; "
BAD = WORK.format("agent/bad") + (
    "sed -i '1i raise SystemExit(\"a broken branch\")' infra/runner.py; git commit -qam 'Break it';"
    " git push -q origin agent/bad"
)
GOOD = WORK.format("agent/good") + (
    "echo hello > hello.txt; sed -i 's/^## Reports/## Reports\\n\\n- I wrote hello.txt/; s/^- Say.*//' COMMS.md;"
    " git add -A; git commit -qm 'Say hello'; git push -q origin agent/good"
)


class Agent(FakeOpenAI):
    """A model that does what the directive says, by what it sees when it looks."""

    def play(self, handler, body, before):
        exchange = CompletionsExchange(handler, self, body, before)
        system = str(exchange.messages[0]["content"])
        calls = self.next(system, exchange.results)
        exchange.call(calls) if calls else exchange.say("Nothing to do.")

    def next(self, system: str, results: list[str]) -> list[tuple[str, str]]:
        def bash(command: str) -> list[tuple[str, str]]:
            return [("bash", json.dumps({"command": command}))]

        def bootstrap(branch: str) -> list[tuple[str, str]]:
            return [("bootstrap", f'{{"branch": "{branch}"}}')]

        if "Say hello in a file" not in system:
            return []
        if not results:
            return bash(LOOK)
        where, seen, done = results[0].splitlines()[0], results[0], len(results) > 1
        if where == "/bot/agent/good/coilclaw":
            return bootstrap("main") if done else bash("cat hello.txt")
        if where != "/bot/main/coilclaw" or "hello.txt" in seen:
            return []
        if "refs/heads/agent/bad" not in seen or (done and "agent/good" not in seen and "FALLBACK" not in seen):
            return bootstrap("agent/bad") if done else bash(BAD)
        if "refs/heads/agent/good" not in seen:
            return bootstrap("agent/good") if done else bash(GOOD)
        return []


def boots(home: HomeAt) -> list[tuple[str, str]]:
    """What became of each start: (what, branch)."""
    log = home.root / "evolve" / "bot" / "logs" / "bootstrap.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(line.split()[1], line.split()[2]) for line in lines]


def git(folder: Path, *words: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True, env=environ)
    return done.stdout


def approved(home: HomeAt, *command: str) -> None:
    ran = home.sit(*command, size=(160, 500)).wait_for("Approve? [y").type("y\r").end()
    assert ran.rc == 0, ran


@pytest.fixture
def evolving(home: HomeAt):
    if not os.access("/usr/bin/python3", os.X_OK):
        lacks("a Python at /usr/bin/python3", "Install the package python3.")
    source = home.base / "source"
    source.mkdir()
    (source / "README.md").write_text("The agent.\n")
    with Agent() as model:
        home.provider(model.base_url, "[evolve]\nlook_seconds = 1\nstart_seconds = 100\n[forge]\nenabled = false\n")
        home.ok("evolve", "init", "--from", str(source))
        yield home
        home.run("evolve", "stop")


def test_directive_bad_branch_fallback_good_branch_merge_and_rollback(evolving: HomeAt) -> None:
    home = evolving
    record = home.root / "evolve" / "bot.git"
    first = git(record, "rev-parse", "main").strip()
    up = home.start("evolve", "up")
    until(lambda: ("SUCCESS", "main") in boots(home), "main runs", up)

    home.ok("evolve", "say", "Say hello in a file")
    until(lambda: ("FAILED", "agent/bad") in boots(home), "the bad branch failed", up)
    until(lambda: ("SUCCESS", "agent/good") in boots(home), "the good branch runs", up)
    assert boots(home).index(("FALLBACK", "main")) < boots(home).index(("SUCCESS", "agent/good"))

    until(lambda: home.ok("evolve", "status", "--json").json()["waiting"], "the merge waits", up)
    status = home.ok("evolve", "status", "--json").json()
    assert status["up"]
    assert "hello.txt" not in git(record, "ls-tree", "--name-only", "main"), (
        "nothing is merged before the owner says so"
    )
    card = home.ok("approvals", "show", status["waiting"][0]).out
    merged, _, kept = card.partition("Not merged")
    assert "+hello" in merged
    assert "COMMS.md" not in merged
    assert "- Say hello in a file" in kept, "what it did to the directives is shown, and stays out"

    approved(home, "approvals", "approve", status["waiting"][0])
    assert "hello.txt" in git(record, "ls-tree", "--name-only", "main")
    until(lambda: "was merged" in git(record, "show", "main:COMMS.md"), "the watcher tells it", up)
    comms = git(record, "show", "main:COMMS.md")
    assert "- Say hello in a file" in comms, "the owner's directive stays, whatever the branch did to it"
    assert "I wrote hello.txt" in comms

    approved(home, "evolve", "rollback", first)
    until(lambda: ("SUCCESS", "agent/rollback-1") in boots(home), "the agent is back", up)
    assert not (home.root / "evolve/bot/agent/good").exists(), "a later start removes what was merged"
    assert "hello.txt" in git(record, "ls-tree", "--name-only", "main"), "main is not rewritten"
    assert git(record, "rev-parse", "agent/rollback-1").strip() == first
    git(record, "fsck", "--strict")

    tools = [row[0] for row in home.rows("SELECT tool FROM proposed_actions WHERE status = 'EXECUTED' ORDER BY rowid")]
    assert tools == ["evolve_merge", "evolve_rollback"]
    events = {row[0] for row in home.rows("SELECT event_type FROM audit_log")}
    assert "evolve_started" in events
    assert "fake-model" in home.ok("usage").out
    home.intact()

    ours = descendants(up.pid)
    assert "stopped" in home.ok("evolve", "stop").out
    assert not any(map(alive, ours))
    assert up.wait(60) == 0


def test_estop_ends_the_agent_and_holds_it_until_it_is_cleared(evolving: HomeAt) -> None:
    home = evolving
    up = home.start("evolve", "up")
    until(lambda: ("SUCCESS", "main") in boots(home), "main runs", up)
    ours = descendants(up.pid)
    assert len(ours) > 2, "the watcher, the launcher and the box"
    home.ok("estop", "--reason", "test")
    until(lambda: not any(map(alive, ours)), "all of it is dead", up)
    before = boots(home)
    assert home.ok("evolve", "status", "--json").json()["phase"] == "stopped"
    home.ok("evolve", "say", "Anything")
    assert boots(home) == before
    assert descendants(up.pid) == []
    home.sit("estop", "--clear").wait_for("[y/N]").type("y\r").end()
    until(lambda: len(boots(home)) > len(before), "it runs again", up)


def test_one_agent_at_a_time_and_none_without_a_repository(evolving: HomeAt) -> None:
    home = evolving
    up = home.start("evolve", "up")
    until(lambda: home.ok("evolve", "status", "--json").json()["up"], "it is up", up)
    one_sentence(home.run("evolve", "up"), 2, "already")
    one_sentence(home.run("evolve", "destroy", "--yes"), 2, "already")
    one_sentence(home.run("evolve", "init"), 2, "already")
    one_sentence(home.run("evolve", "wheels", "--off"), 2, "already")
    one_sentence(home.run("evolve", "rollback", "no-such-ref"), 2, "no-such-ref")
    home.ok("evolve", "stop")
    home.ok("evolve", "destroy", "--yes")
    for command in (("up",), ("status",), ("stop",), ("say", "x"), ("rollback", "main"), ("destroy", "--yes")):
        one_sentence(home.run("evolve", *command), 2, "evolve init")


def test_a_route_needs_the_owners_word_before_anything_starts(evolving: HomeAt) -> None:
    routed = {"COILCLAW_EVOLVE_NETWORK": "routed"}
    one_sentence(evolving.run("evolve", "up", env=routed), 2, "coilclaw evolve route")
    evolving.run("evolve", "route")  # nobody sits there, so it waits
    one_sentence(evolving.run("evolve", "up", env=routed), 2, "coilclaw evolve route")
    evolving.sit("evolve", "route").wait_for("Approve?").type("y\r").end()
    assert (evolving.root / "evolve" / "routed").is_file()
    evolving.sit("evolve", "route", "--off").wait_for("Approve?").type("y\r").end()
    assert not (evolving.root / "evolve" / "routed").exists()
