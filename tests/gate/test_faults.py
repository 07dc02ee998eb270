"""Two hands on one action, clocks that jump, disks that fill, databases that refuse: each has its defined end."""
# ruff: noqa: F811 - fixtures are imported, then asked for by name

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.ledger.verify import verify_ledger
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import Conflict, StorageError
from coilclaw.runtime import Runtime
from coilclaw.store.actions import load_action
from coilclaw.store.database import storage_error
from tests.acceptance.conftest import bound_by_modes, empty, home, one_sentence, template  # noqa: F401 - fixtures
from tests.gate.test_executor import world  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parents[2]


class Crash(BaseException):
    """The process is gone at this very point."""


async def nobody(_):
    return Answer(approved=None)


@contextmanager
def another(w, reached=lambda _: None):
    """A second process's view of the same home: an App of its own, with its own connections and locks."""
    app = Runtime(w.home.home, w.home.app.config, w.home.environ, lambda *_: None, reached=reached)
    app.clock = w.home.app.clock
    app.open_box = lambda: w.home.box
    try:
        yield app
    finally:
        app.close()


async def approved(w, key="k1", **payload):
    action_id = await w.send(key=key, **payload)
    waiting = load_action(w.home.app.db.reader, action_id)
    return await w.home.app.approvals(w.home.conveyor()).approve(waiting, by="terminal", digest=waiting.digest)


async def leave_dead(w, action, point):
    """Somebody claims it and dies at that point: the lock is free, its file remains, the row is in nobody's care."""

    def reached(here):
        if here == point:
            raise Crash

    app = Runtime(w.home.home, w.home.app.config, w.home.environ, lambda *_: None, reached=reached)
    app.clock = w.home.app.clock
    conveyor = app.conveyor(nobody)
    with pytest.raises(Crash):
        await conveyor.execute(action)
    os.close(conveyor.records._held._fd)
    conveyor.records._held = None
    app.close()


def intact(w):
    app = w.home.app
    assert verify_ledger(app.db.reader, app.config.receipts.path, app.signing_key).valid
    assert app.db.reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# Two hands on one action


async def test_two_workers_on_one_action_do_it_once(world):
    with world(slow=0.2) as w, another(w) as other:
        action = await approved(w)
        counts = await asyncio.gather(w.run_due(), other.executor(other.conveyor(nobody)).run_due())
        assert sorted(counts) == [0, 1]
        assert w.received() == ["k1"]
        assert [r.status for r in w.home.receipts()] == ["allowed"]
        assert w.status(action.action_id) == "EXECUTED"
        intact(w)


async def test_a_worker_that_read_the_action_before_another_did_it_does_nothing(world):
    with world() as w, another(w) as other:
        action = await approved(w)
        conveyor = other.conveyor(nobody)
        stale = load_action(other.db.reader, action.action_id)
        assert await w.run_due() == 1
        assert await conveyor.execute(stale) is None
        assert w.received() == ["k1"]


async def test_a_worker_does_not_take_up_what_another_living_one_is_doing(world):
    with world(slow=0.3) as w, another(w) as other:
        action = await approved(w)
        running = asyncio.ensure_future(w.run_due())
        while load_action(other.db.reader, action.action_id).attempt == 0:
            await asyncio.sleep(0.01)
        w.wait(hours=2)  # however long it takes: a held lock is not a clock
        assert await other.conveyor(nobody).recover() == []
        assert await running == 1
        assert w.received() == ["k1"]


@pytest.mark.parametrize("dedup", [True, False])
async def test_two_that_recover_the_same_dead_action_write_one_receipt(world, dedup):
    with world(deduplicates=dedup) as w, another(w) as other:
        action = await approved(w)
        await leave_dead(w, action, "begun")
        both = await asyncio.gather(w.home.conveyor().recover(), other.conveyor(nobody).recover())
        assert sum(map(len, both)) == 1
        assert [r.status for r in w.home.receipts()] == ["unknown"]
        w.wait(minutes=1)
        await asyncio.gather(w.run_due(), other.executor(other.conveyor(nobody)).run_due())
        assert w.received() == (["k1"] if dedup else [])
        assert w.status(action.action_id) == ("EXECUTED" if dedup else "UNKNOWN")
        intact(w)


async def test_a_late_recovery_does_not_take_an_action_out_of_the_hands_that_have_it_now(world):
    """One who saw it left by the dead comes back when it was answered, claimed and is being done by somebody else."""
    with world() as w:
        turn = Turn("turn_1", "", "cli")
        conveyor = w.home.conveyor()
        action = conveyor.intake.propose(ToolCall.of("webhook_send", {"target": "door", "payload": {}}), turn, "k1")
        await w.home.app.db.write(lambda tx: conveyor.records.store(tx, action))
        os.close(conveyor.records._held._fd)  # whoever proposed it died
        conveyor.records._held = None
        (left,) = _held(w)
        await w.home.conveyor().recover()
        yes = await w.home.app.approvals(w.home.conveyor()).approve(
            load_action(w.home.app.db.reader, action.action_id), by="terminal", digest=action.digest
        )
        await leave_dead(w, yes, "begun")
        with pytest.raises(StorageError, match="claimed by another process"):
            await w.home.conveyor()._take_over(left)
        (held,) = _held(w)
        assert held.begun_at is not None
        assert len(await w.home.conveyor().recover()) == 1
        assert w.status(action.action_id) == "UNKNOWN"


def _held(w):
    from coilclaw.store.actions import held_actions

    return held_actions(w.home.app.db.reader)


async def test_a_no_that_comes_after_a_yes_changes_nothing(world):
    with world() as w:
        action_id = await w.send(text="hello")
        waiting = load_action(w.home.app.db.reader, action_id)
        approvals = w.home.app.approvals(w.home.conveyor())
        await approvals.approve(waiting, by="terminal", digest=waiting.digest)
        with pytest.raises(Conflict, match="APPROVED"):
            await approvals.reject(waiting, reason="second thoughts")
        assert await w.run_due() == 1
        with pytest.raises(Conflict, match="EXECUTED"):
            await approvals.reject(waiting, reason="third thoughts")
        assert w.received() == ["k1"]
        assert [r.status for r in w.home.receipts()] == ["allowed"]


async def test_a_yes_to_what_is_over_by_now_is_a_conflict(world):
    with world() as w:
        action_id = await w.send(text="hello")
        waiting = load_action(w.home.app.db.reader, action_id)
        approvals = w.home.app.approvals(w.home.conveyor())
        await approvals.reject(waiting, reason="no")
        with pytest.raises(Conflict, match="REJECTED"):
            await approvals.approve(waiting, by="terminal", digest="0" * 64)  # would end it as changed
        w.wait(hours=25)
        with pytest.raises(Conflict, match="REJECTED"):
            await approvals.approve(waiting, by="terminal", digest=waiting.digest)  # would end it as expired
        assert [r.status for r in w.home.receipts()] == ["denied"]


async def test_expiry_leaves_alone_what_was_answered_in_the_same_moment(world):
    with world() as w:
        action_id = await w.send(text="hello")
        w.wait(hours=25)
        executors = [w.home.app.executor(w.home.conveyor()) for _ in range(3)]
        assert sum(await asyncio.gather(*(each.expire() for each in executors))) == 1
        assert w.status(action_id) == "REJECTED"
        assert [r.code for r in w.home.receipts()] == ["EXPIRED"]


async def test_one_key_used_by_two_at_once_is_one_action(world):
    from coilclaw.cli.commands.tool import run_tool

    with world() as w, another(w) as other:
        call = ToolCall.of("webhook_send", {"target": "door", "payload": {"text": "a"}})
        both = await asyncio.gather(
            *(run_tool(app, call, yes=False, approve=nobody, key="mine") for app in (w.home.app, other))
        )
        assert len({outcome.action.action_id for outcome in both}) == 1
        assert w.home.statuses() == ["PENDING"]


@pytest.mark.parametrize("then", [[429, 429], [400]])
async def test_tries_that_fail_after_one_that_may_have_worked_end_unknown(world, then):
    with world(deduplicates=True) as w:
        action_id = await w.send(answers=[500, *then])
        await w.home.approve(action_id)
        for _ in range(3):
            w.wait(minutes=1)
            await w.run_due()
        assert w.received() == ["k1"]
        assert w.status(action_id) == "UNKNOWN"
        assert w.home.receipts()[-1].status == "unknown"


async def test_a_refusal_of_what_was_looked_up_and_not_there_is_a_failure(world):
    with world(lookup=True) as w:
        action = await approved(w, answers=[400])
        await leave_dead(w, action, "begun")
        await w.home.conveyor().recover()
        w.wait(minutes=1)
        await w.run_due()
        assert w.received() == []
        assert w.status(action.action_id) == "FAILED"


# ESTOP between the claim and the deed


class _StopsWhileKeeping:
    """Snapshots whose taking lasts long enough for the owner to press the button."""

    def __init__(self, estop):
        self._estop = estop

    def prepare(self, stopped):
        pass

    def fault(self, paths):
        return ""

    def take(self, note, stopped, turn):
        self._estop.engage("test", "now")
        return "snap_1"

    def settle(self, snapshot, paths):
        return []

    def held(self, paths):
        return {}

    def held_before(self, snapshot):
        return {}


async def test_estop_while_the_workspace_is_kept_holds_what_was_approved(sample):
    home = sample()
    home.owner.answer = Answer(approved=None)
    waiting = await home.call("shell", command="touch x")
    home.app.root.snapshots = _StopsWhileKeeping(home.app.estop)
    assert (await home.approve(waiting.action.action_id)).again
    assert home.statuses() == ["APPROVED"]
    assert home.box.specs == []
    home.app.estop.clear()
    home.app.root.snapshots.take = lambda note, stopped, turn: "snap_2"
    assert await home.app.executor(home.conveyor()).run_due() == 1
    assert home.statuses() == ["EXECUTED"]
    assert [(r.status, r.code) for r in home.receipts()] == [("failed", "ESTOP"), ("allowed", "APPROVED")]


# Clocks


async def test_a_clock_set_back_lets_an_approval_wait_longer_but_never_revives_it(world):
    with world() as w:
        first, second = await w.send(key="a"), await w.send(key="b")
        w.wait(hours=25)
        late = await w.home.approve(first)
        assert late.result.code == "EXPIRED"
        w.wait(hours=-24)
        assert w.status(first) == "REJECTED"
        assert (await w.home.approve(second)).result.success
        assert w.received() == ["b"]


async def test_a_clock_that_jumps_ahead_while_it_is_tried_again_ends_it(world):
    with world() as w:
        action_id = await w.send(answers=[429])
        await w.home.approve(action_id)
        w.wait(hours=25)
        await w.run_due()
        assert w.status(action_id) == "REJECTED"
        w.wait(hours=-25)
        w.wait(minutes=1)
        assert await w.run_due() == 0
        assert w.received() == []


async def test_time_between_two_tries_that_runs_backwards_loses_nothing(world):
    with world(lookup=True) as w:
        action_id = await w.send(answers=[500])
        await w.home.approve(action_id)
        w.wait(minutes=-4)
        assert await w.run_due() == 0
        w.wait(minutes=5)
        assert await w.run_due() == 1
        assert w.received() == ["k1"]
        assert w.status(action_id) == "EXECUTED"


async def test_receipts_and_audit_keep_their_order_when_the_clock_runs_backwards(world):
    with world() as w:
        for number in range(4):
            w.wait(hours=-1)
            await w.home.approve(await w.send(key=f"k{number}"))
        assert w.received() == [f"k{number}" for number in range(4)]
        intact(w)
        numbers = [row[0] for row in w.home.app.db.reader.execute("SELECT seq FROM audit_log ORDER BY rowid")]
        assert numbers == sorted(numbers)


async def test_what_expired_while_nothing_ran_is_expired_after_the_restart(world):
    with world() as w:
        waiting, agreed = await w.send(key="a"), await approved(w, key="b")
        w.wait(hours=25)
        with another(w) as app:
            executor = app.executor(app.conveyor(nobody))
            assert await executor.run_due() == 1
            assert await executor.expire() == 1
            for action_id in (waiting, agreed.action_id):
                stored = load_action(app.db.reader, action_id)
                assert (stored.status, stored.rejection_reason) == ("REJECTED", "expired")
        assert w.received() == []


# Disks and databases


@pytest.mark.slow
def test_a_disk_that_is_full_at_each_write_loses_nothing_and_does_nothing_twice(tmp_path):
    disk, folder = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    folder.mkdir()
    mounted = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'
    command = [sys.executable, "-m", "tests.torture.full_disk", str(disk), str(folder), "7"]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mounted, str(disk), *command],
        cwd=ROOT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tries = json.loads(done.stdout)
    assert len(tries) > 20
    assert tries[-1]["failures"] == []
    for each in tries:
        found = each["verdict"]
        assert [found[name] for name in ("lost", "duplicated", "unapproved", "disagreeing")] == [[], [], [], []], each
        assert each["variant"] == "neither" or not found["unknown"]
        for said in each["failures"]:
            assert "is full; nothing was changed. Free space, then retry." in said
    assert {each["verdict"]["effects"] for each in tries} >= {0, 1, 3, 4}


HOOK = '[webhooks.door]\nurl = "http://127.0.0.1:9/in"\n'


@pytest.mark.slow
def test_a_read_only_database_is_reported_and_nothing_happens(home):
    home.configure(HOOK)
    send = ("tool", "run", "webhook_send", "--json", '{"target": "door", "payload": {}}')
    assert home.run(*send).rc == 4
    (action_id,) = home.rows("SELECT action_id FROM proposed_actions")[0]
    before = home.rows("SELECT * FROM proposed_actions")
    (home.root / "memory.sqlite").chmod(0o400)
    for command in (send, ("approvals", "reject", action_id), ("tool", "run", "time")):
        one_sentence(home.run(*command, preexec_fn=bound_by_modes), 7, "memory.sqlite", "check the owner and mode")
    shown = home.run("approvals", "show", action_id, preexec_fn=bound_by_modes)
    assert (shown.rc, "webhook_send" in shown.out) == (0, True)
    assert home.rows("SELECT * FROM proposed_actions") == before
    (home.root / "memory.sqlite").chmod(0o600)
    assert home.run("approvals", "reject", action_id).rc == 0
    home.intact()


async def test_a_database_that_another_program_holds_for_a_while_is_waited_for(world):
    with world() as w:
        action = await approved(w)
        outsider = sqlite3.connect(w.home.app.config.memory.path, isolation_level=None, check_same_thread=False)
        outsider.execute("BEGIN IMMEDIATE")

        def let_go():
            time.sleep(0.3)
            outsider.execute("COMMIT")
            outsider.close()

        thread = threading.Thread(target=let_go)
        thread.start()
        assert await w.run_due() == 1
        thread.join()
        assert w.received() == ["k1"]
        assert w.status(action.action_id) == "EXECUTED"


def test_a_database_that_stays_locked_is_reported_with_what_to_do():
    error = storage_error(sqlite3.OperationalError("database is locked"), Path("memory.sqlite"))
    assert (error.exit_code, "held by another program" in str(error), "retry" in str(error)) == (7, True, True)


async def test_a_write_that_fails_leaves_the_action_to_whoever_comes_next(world):
    """The receiver has it, and then nothing can be written: the end is found out, not guessed."""
    with world(lookup=True) as w:
        action = await approved(w)

        def full(point):
            if point == "finishing":
                raise sqlite3.OperationalError("database or disk is full")

        with another(w, full) as app:
            with pytest.raises(StorageError, match="is full"):
                await app.conveyor(nobody).execute(action)
            assert w.received() == ["k1"]
            assert w.status(action.action_id) == "APPROVED"
            assert await w.home.conveyor().recover() == []  # its process lives, so it is not touched
        assert len(await w.home.conveyor().recover()) == 1
        w.wait(minutes=1)
        assert await w.run_due() == 1
        assert w.status(action.action_id) == "EXECUTED"
        assert w.received() == ["k1"]
        assert w.home.receipts()[-1].code == "LOOKED_UP"
