"""Jobs that plan, with the real executable: killed while a model reads the goal, plans it, or anywhere in between."""

import json
import os
import random
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.acceptance.conftest import HomeAt, until

pytestmark = pytest.mark.slow

SPEC = {"allowed_tools": None, "allowed_domains": None, "max_files_changed": None, "evidence_required": []}
PLAN = {
    "steps": [
        {"description": "write one", "writes": True, "evidence": []},
        {"description": "write two", "writes": True, "evidence": ["log"]},
    ]
}
USED = {"usage": {"input_tokens": 10, "output_tokens": 5}}
ONE = {"tool": "file_write", "args": {"path": "one", "content": "1"}}
TWO = {"tool": "file_write", "args": {"path": "two", "content": "2"}}
LOG = {"tool": "artifact_put", "args": {"name": "log", "kind": "text", "content": "both"}}
STEPS = [
    {"match": "step 1 of 2", "tool_calls": [ONE]},
    {"match": "step 1 of 2", "text": "one is there"},
    {"match": "step 2 of 2", "tool_calls": [TWO, LOG]},
    {"match": "step 2 of 2", "text": "two is there"},
]
CONFIG = """
default_provider = "by_task"
[security]
autonomy = "full"
[forge]
enabled = false
[jobs]
step_seconds = 600.0
[providers.models.by_task]
kind = "router"
default = "worker"
[providers.models.by_task.routes]
route = "light"
plan = "strong"
"""


def models(home: HomeAt, slow: str = "", seconds: float = 600.0) -> None:
    """Write the answers of the three models; one of them may be slow."""
    config = CONFIG
    for name, replies in (
        ("light", [{"text": json.dumps(SPEC), **USED}]),
        ("strong", [{"text": json.dumps(PLAN), **USED}]),
        ("worker", [{**reply, **USED} for reply in STEPS]),
    ):
        late: list[dict[str, Any]] = [{**reply, "delay": seconds} for reply in replies] if slow == name else replies
        path = home.base / f"{name}.json"
        path.write_text(json.dumps(late))
        config += f'[providers.models.{name}]\nkind = "mock"\nmodel = "{name}-1"\nscript = "{path}"\n'
    home.configure(config)


def killed(worker: "subprocess.Popen[str]") -> None:
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()


def create(home: HomeAt) -> str:
    return home.ok("job", "create", "write one and two", "--json").json()["job_id"]


def in_hands(home: HomeAt) -> tuple[str, str | None]:
    """Where the job stands, and in which worker's hands."""
    ((state, worker),) = home.rows("SELECT state, worker FROM jobs")
    return state, worker


def done(home: HomeAt) -> bool:
    return in_hands(home)[0] == "DONE"


def holds(home: HomeAt, job_id: str) -> None:
    """The job came to its end, each of its parts once and everything paid for."""
    shown = home.ok("job", "show", job_id, "--json").json()
    assert shown["state"] == "DONE", shown["reason"]
    drafts = home.rows("SELECT payload_json FROM job_events WHERE job_id = ? AND type = 'draft' ORDER BY rowid", job_id)
    assert [(draft["what"], draft["used"]) for (text,) in drafts for draft in [json.loads(text)]] == [
        ("spec", True),
        ("plan", True),
    ]
    assert [step["description"] for step in shown["plan"]["steps"]] == ["write one", "write two"]
    made = home.rows("SELECT tool, status FROM proposed_actions WHERE job_id = ? ORDER BY rowid", job_id)
    assert made == [("file_write", "EXECUTED"), ("file_write", "EXECUTED"), ("artifact_put", "EXECUTED")]
    assert [(home.workspace / name).read_text() for name in ("one", "two")] == ["1", "2"]
    assert home.rows("SELECT count(*) FROM artifacts WHERE job_id = ? AND name = 'log'", job_id) == [(1,)]
    home.intact()


@pytest.mark.parametrize(("model", "state"), [("light", "RECEIVED"), ("strong", "POLICY_CHECKED")])
def test_a_worker_killed_while_a_model_is_asked_leaves_a_job_that_is_planned_once(
    home: HomeAt, model: str, state: str
) -> None:
    models(home, slow=model)
    job_id = create(home)
    for _ in range(2):
        worker, before = home.start("worker"), in_hands(home)
        until(
            lambda before=before: (now := in_hands(home)) != before and now == (state, now[1]),
            f"the job to be {state} in a worker's hands",
            worker,
        )
        time.sleep(0.3)  # into the call itself
        killed(worker)
        assert home.rows("SELECT state FROM jobs WHERE job_id = ?", job_id) == [(state,)]
        assert home.rows("SELECT plan_json FROM jobs WHERE job_id = ?", job_id) == [("{}",)]
    models(home)
    worker = home.start("worker")
    until(lambda: done(home), "the job's end", worker)
    killed(worker)
    holds(home, job_id)


def test_killed_at_random_while_it_plans_and_works_a_job_is_done_once(home: HomeAt) -> None:
    models(home, slow="strong", seconds=0.2)
    luck = random.Random(15)
    job_id = create(home)
    kills = 0
    for _ in range(8):
        worker, (_, hands) = home.start("worker"), in_hands(home)
        until(lambda hands=hands: in_hands(home)[1] not in (hands, None) or done(home), "a claim", worker)
        time.sleep(luck.uniform(0.0, 0.4))
        killed(worker)
        kills += 1
        if done(home):
            break
    assert kills
    models(home)
    worker = home.start("worker")
    until(lambda: done(home), "the job's end", worker)
    killed(worker)
    holds(home, job_id)
