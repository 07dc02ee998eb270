"""The agent as a new repository has it: what it asks of its model, what it does about outages and refused pushes."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from coilclaw.features.evolve import init
from coilclaw.features.evolve.watcher import comms
from coilclaw.features.evolve.watcher.agent import is_alive
from tests.features.evolve.watcher_world import COMMS, WATCHER, World

pytestmark = pytest.mark.slow
TEMPLATE = Path(init.__file__).parent / "template"
MARKS_OF_A_DAY = 144
CUT_OFF = b""
FAULTS = (b"<html>Bad gateway", b'"busy"', b'{"error": "busy"}', b'{"choices": []}', b'{"choices": [{}]}', CUT_OFF)


class Model(HTTPServer):
    """Fails as often as it is told to, in every way; then calls the tools of its script; then has nothing to do."""

    def __init__(self, failures: int = 0, script: tuple[tuple[str, dict[str, str]], ...] = ()) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.failures = failures
        self.failed = 0
        self.script = list(script)
        self.asked: list[dict[str, object]] = []

    def answer(self, body: dict[str, object]) -> tuple[int, bytes]:
        if self.failed < self.failures:
            self.failed += 1
            return (200, 503)[self.failed // len(FAULTS) % 2], FAULTS[self.failed % len(FAULTS)]
        self.asked.append(body)
        message: dict[str, object] = {"role": "assistant", "content": "Nothing to do."}
        if self.script:
            name, given = self.script.pop(0)
            call = {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return 200, json.dumps({"choices": [{"message": message}]}).encode()


class Answer(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        status, data = self.server.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(status)
        self.send_header("content-length", str(len(data) or 7))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A home whose main is the agent of a new repository; it is launched without a box."""
    files = {name: (TEMPLATE / name).read_text() for name in ("infra/runner.py", "SYSTEM.md", "COMMS.md")}
    world = World(tmp_path, files=files)
    environ = {
        "EVOLVE_BOT": str(world.volume), "EVOLVE_REMOTE": str(world.home / "remote.git"), "EVOLVE_INTERVAL": "0.05",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        **{f"GIT_{role}_NAME": "agent" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "agent@evolve.invalid" for role in ("AUTHOR", "COMMITTER")},
    }  # fmt: skip
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    yield world
    world.end()


@pytest.fixture
def asks(agent: World, monkeypatch: pytest.MonkeyPatch):
    """Starts the watcher with an agent that asks this model."""
    models: list[Model] = []

    def start(model: Model) -> Model:
        models.append(model)
        threading.Thread(target=model.serve_forever, daemon=True).start()
        monkeypatch.setenv("EVOLVE_MODEL", f"http://127.0.0.1:{model.server_port}/v1/chat/completions")
        agent.start()
        return model

    yield start
    agent.end()
    for model in models:
        model.shutdown()
        model.server_close()


def template_runner():
    spec = importlib.util.spec_from_file_location("runner_of_a_template", TEMPLATE / "infra" / "runner.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    return runner


def test_a_runner_checks_itself_on_a_model_of_its_own(agent):
    """So a branch shows that it works before it is started, and asks nobody."""
    place = agent.clone("agent/x")
    words = [sys.executable, str(place / "infra/runner.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "The runner works."), done
    assert agent.boots() == "", "it did not start"
    runner = place / "infra/runner.py"
    whole = runner.read_text()
    for old, new in (("def bash(command):", "def bash(command, more):"), ("Continue.", "Go.")):
        assert old in whole
        runner.write_text(whole.replace(old, new, 1))
        assert subprocess.run(words, capture_output=True, timeout=280).returncode != 0, new


def test_a_command_that_leaves_something_running_does_not_hold_up_the_agent(agent):
    """What is left holds the output open: waiting for its end would be waiting for ever."""
    agent.volume.mkdir()
    runner = template_runner()
    told = runner.bash("echo begun; sleep 1000 & echo $! >&2")
    try:
        assert told.startswith("begun\n")
        assert "[exit code 0]" in told
    finally:
        os.kill(int(told.split()[1]), signal.SIGKILL)
    runner.BASH_SECONDS = 1
    told = runner.bash("sh -c 'echo $$; exec sleep 1000' | cat")
    assert "longer than 1 seconds" in told
    agent.wait(lambda: not is_alive(int(told.split()[0])), "what it started is ended with it")
    told = runner.bash("head -c 10000000 /dev/zero | tr '\\0' x; echo the end")
    assert "the end" in told
    assert "left out" in told
    assert len(told) < 10 * runner.OUTPUT_CHARACTERS


def test_a_comms_file_too_long_for_the_model_is_read_without_its_oldest_lines(agent, monkeypatch):
    lines = [f"- report {number} {'x' * 80}" for number in range(1000)]
    agent.record.edit(lambda now: comms.add(comms.add(now, "Reports", lines), "Directives", ["- do this"]), "Much")
    monkeypatch.setenv("EVOLVE_CONTEXT_TOKENS", "8192")
    text = template_runner().prompt()
    assert len(text) < 8192 * 2  # half of the context is for the conversation
    assert [word in text for word in ("- do this", "report 999 ", "report 0 ", "left out")] == [True, True, False, True]


def test_a_model_that_is_down_for_a_day_is_asked_at_every_mark_by_the_same_process(agent, asks):
    agent.record.say("Be quick.")
    before = agent.record.main()
    model = asks(Model(MARKS_OF_A_DAY))
    agent.wait(lambda: len(model.asked) > 1, "it works again")
    printed = (agent.volume / "logs" / "errors.log").read_text()
    assert printed.count("The model did not answer") == MARKS_OF_A_DAY
    assert [line.split()[1] for line in agent.boots().splitlines()] == ["BOOTSTRAPPING", "SUCCESS"]
    assert agent.state()["phase"] == "running"
    assert agent.record.main() == before, "the watcher has nothing to tell"

    asked = model.asked[0]
    system, user = asked["messages"]
    assert user == {"role": "user", "content": "Continue."}
    assert system["content"].startswith((TEMPLATE / "SYSTEM.md").read_text())
    assert system["content"].index("- Be quick.") > len((TEMPLATE / "SYSTEM.md").read_text())
    names = [(tool["function"]["name"], list(tool["function"]["parameters"]["properties"])) for tool in asked["tools"]]
    assert names == [
        ("read_file", ["path"]), ("write_file", ["path", "content"]), ("bash", ["command"]),
        ("bootstrap", ["branch"]), ("rollback", ["ref"]),
    ]  # fmt: skip


# Pushes that are refused

WORK = (
    "set -e; git clone -q $EVOLVE_REMOTE $EVOLVE_BOT/agent/x/coilclaw; cd $EVOLVE_BOT/agent/x/coilclaw;"
    " git checkout -q -b agent/x; echo mine > mine; git add -A; git commit -qm Mine"
)
WORKS = (("bash", {"command": WORK}), ("bootstrap", {"branch": "agent/x"}))


def pushed_meanwhile(world: World, name: str) -> str:
    """A commit on agent/x that the clone of `WORK` does not have."""
    other = world.root / "other"
    world.git("clone", "-q", str(world.home / "remote.git"), str(other))
    (other / name).write_text("theirs\n")
    world.git("add", "-A", where=other)
    world.git("commit", "-qm", "Theirs", where=other)
    world.git("push", "-q", "origin", "HEAD:refs/heads/agent/x", where=other)
    return world.git("rev-parse", "HEAD", where=other)


def test_a_refused_push_is_made_again_over_what_was_pushed_meanwhile(agent, asks):
    theirs = pushed_meanwhile(agent, "theirs")
    asks(Model(script=WORKS))
    agent.wait_running("agent/x")
    tip = agent.record.sha("refs/heads/agent/x")
    assert agent.record.descends(tip, theirs)
    assert agent.record.git.text("show", f"{tip}:mine") == "mine"


def test_a_push_that_is_refused_for_good_is_reported_once_and_costs_no_work(agent, asks):
    theirs = pushed_meanwhile(agent, "mine")  # the same file with other words: no rebase brings them together
    model = asks(Model(script=(*WORKS, WORKS[1])))
    agent.wait(lambda: "agent/x could not be pushed" in agent.record.comms(), "the report is in main's COMMS.md")
    agent.wait(lambda: len(model.asked) > 3, "the agent works on")
    assert "could not be pushed" in model.asked[2]["messages"][-1]["content"], "its model hears of it"
    assert agent.record.sha("refs/heads/agent/x") == theirs, "nothing was pushed over"
    assert agent.git("log", "-1", "--format=%s", where=agent.volume / "agent/x/coilclaw") == "Mine"
    assert agent.state()["branch"] == "main"
    agent.end()
    agent.record.take_in()
    agent.record.fold()
    assert agent.record.comms().count("agent/x could not be pushed") == 1


def test_a_bootstrap_throws_nothing_away_that_is_not_committed(agent, asks):
    place = agent.clone("agent/x")
    agent.push("agent/x", {"b.py": "1\n"})
    (place / "a.py").write_text("not committed\n")
    model = asks(Model(script=WORKS[1:]))
    agent.wait(lambda: len(model.asked) > 1, "the agent works on")
    assert "Commit" in model.asked[1]["messages"][-1]["content"]
    assert (place / "a.py").read_text() == "not committed\n"


# A clock that jumps

JUMPING = """
import sys, time
from pathlib import Path
place, real = Path(sys.argv[2]), time.time
def jumped():
    return real() + float(place.read_text())
def gmtime(seconds=None, given=time.gmtime):
    return given(jumped() if seconds is None else seconds)
time.time, time.gmtime, time.time_ns = jumped, gmtime, lambda: int(jumped() * 1e9)
sys.path.append(sys.argv[1])
from watcher.loop import watch
sys.exit(watch(Path(sys.argv[3])))
"""


def test_a_clock_that_jumps_by_years_is_reported_and_no_signal_is_lost_or_done_twice(tmp_path):
    world = World(tmp_path)
    (tmp_path / "jumping.py").write_text(JUMPING)
    words = (sys.executable, "-I", "-S", str(tmp_path / "jumping.py"), str(WATCHER.parent), str(tmp_path / "clock"))

    def jump(days: int) -> None:
        (tmp_path / "next").write_text(str(days * 86400))
        (tmp_path / "next").rename(tmp_path / "clock")

    jump(0)
    world.start(*words)
    try:
        for count, days in enumerate((400, -400, 0), 1):
            world.wait_running("main")
            branch = f"agent/n{count}"
            world.push(branch, {f"f{count}": "x\n", "COMMS.md": f"{COMMS}- report {count}\n"})
            jump(days)
            world.wait(lambda count=count: world.record.comms().count("clock was changed") == count, "it is told")
            world.send("bootstrap", branch)
            world.wait_running(branch)
            if days < 0:  # what an earlier watcher journaled is known to a later one with another clock
                world.kill()
                jump(days - 1)
                world.send("bootstrap", "main")
                world.start(*words)
            else:
                world.send("bootstrap", "main")
            world.wait(lambda: world.asks("merge"), "the merge is asked for")
            (ask,) = world.asks("merge")
            world.record.merge(str(ask["branch"]), str(ask["old"]), str(ask["new"]))
            world.answer(ask, ok=True)
            world.wait(lambda: not world.asks("merge"), "the answer is heard")
            world.wait_running("main")
            world.send("rollback", world.first)
            world.wait_running(f"agent/rollback-{count}")
            world.order(kind="launch", branch="main")
        world.wait_running("main")
        assert world.log().count("(accepted)") == 3 * 4
        for count in (1, 2, 3):
            assert world.record.comms().count(f": report {count}\n") == 1
            assert world.record.git.text("show", f"main:f{count}") == "x"
    finally:
        world.end()
    world.fsck()
