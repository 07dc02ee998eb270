"""The life of actions, in any order of events: whatever happens, an effect has its yes, its end and its receipt."""

import asyncio
import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.config import Home, load
from coilclaw.config.schema import Executor, Webhook
from coilclaw.gate.outcomes import STATUS_OF
from coilclaw.gate.turn import Turn
from coilclaw.ledger.verify import verify_ledger
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import Conflict, ProofNeeded, UsageError
from coilclaw.packets.ids import from_stamp
from coilclaw.runtime import Runtime
from coilclaw.store.actions import list_actions, load_action
from tests.gate.lifecycle_world import BEHAVIOURS, Clock, Crash, World

TARGETS = ("deduplicates", "lookup", "neither")
DENYING = '{"version":1,"rules":[{"id":"no","when":{"tool":"webhook_send"},"verdict":"deny","reason":"quiet"}]}'
POINTS = (
    "proposed",
    "decided",
    "waiting",
    "approving",
    "approved",
    "claiming",
    "begun",
    "starting",
    "done",
    "finished",
)


@cache
def _template():
    folder = Path(tempfile.mkdtemp(prefix="coilclaw-lifecycle-"))
    home = Home(folder / "home")
    make_home(home)
    config = load(home, {"HOME": str(folder / "user")}).config
    make_parts(home, config)
    make_workspace(home, config.workspace_dir)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _no_template_left():
    yield
    shutil.rmtree(_template())
    _template.cache_clear()


class Lifecycle(RuleBasedStateMachine):
    """Everything that can happen to actions, and what must hold whatever does."""

    actions = Bundle("actions")

    @initialize()
    def open_home(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coilclaw-lifecycle-"))
        shutil.copytree(_template(), self.folder / "s", symlinks=True)
        self.loop = asyncio.Runner()
        self.clock = Clock()
        self.world = World()
        self.world.suspect = self._suspect
        self.crash_at = None
        self.number = 0
        self.shown = {}
        """By key: what a yes was given to, and until when it held."""
        self.retries = Counter()
        self.ended = {}
        self.read = {}
        """Actions as somebody read them, some time ago."""
        self.denying = False
        self._open()

    def _open(self):
        home = Home(self.folder / "s" / "home")
        environ = {"HOME": str(self.folder / "user")}
        config = load(home, environ).config
        self.workspace = config.workspace_dir
        hooks = {
            name: Webhook(
                url=f"http://127.0.0.1:9/{name}/in",
                deduplicates=name == "deduplicates",
                lookup_url="http://127.0.0.1:9/lookup/seen/{key}" if name == "lookup" else "",
                timeout_seconds=2.0,
            )
            for name in TARGETS
        }
        budgets = msgspec.structs.replace(config.budgets, tool_calls_per_minute=100_000, open_proposals=100_000)
        config = msgspec.structs.replace(
            config, webhooks=hooks, budgets=budgets, executor=Executor(max_attempts=3, backoff_seconds=1.0)
        )
        self.app = Runtime(home, config, environ, lambda *_: None, reached=self._reached)
        self.app.clock = self.clock
        self.app.transport = self.world
        self._sit_down()

    def _sit_down(self):
        self.answer = Answer(approved=None)
        self.conveyor = self.app.conveyor(self._asked)
        self.approvals = self.app.approvals(self.conveyor)
        self.executor = self.app.executor(self.conveyor)

    async def _asked(self, card):
        return self.answer

    def _reached(self, point):
        if point == self.crash_at:
            raise Crash

    def _run(self, coroutine, crash_at=None):
        """Do it; if it crashes, whoever did it is gone and somebody else sits down."""
        self.crash_at = crash_at
        try:
            return self.loop.run(coroutine)
        except Crash:
            held = self.conveyor.records._held
            if held is not None:  # a dead process's lock is free, and its file remains
                os.close(held._fd)
                self.conveyor.records._held = None
            self._sit_down()
            return None
        finally:
            self.crash_at = None

    # What an effect must be able to show

    def _suspect(self, key, body):
        assert key in self.shown, f"{key}: nobody said yes"
        assert not self.app.estop.engaged()
        assert not self.denying
        bodies, until = self.shown[key]
        assert body in bodies, f"{key}: not what was shown"
        assert self.clock.now < until, f"{key}: the yes had expired"

    def _say_yes(self, action, digest=None):
        """Note what the owner agrees to, before the agreement is told to anybody."""
        if digest not in (None, action.digest):
            return
        bodies, until = self.shown.get(action.idempotency_key, (set(), from_stamp(action.expires_at)))
        args = json.loads(action.call.args_bytes)
        body = (self.workspace / "out.txt").read_bytes() if args.get("file") else _canonical(args["payload"])
        self.shown[action.idempotency_key] = ({*bodies, body}, max(until, from_stamp(action.expires_at)))

    def _load(self, action_id):
        return load_action(self.app.db.reader, action_id)

    # What can happen

    @rule(
        target=actions,
        receiver=st.sampled_from(TARGETS),
        behaviours=st.lists(st.sampled_from(BEHAVIOURS), max_size=4),
        stored=st.booleans(),
        with_file=st.booleans(),
        said=st.sampled_from([None, None, True, False]),
        crash_at=st.none() | st.sampled_from(POINTS),
    )
    def propose(self, receiver, behaviours, stored, with_file, said, crash_at):
        self.number += 1
        key = f"key-{self.number}"
        self.world.behaviours[key] = list(behaviours)
        out = self.workspace / "out.txt"
        if not out.exists():
            out.write_text("first")
        args = {"target": receiver, **({"file": "out.txt"} if with_file else {"payload": {"n": self.number}})}
        turn = Turn(f"turn_{self.number}", "", "cli")
        self.answer = Answer(approved=said)
        action = self.conveyor.intake.propose(ToolCall.of("webhook_send", args), turn, key)
        if said:
            self._say_yes(action)

        async def go():
            if stored:
                await self.app.db.write(lambda tx: self.conveyor.records.store(tx, action))
            await self.conveyor.carry(action, turn, stored=stored)

        self._run(go(), crash_at)
        return action.action_id if self._load(action.action_id) is not None else multiple()

    @rule(action_id=actions, right=st.booleans(), crash_at=st.none() | st.sampled_from(POINTS))
    def approve(self, action_id, right, crash_at):
        action = self._load(action_id)
        digest = action.digest if right else "0" * 64
        if action.status == "PENDING":
            self._say_yes(action, digest)
        with suppress(UsageError, Conflict):
            self._run(self.approvals.approve(action, by="terminal", digest=digest), crash_at)

    @rule(action_id=actions, crash_at=st.none() | st.sampled_from(POINTS))
    def approve_and_execute(self, action_id, crash_at):
        action = self._load(action_id)
        if action.status == "PENDING":
            self._say_yes(action)

        async def go():
            answered = await self.approvals.approve(action, by="terminal", digest=action.digest)
            if answered.__class__ is action.__class__:
                await self.conveyor.execute(answered)

        with suppress(UsageError, Conflict):
            self._run(go(), crash_at)

    @rule(action_id=actions)
    def reject(self, action_id):
        with suppress(UsageError, Conflict):
            self._run(self.approvals.reject(self._load(action_id), reason="no"))

    @rule(action_id=actions, said=st.sampled_from(["reject", "approve"]))
    def answer_what_was_just_answered(self, action_id, said):
        """Two doors: one says yes, and the other, which saw it waiting, answers too. The first answer stands."""
        seen = self._load(action_id)
        if seen.status != "PENDING":
            return
        self._say_yes(seen)
        first = None
        with suppress(UsageError, Conflict):
            first = self._run(self.approvals.approve(seen, by="terminal", digest=seen.digest))
        with suppress(Conflict, ProofNeeded):
            if said == "reject":
                self._run(self.approvals.reject(seen, reason="too late"))
            else:
                self._run(self.approvals.approve(seen, by="device:second", digest=seen.digest))
        if first.__class__ is seen.__class__:
            assert self._load(action_id).status == "APPROVED"
            assert self._load(action_id).approved_by == "terminal"

    @rule()
    def expire(self):
        self._run(self.executor.expire())

    @rule(crash_at=st.none() | st.sampled_from(POINTS))
    def run_due(self, crash_at):
        self._run(self.executor.run_due(), crash_at)

    @rule(action_id=actions, claimed=st.sampled_from(["as it was", "approved"]))
    def execute_whatever(self, action_id, claimed):
        """An executor that works from what it read long ago, or was told."""
        action = self.read.get(action_id) or self._load(action_id)
        if claimed == "approved":
            action = msgspec.structs.replace(self._load(action_id), status="APPROVED", approved_by="nobody")
        self._run(self.conveyor.execute(action))

    @rule(action_id=actions)
    def read_it(self, action_id):
        self.read[action_id] = self._load(action_id)

    @rule(
        target=actions,
        receiver=st.sampled_from(TARGETS),
        behaviours=st.lists(st.sampled_from(BEHAVIOURS[1:]), min_size=1, max_size=3),
        with_file=st.booleans(),
        meanwhile=st.sampled_from(["nothing", "nothing", "file", "day", "estop", "policy", "died"]),
    )
    def go_the_usual_way(self, receiver, behaviours, with_file, meanwhile):
        """Propose, say yes, and perhaps something comes between the yes and the deed; then it is due, twice."""
        action_id = self.propose(receiver, behaviours, True, with_file, None, None)
        self.approve(action_id, True, None)
        self.read_it(action_id)
        if meanwhile == "file":
            self.change_the_file()
        elif meanwhile == "day":
            self.let_the_clock_jump(25 * 60)
        elif meanwhile == "estop":
            self.estop(True)
        elif meanwhile == "policy":
            self.change_policy(True)
        self.run_due("begun" if meanwhile == "died" else None)
        for _ in range(2):
            self.recover()
            self.let_the_clock_jump(1)
            self.run_due(None)
        self.execute_whatever(action_id, "as it was")
        if meanwhile in ("estop", "policy"):
            self.estop(False)
            self.change_policy(False)
        return action_id

    @rule()
    def recover(self):
        self._run(self.conveyor.recover())

    @rule()
    def two_recover_at_once(self):
        other = self.app.conveyor(self._asked)

        async def both():
            await asyncio.gather(self.conveyor.recover(), other.recover())

        self._run(both())
        other.close()

    @rule(action_id=actions, verdict=st.sampled_from(["executed", "not-executed", "retry"]))
    def resolve(self, action_id, verdict):
        action = self._load(action_id)
        if action.status != "UNKNOWN":
            with pytest.raises(UsageError):
                self._run(self.approvals.resolve(action, verdict, by="terminal"))
            return
        del self.ended[action_id]
        if verdict == "retry":
            key = action.idempotency_key
            self.retries[key] += 1
            bodies, _ = self.shown.get(key, (set(), None))
            self.shown[key] = (bodies, self.clock.now + timedelta(hours=24, seconds=1))
        self._run(self.approvals.resolve(action, verdict, by="terminal"))

    @rule(target=actions, action_id=actions)
    def repropose(self, action_id):
        action = self._load(action_id)
        if action.status not in ("REJECTED", "FAILED"):
            with pytest.raises(UsageError):
                self._run(self.approvals.repropose(action))
            return multiple()
        self.answer = Answer(approved=None)
        new = self._run(self.approvals.repropose(action))
        assert new.idempotency_key != action.idempotency_key
        assert new.call.args_bytes == action.call.args_bytes
        return new.action_id

    @rule(action_id=actions)
    def use_its_key_for_something_else(self, action_id):
        action = self._load(action_id)
        other = ToolCall.of("webhook_send", {"target": "neither", "payload": {"other": True}})
        with pytest.raises(Conflict):
            self._run(self.conveyor.intake.known(other, action.idempotency_key))
        assert self._run(self.conveyor.intake.known(action.call, action.idempotency_key)).action_id == action_id

    @rule(engaged=st.sampled_from([False, False, False, False, True]))
    def estop(self, engaged):
        self.app.estop.clear()
        if engaged:
            self.app.estop.engage("test", "now")

    @rule(denying=st.sampled_from([False, False, False, False, True]))
    def change_policy(self, denying):
        file = self.workspace / "policies" / "no.json"
        file.unlink(missing_ok=True)
        if denying:
            file.write_text(DENYING)
        self.denying = denying

    @rule()
    def change_the_file(self):
        (self.workspace / "out.txt").write_text(f"version {self.number} {self.clock.now}")

    @rule(minutes=st.sampled_from([1, 1, 1, 1, 5, 5, 60, 60, 23 * 60, 25 * 60, -10, -60, -26 * 60]))
    def let_the_clock_jump(self, minutes):
        self.clock.now += timedelta(minutes=minutes)

    @rule()
    def restart(self):
        self.app.close()
        self._open()

    # What must hold

    @invariant()
    def ends_stay(self):
        if not hasattr(self, "app"):
            return
        for action in list_actions(self.app.db.reader, None, 1000):
            if action.action_id in self.ended:
                assert action.status == self.ended[action.action_id]
            if action.status not in ("PENDING", "APPROVED"):
                self.ended[action.action_id] = action.status

    @invariant()
    def effects_are_as_many_as_were_agreed_to(self):
        if not hasattr(self, "app"):
            return
        counts = Counter(self.world.keys())
        targets = {a.idempotency_key: json.loads(a.call.args_bytes)["target"] for a in self._all()}
        for key, count in counts.items():
            assert count <= (1 if targets[key] == "deduplicates" else 1 + self.retries[key]), key

    @invariant()
    def rows_receipts_and_audit_agree(self):
        if not hasattr(self, "app"):
            return
        db = self.app.db.reader
        receipts, story = defaultdict(list), defaultdict(list)
        for action_id, line in db.execute("SELECT action_id, line FROM receipts ORDER BY seq"):
            receipts[action_id].append(json.loads(line)["status"])
        for entity, event in db.execute("SELECT entity_id, event_type FROM audit_log ORDER BY seq"):
            story[entity].append(event)
        effects = set(self.world.keys())
        for action in self._all():
            had, events = receipts[action.action_id], story[action.action_id]
            assert events[0] == "tool_requested"
            assert len(had) == sum(
                event in ("tool_completed", "tool_denied", "tool_failed", "tool_unknown") for event in events
            )
            if "tool_begun" in events:
                assert "tool_approved" in events[: events.index("tool_begun")]
            if action.status == "PENDING":
                assert not had
            elif action.status != "APPROVED":
                assert STATUS_OF[had[-1]] == action.status
            resolved = "tool_resolved" in events
            if action.idempotency_key in effects and not resolved:
                assert action.status in ("EXECUTED", "UNKNOWN", "APPROVED")
            if action.status == "EXECUTED" and not resolved:
                assert action.idempotency_key in effects

    def _all(self):
        return list_actions(self.app.db.reader, None, 1000)

    def teardown(self):
        if not hasattr(self, "app"):
            return
        app = self.app
        try:
            self._come_to_rest()
            self.rows_receipts_and_audit_agree()
            self.effects_are_as_many_as_were_agreed_to()
            report = verify_ledger(app.db.reader, app.config.receipts.path, app.signing_key)
            assert report.valid, report
        finally:
            app.close()
            self.loop.close()
            shutil.rmtree(self.folder)

    def _come_to_rest(self):
        """With time, without a stop or crashes, everything that was agreed to comes to an end."""
        self.app.estop.clear()
        self.change_policy(denying=False)
        for behaviours in self.world.behaviours.values():
            behaviours.clear()
        self.clock.now = max(self.clock.now, self.clock.latest)
        for _ in range(12):
            self._run(self.conveyor.recover())
            self._run(self.executor.run_due())
            self.clock.now += timedelta(seconds=30)
        left = [action for action in self._all() if action.status == "APPROVED"]
        assert not left, left


def _canonical(payload):
    from coilclaw.packets.canonical import canonical_bytes

    return canonical_bytes(payload)


TestLifecycle = pytest.mark.slow(Lifecycle.TestCase)
TestLifecycle.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
