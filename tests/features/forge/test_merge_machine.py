"""Jobs, modes and answers in any order: nothing of the highest risk reaches main without the owner, or yolo's switch.

Jobs are made without a model: what they write, and what a hostile model calls, is chosen by hypothesis.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from coilclaw.features.forge.job_work import JobWork
from coilclaw.features.forge.merge_mode import ending_yolo
from coilclaw.features.forge.merge_records import home_records
from coilclaw.features.forge.paths import path_risk
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import load_pull, pull_of_job, pulls_before
from coilclaw.features.forge.verify import verify_clone
from coilclaw.gate.estop import note_estop
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.forge import MAIN
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.store.actions import load_action
from tests.conftest import TestClock
from tests.features.forge.forge_world import add_job
from tests.home import Sample

RULE = '{"version": 1, "rules": [{"id": "%d", "when": {"path": "x/**"}, "verdict": "deny", "reason": "r"}]}'
FILES = {
    "intel/a.md": "news %d\n",
    "notes/a.md": "note %d\n",
    "policies/more.json": RULE,
    "policies/default.json": '{"version": 1, "rules": []}\n',
    "SYSTEM.md": "obey %d\n",
    ".github/workflows/x.yml": "on: %d\n",
    "agent/x.py": "print(%d)\n",
    "skills/x/SKILL.md": "do %d\n",
    "Policies/more.json": RULE,
    "system.md": "obey %d\n",
}
"""What a job may try to change; the last two are others on some file systems."""
OWNERS = ("SYSTEM.md", "system.md", ".github/workflows/x.yml", "policies/default.json")
"""What the owner alone merges, in every mode."""
CLEAN = ("intel/a.md", "notes/a.md", "policies/more.json")
"""What a mode may merge: notes, other files, and the highest risk that is not the owner's alone."""
ATTACKS = ("pr_merge", "bot_yolo", "bot_tighten", "settings_change")
HOSTILE = ("chat", "job", "schedule", "sop", "cli", "session")


class Machine(RuleBasedStateMachine):
    """What stands on main is held against what the owner said."""

    seen: ClassVar[Counter[str]] = Counter()
    """What happened, so that a machine which merges nothing does not pass."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.loop = asyncio.Runner()
        self.home = Sample(self.folder, forge__enabled=True, budgets__prs_per_day=1000)
        self.app = self.home.app
        self.clock = self.app.clock = TestClock()
        self.app.warn = lambda text: None
        self.conveyor = self.home.conveyor()
        self.pulls = Pulls(self.app, self.conveyor)
        self.forge = self.pulls.forge
        self.home.owner.answer = msgspec.structs.replace(self.home.owner.answer, approved=None)  # nobody is there
        self.forge.bot.settle("first")
        self.checked = self.forge.repository.resolve(MAIN)
        self.count = 0
        self.owned = set()
        """Heads that the owner said yes to."""
        self.yolo_until = None

    def teardown(self):
        found = verify_clone(self.app.workspace, home_records(self.app.db.reader)).findings
        assert not [each for each in found if each.kind in ("unexplained", "rewritten", "disagrees")]
        self.loop.close()
        self.home.close()
        shutil.rmtree(self.folder)

    def run(self, work):
        try:
            return self.loop.run(work)
        except CoilclawError:  # refused: the invariant says whether that was all
            return None

    def numbers(self):
        return [pull.number for pull in pulls_before(self.app.db.reader, ("OPEN",), None, 100)]

    # Jobs and hostile models

    @initialize(path=st.sampled_from(CLEAN))
    def a_change_that_the_owner_merges(self, path):
        self.a_job_ends({path}, tainted=False)
        self.answer_yes(self.newest())

    @rule(path=st.sampled_from(CLEAN), mode=st.sampled_from(["strict", "whitelist", "yolo"]), tainted=st.booleans())
    def a_job_ends_under_a_mode(self, path, mode, tainted):
        self.set_mode("strict" if mode == "yolo" else mode)
        if mode == "yolo":
            self.the_owner_sets_yolo()
        self.a_job_ends({path}, tainted=tainted)
        if tainted and path not in ("intel/a.md",):
            assert self.newest().state == "OPEN"
            self.seen["kept from a tainted job"] += 1

    @rule(path=st.sampled_from(OWNERS[:3:2]))
    def a_job_tries_what_only_the_owner_merges(self, path):
        self.the_owner_sets_yolo()
        self.a_job_ends({path}, tainted=False)
        assert self.newest().state == "OPEN"
        self.seen["kept for the owner"] += 1

    @precondition(lambda self: pulls_before(self.app.db.reader, ("MERGED",), None, 1))
    @rule(data=st.data(), yes=st.booleans())
    def a_merge_is_taken_back(self, data, yes):
        merged = pulls_before(self.app.db.reader, ("MERGED",), None, 100)
        self.take_back(data.draw(st.sampled_from(merged)), yes=yes)

    def take_back(self, merged, *, yes):
        pull = self.run(self.pulls.revert(merged.number))
        if pull is not None and yes and pull.state == "OPEN":
            self.answer_yes(pull)
            self.seen["taken back"] += load_pull(self.app.db.reader, pull.number).state == "MERGED"

    def newest(self):
        return pulls_before(self.app.db.reader, ("OPEN", "MERGED", "CLOSED"), None, 1)[0]

    def answer_yes(self, pull):
        action = self.pulls.question(pull)
        if action is not None and action.status == "PENDING":
            self.owned.add(pull.head_sha)
            self.run(self.home.approve(action.action_id))

    @rule(paths=st.sets(st.sampled_from(sorted(FILES)), min_size=1, max_size=2), tainted=st.booleans())
    def a_job_ends(self, paths, tainted):
        self.count += 1
        label = "untrusted:web" if tainted else "internal"
        job = add_job(self.home, f"number {self.count}", job_id=f"job_machine{self.count:04}", taint=label)
        tree = self.forge.trees.make(job.job_id)
        for path in paths:
            place = Path(tree.folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            text = FILES[path]
            place.write_text(text % self.count if "%d" in text else text)
        self.forge.publish(job)
        if pull_of_job(self.app.db.reader, job.job_id) is not None:
            self.run(JobWork(self.app, self.conveyor).ask(job))

    @precondition(lambda self: self.numbers())
    @rule(data=st.data(), tool=st.sampled_from(ATTACKS), source=st.sampled_from(HOSTILE))
    def a_model_calls(self, data, tool, source):
        pull = load_pull(self.app.db.reader, data.draw(st.sampled_from(self.numbers())))
        change = {"key": "forge.merge_mode", "op": "set", "value": "yolo"}
        args = {
            "pr_merge": self.forge.merge_args(pull),
            "bot_yolo": {"hours": 24},
            "bot_tighten": {"before": "", "after": ""},
            "settings_change": {"changes": [change], "before": "0" * 64, "after": "0" * 64},
        }[tool]
        self.count += 1
        outcome = self.run(self.home.call(tool, Turn("turn_x", "conv_x", source), f"attack-{self.count}", **args))
        assert not outcome.result.success
        assert not outcome.pending

    @precondition(lambda self: self.numbers())
    @rule(data=st.data())
    def its_question_is_put_again(self, data):
        pull = load_pull(self.app.db.reader, data.draw(st.sampled_from(self.numbers())))
        action = self.pulls.question(pull)
        if action is None:
            self.run(self.pulls._ask_plain(pull))
        else:
            self.run(self.conveyor.execute(action))

    # The owner

    @precondition(lambda self: self.numbers())
    @rule(data=st.data())
    def the_owner_says_yes(self, data):
        self.answer_yes(load_pull(self.app.db.reader, data.draw(st.sampled_from(self.numbers()))))

    @precondition(lambda self: self.numbers())
    @rule(data=st.data())
    def the_owner_says_no(self, data):
        pull = load_pull(self.app.db.reader, data.draw(st.sampled_from(self.numbers())))
        action = self.pulls.question(pull)
        if action is not None and action.status == "PENDING":
            self.run(self.app.approvals(self.conveyor).reject(action, reason="no"))

    @rule()
    def the_owner_sets_yolo(self):
        call = ToolCall.of("bot_yolo", {"hours": 2})
        action = self.run(OwnerCalls(self.app, self.conveyor).make(call, by="terminal", key=None, at_once=False))
        assert action is None or action.status in ("PENDING", "REJECTED"), "yolo needs its own yes"
        if action is not None and action.status == "PENDING":
            self.run(self.home.approve(action.action_id))
            if load_action(self.app.db.reader, action.action_id).status == "EXECUTED":
                self.yolo_until = self.clock.now

    @rule()
    def the_owner_sets_strict(self):
        self.set_mode("strict")
        call = ending_yolo(self.app)
        if call is not None:
            self.run(OwnerCalls(self.app, self.conveyor).make(call, by="terminal", key=None))

    @rule()
    def the_owner_sets_a_whitelist(self):
        self.set_mode("whitelist")

    def set_mode(self, mode):
        """As config.toml would say, even with a list that it refuses."""
        forge = msgspec.structs.replace(self.app.config.forge, merge_mode=mode, merge_allow=("**",))
        self.app.config = msgspec.structs.replace(self.app.config, forge=forge)

    @rule()
    def the_owner_stops_and_goes_on(self):
        self.app.estop.engage("test", "2026-01-01T00:00:00Z")
        self.app.db.write_now(lambda tx: note_estop(tx, self.app.clock, engaged=True))
        for number in self.numbers():
            self.run(self.pulls.ask(number))
        self.no_high_risk_without_the_owner()
        self.app.estop.clear()
        self.app.db.write_now(lambda tx: note_estop(tx, self.app.clock, engaged=False))
        assert self.forge.mode() != "yolo"

    @rule(hours=st.sampled_from([1, 3, 30]))
    def time_passes(self, hours):
        self.clock.advance(hours=hours)

    # What must be so

    @invariant()
    def no_high_risk_without_the_owner(self):
        repository, main = self.forge.repository, self.forge.repository.resolve(MAIN)
        for commit in repository.log(MAIN, 1000):
            if commit.sha == self.checked:
                break
            if len(commit.parents) < 2:
                continue  # a sweep: the workspace as the owner has it
            first, head = commit.parents
            paths = [each.path for each in repository.changes(first, commit.sha)]
            alone = [path for path in paths if path in OWNERS]
            high = [path for path in paths if path_risk(path) == "R3"]
            self.seen["by the owner" if head in self.owned else "by a mode, R3" if high else "by a mode"] += 1
            if head in self.owned:
                continue
            assert not alone, f"{alone} reached main without the owner"
            assert not high or self.in_yolo(commit), f"{high} reached main without the owner or yolo"
            pull = next(
                each for each in pulls_before(self.app.db.reader, ("MERGED",), None, 100) if each.head_sha == head
            )
            assert not pull.taint or pull.risk in ("R0", "R1"), "a tainted job merged more than notes"
        self.checked = main

    def in_yolo(self, commit):
        """Whether yolo's two hours had begun and were not over, by the machine's own account."""
        when = datetime.fromisoformat(commit.time)
        since = self.yolo_until
        return since is not None and since - timedelta(seconds=2) <= when <= since + timedelta(hours=2, seconds=2)


@pytest.mark.slow
def test_every_way_to_main_is_one_that_the_machine_can_take():
    Machine.seen.clear()
    machine = Machine()
    machine.a_change_that_the_owner_merges("notes/a.md")
    machine.take_back(machine.newest(), yes=True)
    machine.a_job_ends_under_a_mode("intel/a.md", "whitelist", tainted=False)
    machine.a_job_ends_under_a_mode("policies/more.json", "yolo", tainted=False)
    machine.a_job_ends_under_a_mode("notes/a.md", "yolo", tainted=True)
    machine.a_job_tries_what_only_the_owner_merges("SYSTEM.md")
    machine.no_high_risk_without_the_owner()
    machine.teardown()
    assert Machine.seen == {
        "by the owner": 2,
        "taken back": 1,
        "by a mode": 1,
        "by a mode, R3": 1,
        "kept from a tainted job": 1,
        "kept for the owner": 1,
    }


@pytest.mark.slow
def test_no_order_of_answers_brings_the_highest_risk_to_main():
    bounds = settings(
        max_examples=24, stateful_step_count=16, deadline=None, derandomize=True, phases=(Phase.generate,)
    )
    Machine.seen.clear()
    run_state_machine_as_test(Machine, settings=bounds)
    assert Machine.seen["by the owner"], "every example begins with a merge"
