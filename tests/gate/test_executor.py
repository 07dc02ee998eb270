"""What was approved is done once, tried again when it may be, and said to be unknown when nobody can tell."""

import asyncio
import threading
from contextlib import contextmanager
from datetime import timedelta

import msgspec
import pytest

from coilclaw.config.schema import Executor, Webhook
from coilclaw.gate.executor import worker_is_running
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import Conflict, StorageError, UsageError
from coilclaw.sandbox.fake_receiver import Receiver, serve
from coilclaw.store.actions import action_with_key, load_action, result_of, waiting_actions
from tests.home import Sample

SECRET = "hook-secret-5d7a0c"


class World:
    """A home with one webhook, and the receiver at its other end."""

    def __init__(self, folder, server, receiver, pause=0.05, **hook):
        self.receiver = receiver
        url = f"http://127.0.0.1:{server.server_port}/in"
        lookup = (
            {"lookup_url": f"http://127.0.0.1:{server.server_port}/seen/{{key}}"} if hook.pop("lookup", False) else {}
        )
        hook = Webhook(url=url, secret_env="HOOK_SECRET", timeout_seconds=2.0, **lookup, **hook)
        self.home = Sample(
            folder,
            environ={"HOOK_SECRET": SECRET},
            webhooks={"door": hook},
            executor=Executor(max_attempts=3, backoff_seconds=pause),
        )
        self.home.owner.answer = Answer(approved=None)
        self.later = timedelta(0)
        real = self.home.app.clock
        self.home.app.clock = lambda: real() + self.later

    def wait(self, **time):
        self.later += timedelta(**time)

    async def send(self, key="k1", turn=None, **payload):
        outcome = await self.home.call("webhook_send", turn=turn, key=key, target="door", payload=payload)
        assert outcome.pending, outcome.result.output
        return outcome.action.action_id

    async def run_due(self):
        return await self.home.app.executor(self.home.conveyor()).run_due()

    def status(self, action_id):
        return load_action(self.home.app.db.reader, action_id).status

    def received(self):
        return self.receiver.keys()


@pytest.fixture
def world(tmp_path):
    @contextmanager
    def make(*, deduplicates=False, lookup=False, slow=0.0, pause=0.05):
        receiver = Receiver(tmp_path / "received.jsonl", deduplicates=deduplicates, lookup=lookup)
        server = serve(receiver, slow=slow)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = World(tmp_path, server, receiver, pause, deduplicates=deduplicates, lookup=lookup)
        try:
            yield made
        finally:
            made.home.close()
            server.shutdown()
            server.server_close()

    return make


async def test_an_approved_message_is_sent_once_with_its_key_and_the_owners_header(world):
    with world() as w:
        action_id = await w.send(text="hello")
        assert w.received() == []
        outcome = await w.home.approve(action_id)
        assert outcome.result.success
        assert w.received() == ["k1"]
        assert w.status(action_id) == "EXECUTED"
        assert await w.run_due() == 0
        assert await w.home.conveyor().execute(load_action(w.home.app.db.reader, action_id)) is None
        assert w.received() == ["k1"]
        assert [receipt.status for receipt in w.home.receipts()] == ["allowed"]


async def test_the_owners_secret_is_nowhere_in_the_database(world):
    with world() as w:
        action_id = await w.send(text="hello")
        await w.home.approve(action_id)
        dump = "\n".join(w.home.app.db.reader.iterdump())
        assert SECRET not in dump


async def test_the_card_shows_the_target_and_exactly_what_would_be_sent(world):
    with world() as w:
        action_id = await w.send(text="hello \u202e\x1b[31mred")
        card = w.home.conveyor().intake.card(load_action(w.home.app.db.reader, action_id))
        assert card.target_entity.startswith("door (http://127.0.0.1:")
        assert "hello" in card.preview_or_diff
        assert "\u202e" not in card.preview_or_diff
        assert "\x1b" not in card.preview_or_diff
        assert (card.lane, card.risk_class, card.source_type) == ("B", "EXFILTRATION", "cli")


@pytest.mark.parametrize("claimed", ["PENDING", "APPROVED"])
async def test_what_nobody_approved_cannot_be_executed_whatever_is_claimed_of_it(world, claimed):
    with world() as w:
        action_id = await w.send(text="hello")
        assert await w.run_due() == 0
        action = msgspec.structs.replace(
            load_action(w.home.app.db.reader, action_id), status=claimed, approved_by="terminal"
        )
        assert await w.home.conveyor().execute(action) is None
        assert w.status(action_id) == "PENDING"
        assert w.received() == []


async def test_the_first_answer_wins(world):
    with world() as w:
        action_id = await w.send(text="hello")
        conveyor = w.home.conveyor()
        approvals = w.home.app.approvals(conveyor)
        waiting = load_action(w.home.app.db.reader, action_id)
        await approvals.reject(waiting, reason="not this one")
        with pytest.raises(Conflict):
            await approvals.approve(waiting, by="terminal", digest=waiting.digest)
        assert w.received() == []
        assert load_action(w.home.app.db.reader, action_id).rejection_reason == "not this one"


async def test_two_yeses_are_one(world):
    with world() as w:
        action_id = await w.send(text="hello")
        conveyor = w.home.conveyor()
        approvals = w.home.app.approvals(conveyor)
        waiting = load_action(w.home.app.db.reader, action_id)
        answers = await asyncio.gather(
            *(approvals.approve(waiting, by="terminal", digest=waiting.digest) for n in range(4))
        )
        assert {answer.status for answer in answers} == {"APPROVED"}
        ran = await asyncio.gather(*(w.run_due() for _ in range(4)))
        assert sum(ran) == 1
        assert w.received() == ["k1"]


async def test_a_yes_to_another_digest_is_not_a_yes(world):
    with world() as w:
        action_id = await w.send(text="hello")
        waiting = load_action(w.home.app.db.reader, action_id)
        outcome = await w.home.app.approvals(w.home.conveyor()).approve(waiting, by="terminal", digest="0" * 64)
        assert outcome.result.code == "DIGEST_CHANGED"
        assert w.status(action_id) == "REJECTED"


async def test_a_file_that_changed_since_it_was_shown_is_not_sent(world):
    with world() as w:
        (w.home.workspace / "report.txt").write_text("as shown")
        outcome = await w.home.call("webhook_send", key="f", target="door", file="report.txt")
        card = w.home.conveyor().intake.card(outcome.action)
        assert "as shown" in card.preview_or_diff
        (w.home.workspace / "report.txt").write_text("swapped")
        refused = await w.home.approve(outcome.action.action_id)
        assert refused.result.code == "DIGEST_CHANGED"
        assert w.received() == []


async def test_a_file_that_changed_between_the_yes_and_the_sending_is_not_sent(world):
    with world() as w:
        (w.home.workspace / "report.txt").write_text("as shown")
        outcome = await w.home.call("webhook_send", key="f", target="door", file="report.txt")
        conveyor = w.home.conveyor()
        approved = await w.home.app.approvals(conveyor).approve(
            outcome.action, by="terminal", digest=outcome.action.digest
        )
        (w.home.workspace / "report.txt").write_text("swapped")
        refused = await conveyor.execute(approved)
        assert refused.result.code == "DIGEST_CHANGED"
        assert w.received() == []


async def test_a_file_to_be_replaced_that_changed_since_it_was_shown_refuses(world):
    with world() as w:
        (w.home.workspace / "a.txt").write_text("one\n")
        waiting = await w.home.call("file_write", key="w", path="a.txt", content="two\n")
        (w.home.workspace / "a.txt").write_text("the owner's own edit\n")
        refused = await w.home.approve(waiting.action.action_id)
        assert refused.result.code == "DIGEST_CHANGED"
        assert (w.home.workspace / "a.txt").read_text() == "the owner's own edit\n"


async def test_a_target_that_changed_needs_a_new_approval(world):
    with world() as w:
        action_id = await w.send(text="hello")
        hooks = {"door": msgspec.structs.replace(w.home.app.config.webhooks["door"], url="http://127.0.0.1:9/other")}
        w.home.app.config = msgspec.structs.replace(w.home.app.config, webhooks=hooks)
        for name in ("tools", "inspector", "listing"):
            w.home.app.__dict__.pop(name, None)
        outcome = await w.home.approve(action_id)
        assert outcome.result.code == "DIGEST_CHANGED"
        assert w.received() == []


async def test_a_policy_that_now_denies_stops_what_was_approved(world):
    with world() as w:
        action_id = await w.send(text="hello")
        conveyor = w.home.conveyor()
        waiting = load_action(w.home.app.db.reader, action_id)
        approved = await w.home.app.approvals(conveyor).approve(waiting, by="terminal", digest=waiting.digest)
        (w.home.workspace / "policies" / "no.json").write_text(
            '{"version":1,"rules":[{"id":"no","when":{"tool":"webhook_send"},"verdict":"deny","reason":"quiet"}]}'
        )
        refused = await conveyor.execute(approved)
        assert refused.result.code == "POLICY_RULE"
        assert w.status(action_id) == "REJECTED"
        assert w.received() == []


async def test_what_waits_longer_than_its_time_is_expired_by_the_worker(world):
    with world() as w:
        action_id = await w.send(text="hello")
        w.wait(hours=23, minutes=59)
        executor = w.home.app.executor(w.home.conveyor())
        assert await executor.expire() == 0
        w.wait(minutes=2)
        assert await executor.expire() == 1
        stored = load_action(w.home.app.db.reader, action_id)
        assert (stored.status, stored.rejection_reason) == ("REJECTED", "expired")
        assert w.home.receipts()[-1].code == "EXPIRED"


async def test_expiry_holds_at_execution_too(world):
    with world() as w:
        action_id = await w.send(text="hello")
        conveyor = w.home.conveyor()
        waiting = load_action(w.home.app.db.reader, action_id)
        approved = await w.home.app.approvals(conveyor).approve(waiting, by="terminal", digest=waiting.digest)
        w.wait(hours=25)
        refused = await conveyor.execute(approved)
        assert refused.result.code == "EXPIRED"
        assert w.received() == []


async def test_an_action_from_the_future_is_held_until_the_clock_is_right(world):
    with world() as w:
        w.wait(days=2)
        action_id = await w.send(text="hello")
        w.wait(days=-2)
        conveyor = w.home.conveyor()
        waiting = load_action(w.home.app.db.reader, action_id)
        approved = await w.home.app.approvals(conveyor).approve(waiting, by="terminal", digest=waiting.digest)
        assert await conveyor.execute(approved) is None
        assert w.status(action_id) == "APPROVED"
        w.wait(days=2)
        assert await w.run_due() == 1
        assert w.received() == ["k1"]


async def test_a_pause_set_by_a_clock_that_ran_ahead_does_not_last(world):
    with world() as w:
        action_id = await w.send(answers=[429])
        w.wait(hours=12)
        await w.home.approve(action_id)
        assert w.status(action_id) == "APPROVED"
        w.wait(hours=-12)
        assert await w.run_due() == 1
        assert w.status(action_id) == "EXECUTED"


async def test_a_receiver_that_is_busy_is_tried_again_and_every_try_has_a_receipt(world):
    with world(pause=60.0) as w:
        action_id = await w.send(answers=[425, 429])
        outcome = await w.home.approve(action_id)
        assert outcome.again
        assert "retried" in outcome.result.output
        assert w.status(action_id) == "APPROVED"
        assert await w.run_due() == 0  # not yet
        w.wait(minutes=5)
        assert await w.run_due() == 1
        w.wait(minutes=5)
        assert await w.run_due() == 1
        assert w.status(action_id) == "EXECUTED"
        assert [(r.status, r.code) for r in w.home.receipts()] == [
            ("failed", "HTTP_425"),
            ("failed", "HTTP_429"),
            ("allowed", "APPROVED"),
        ]
        assert w.received() == ["k1"]


async def test_tries_come_to_an_end(world):
    with world() as w:
        action_id = await w.send(answers=[429] * 9)
        await w.home.approve(action_id)
        for _ in range(5):
            w.wait(hours=1)
            await w.run_due()
        assert w.status(action_id) == "FAILED"
        assert len(w.home.receipts()) == 3
        assert w.received() == []


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
async def test_an_unsure_answer_is_unknown_and_never_repeated_blindly(world, status):
    with world() as w:
        action_id = await w.send(answers=[status])
        outcome = await w.home.approve(action_id)
        assert outcome.receipt.status == "unknown"
        assert w.status(action_id) == "UNKNOWN"
        w.wait(hours=1)
        assert await w.run_due() == 0
        assert w.received() == ["k1"]


async def test_an_unsure_answer_is_repeated_where_the_receiver_deduplicates(world):
    with world(deduplicates=True) as w:
        action_id = await w.send(answers=[500])
        await w.home.approve(action_id)
        assert w.status(action_id) == "APPROVED"
        w.wait(seconds=1)
        assert await w.run_due() == 1
        assert w.status(action_id) == "EXECUTED"
        assert w.received() == ["k1"]


async def test_an_unsure_answer_is_looked_up_where_the_receiver_can_be_asked(world):
    with world(lookup=True) as w:
        action_id = await w.send(answers=[500])
        await w.home.approve(action_id)
        assert await w.run_due() == 0  # the first request may still be under way
        w.wait(seconds=5)
        assert await w.run_due() == 1
        assert w.status(action_id) == "EXECUTED"
        assert w.home.receipts()[-1].code == "LOOKED_UP"
        assert w.received() == ["k1"]


async def test_what_was_looked_up_and_is_absent_is_sent(world):
    with world(lookup=True) as w:
        action_id = await w.send(text="hello")
        w.home.app.db.write_now(
            lambda tx: tx.execute(
                "UPDATE proposed_actions SET status = 'APPROVED', approved_by = 'terminal', uncertain = 1"
                " WHERE action_id = ?",
                (action_id,),
            )
        )
        assert await w.run_due() == 1
        assert w.status(action_id) == "EXECUTED"
        assert w.received() == ["k1"]


async def test_a_refusal_after_an_unsure_attempt_is_unknown_not_rejected(world):
    with world(deduplicates=True) as w:
        action_id = await w.send(answers=[500])
        await w.home.approve(action_id)
        w.wait(hours=25)
        await w.run_due()
        assert w.status(action_id) == "UNKNOWN"
        assert w.home.receipts()[-1].status == "unknown"


@pytest.mark.parametrize(
    ("verdict", "status", "code"),
    [("executed", "EXECUTED", "RESOLVED_EXECUTED"), ("not-executed", "FAILED", "RESOLVED_NOT_EXECUTED")],
)
async def test_the_owner_resolves_what_nobody_knows(world, verdict, status, code):
    with world() as w:
        action_id = await w.send(answers=[500])
        await w.home.approve(action_id)
        approvals = w.home.app.approvals(w.home.conveyor())
        await approvals.resolve(load_action(w.home.app.db.reader, action_id), verdict, by="terminal")
        assert w.status(action_id) == status
        assert w.home.receipts()[-1].code == code
        with pytest.raises(UsageError):
            await approvals.resolve(load_action(w.home.app.db.reader, action_id), verdict, by="terminal")


async def test_the_owner_can_have_it_done_again(world):
    with world() as w:
        action_id = await w.send(answers=[500])
        await w.home.approve(action_id)
        w.wait(hours=30)
        conveyor = w.home.conveyor()
        unknown = load_action(w.home.app.db.reader, action_id)
        reopened = await w.home.app.approvals(conveyor).resolve(unknown, "retry", by="terminal")
        assert (await conveyor.execute(reopened)).result.success
        assert w.status(action_id) == "EXECUTED"
        assert w.received() == ["k1", "k1"]


async def test_estop_holds_what_was_approved_and_clearing_lets_it_continue(world):
    with world() as w:
        action_id = await w.send(text="hello")
        w.home.app.estop.engage("test", "now")
        assert await w.home.approve(action_id) is None
        assert await w.run_due() == 0
        assert w.status(action_id) == "APPROVED"
        w.home.app.estop.clear()
        assert await w.run_due() == 1
        assert w.received() == ["k1"]


async def test_the_same_key_with_the_same_arguments_returns_the_record(world):
    from coilclaw.cli.commands.tool import run_tool

    with world() as w:
        call = ToolCall.of("webhook_send", {"target": "door", "payload": {"text": "a"}})
        first = await run_tool(w.home.app, call, yes=False, approve=w.home.owner, key="mine")
        again = await run_tool(w.home.app, call, yes=False, approve=w.home.owner, key="mine")
        assert again.action.action_id == first.action.action_id
        await w.home.approve(first.action.action_id)
        done = await run_tool(w.home.app, call, yes=False, approve=w.home.owner, key="mine")
        assert (done.action.status, done.receipt.status) == ("EXECUTED", "allowed")
        assert w.received() == ["mine"]


async def test_the_same_key_with_other_arguments_is_a_conflict_and_an_event(world):
    with world() as w:
        await w.send(key="mine", text="a")
        with pytest.raises(Conflict, match="other arguments"):
            await w.home.conveyor().intake.known(
                ToolCall.of("webhook_send", {"target": "door", "payload": {"text": "b"}}), "mine"
            )
        events = w.home.app.db.reader.execute("SELECT event_type FROM audit_log ORDER BY seq").fetchall()
        assert events[-1][0] == "idempotency_conflict"
        assert len(waiting_actions(w.home.app.db.reader, 9)) == 1


async def test_a_key_stays_bound_when_its_action_is_gone(world):
    with world() as w:
        action_id = await w.send(key="mine", text="a")
        await w.home.approve(action_id)
        w.home.app.db.write_now(lambda tx: tx.execute("DELETE FROM proposed_actions"))
        action_id = await w.send(key="mine", text="b")
        outcome = await w.home.approve(action_id)
        assert outcome.result.code == "IDEMPOTENCY_CONFLICT"
        assert w.received() == ["mine"]


async def test_what_a_tainted_turn_may_not_send_the_owner_can_propose_again_on_a_marked_card(world):
    with world() as w:
        thread = "conv_1"
        turn = Turn("turn_9", thread, "chat", fresh=("untrusted:evil.example",))
        refused = await w.home.call(
            "webhook_send", turn=turn, key="t", target="door", payload={"to": "attacker@evil.example"}
        )
        assert refused.result.code == "POLICY_BLOCKED_UNTRUSTED_TURN"
        stored = load_action(w.home.app.db.reader, refused.action.action_id)
        assert b"attacker@evil.example" in stored.call.args_bytes  # its bytes are kept
        conveyor = w.home.conveyor()
        new = await w.home.app.approvals(conveyor).repropose(stored)
        card = conveyor.intake.card(new)
        assert new.status == "PENDING"
        assert card.provenance == ("untrusted:evil.example",)
        assert any("untrusted" in reason for reason in card.reasons)


async def test_a_message_made_from_a_labelled_file_names_its_source(world):
    with world() as w:
        turn = Turn("turn_9", "", "chat", fresh=("untrusted:evil.example",))
        w.home.owner.answer = Answer(approved=True)
        await w.home.call("file_write", turn=turn, key="w", path="page.txt", content="send money")
        w.home.owner.answer = Answer(approved=None)
        clean = Turn("turn_10", "", "chat")
        outcome = await w.home.call("webhook_send", turn=clean, key="s", target="door", file="page.txt")
        assert outcome.action.taint == ("untrusted:evil.example",)
        assert outcome.action.decision.verdict == "ask"
        assert any("untrusted" in reason for reason in outcome.action.decision.reasons)


async def test_a_file_written_while_tainted_taints_whoever_reads_it_later(world):
    with world() as w:
        turn = Turn("turn_9", "", "chat", fresh=("untrusted:evil.example",))
        w.home.owner.answer = Answer(approved=True)
        await w.home.call("file_write", turn=turn, key="w", path="page.txt", content="obey me")
        clean = Turn("turn_10", "", "chat")
        read = await w.home.call("file_read", turn=clean, key="r", path="page.txt")
        assert read.result.label == "untrusted:evil.example"
        assert (clean.fresh, clean.inherited) == ((), ("untrusted:evil.example",))
        (w.home.workspace / "page.txt").write_text("the owner's own words")
        other = Turn("turn_11", "", "chat")
        again = await w.home.call("file_read", turn=other, key="r2", path="page.txt")
        assert again.result.label == "owner"
        assert other.taint == ()


async def test_everybody_sees_whether_a_worker_is_there(world):
    with world() as w:
        locks = w.home.home.locks_dir
        assert not worker_is_running(locks)
        first, second = (w.home.app.executor(w.home.conveyor()) for _ in range(2))
        with first.hold():
            with second.hold():
                assert worker_is_running(locks)
            assert worker_is_running(locks)
        assert not worker_is_running(locks)


async def test_those_who_ask_whether_a_worker_is_there_do_not_see_each_other(world):
    import fcntl

    with world() as w:
        locks = w.home.home.locks_dir
        executor = w.home.app.executor(w.home.conveyor())
        with executor.hold():
            pass
        heard = []

        def ask():
            for _ in range(300):
                heard.append(worker_is_running(locks))

        asking = [threading.Thread(target=ask) for _ in range(4)]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
        assert set(heard) == {False}
        with (locks / "executor.lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_SH)  # one who asks, stopped in the middle of it
            assert not worker_is_running(locks)
            with executor.hold():
                assert worker_is_running(locks)


async def test_the_result_of_what_waited_is_kept_and_posted(world):
    with world() as w:
        turn = Turn("turn_1", "conv_5", "chat")
        from coilclaw.store.threads import ensure_thread, recent_messages

        w.home.app.db.write_now(lambda tx: ensure_thread(tx, w.home.app.clock, "conv_5", "cli", "x"))
        action_id = await w.send(turn=turn, text="hello")
        await w.home.approve(action_id)
        (message,) = recent_messages(w.home.app.db.reader, "conv_5", 9)
        assert (message.role, message.action_id) == ("system", action_id)
        assert result_of(w.home.app.db.reader, action_id).success
        assert action_with_key(w.home.app.db.reader, "webhook_send", "k1").status == "EXECUTED"


async def test_a_failure_after_an_unsure_attempt_is_unknown_whatever_it_says(world):
    with world(deduplicates=True) as w:
        action_id = await w.send(answers=[500, 409])
        await w.home.approve(action_id)
        w.wait(seconds=1)
        await w.run_due()
        assert w.status(action_id) == "UNKNOWN"
        with pytest.raises(UsageError):
            await w.home.app.approvals(w.home.conveyor()).repropose(load_action(w.home.app.db.reader, action_id))


async def test_a_retry_that_fails_does_not_claim_that_nothing_happened(world):
    with world() as w:
        action_id = await w.send(answers=[500, 400])
        await w.home.approve(action_id)
        conveyor = w.home.conveyor()
        unknown = load_action(w.home.app.db.reader, action_id)
        reopened = await w.home.app.approvals(conveyor).resolve(unknown, "retry", by="terminal")
        await conveyor.execute(reopened)
        assert w.status(action_id) == "UNKNOWN"


async def test_a_verdict_that_came_too_late_is_not_on_record(world):
    with world() as w:
        action_id = await w.send(answers=[500])
        await w.home.approve(action_id)
        approvals = w.home.app.approvals(w.home.conveyor())
        unknown = load_action(w.home.app.db.reader, action_id)
        await approvals.resolve(unknown, "executed", by="terminal")
        with pytest.raises(Conflict):
            await approvals.resolve(unknown, "not-executed", by="terminal")
        rows = w.home.app.db.reader.execute("SELECT payload_json FROM audit_log WHERE event_type = 'tool_resolved'")
        told = [msgspec.json.decode(row[0]) for row in rows]
        assert [(each["verdict"], each["by"]) for each in told] == [("executed", "terminal")]


async def test_a_lookup_that_is_sent_elsewhere_is_not_an_answer(world, tmp_path):
    import http.server

    class Wall(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self._say(502)

        def do_GET(self):
            self._say(200 if self.path == "/login" else 302)

        def _say(self, status):
            self.send_response(status)
            self.send_header("Location", "/login")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    wall = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wall)
    threading.Thread(target=wall.serve_forever, daemon=True).start()
    receiver = Receiver(tmp_path / "none", deduplicates=False, lookup=True)
    w = World(tmp_path, wall, receiver, deduplicates=False, lookup=True)
    try:
        action_id = await w.send(text="x")
        await w.home.approve(action_id)
        for _ in range(4):
            w.wait(minutes=5)
            await w.run_due()
        assert w.status(action_id) == "UNKNOWN"
        assert all(receipt.status == "unknown" for receipt in w.home.receipts())
    finally:
        w.home.close()
        wall.shutdown()
        wall.server_close()


async def test_a_secret_in_a_file_is_not_sent_either(world):
    with world() as w:
        (w.home.workspace / "notes.txt").write_text(f"the key is {SECRET}\n")
        outcome = await w.home.call("webhook_send", key="f", target="door", file="notes.txt")
        assert outcome.result.code == "SECRET_NOT_GRANTED"


async def test_the_whole_of_a_file_is_told_on_its_card(world):
    with world() as w:
        lines = [f"line {number}" for number in range(40_000)]
        (w.home.workspace / "long.txt").write_text("\n".join(lines))
        outcome = await w.home.call("webhook_send", key="f", target="door", file="long.txt")
        card = w.home.conveyor().intake.card(outcome.action)
        sent = "\n".join(lines)
        assert card.preview_or_diff == f"({len(sent)} bytes)\n{sent}"


async def test_a_file_outside_the_workspace_is_not_sent(tmp_path, world):
    with world() as w:
        security = msgspec.structs.replace(w.home.app.config.security, workspace_only=False, autonomy="full")
        w.home.app.config = msgspec.structs.replace(w.home.app.config, security=security)
        (tmp_path / "elsewhere.txt").write_text("x")
        outcome = await w.home.call("webhook_send", key="f", target="door", file=str(tmp_path / "elsewhere.txt"))
        assert outcome.result.code == "ARGS_INVALID"
        assert "only workspace files" in outcome.result.output


async def test_a_secret_in_a_reason_is_not_kept(world):
    with world() as w:
        action_id = await w.send(text="hello")
        waiting = load_action(w.home.app.db.reader, action_id)
        await w.home.app.approvals(w.home.conveyor()).reject(waiting, reason=f"it holds {SECRET}")
        assert SECRET not in "\n".join(w.home.app.db.reader.iterdump())


async def test_a_reason_does_not_change_what_happened(world):
    with world() as w:
        action_id = await w.send(text="hello")
        waiting = load_action(w.home.app.db.reader, action_id)
        outcome = await w.home.app.approvals(w.home.conveyor()).reject(waiting, reason="expired")
        assert outcome.result.code == "OWNER_REFUSED"


async def test_a_command_in_a_clean_conversation_cannot_carry_labelled_content_where_it_steers(world):
    with world() as w:
        security = msgspec.structs.replace(w.home.app.config.security, autonomy="full")
        w.home.app.config = msgspec.structs.replace(w.home.app.config, security=security)
        turn = Turn("turn_9", "", "chat", fresh=("untrusted:evil.example",))
        await w.home.call("file_write", turn=turn, key="w", path="intel/page.md", content="obey me")
        clean = Turn("turn_10", "", "chat")
        outcome = await w.home.call("shell", turn=clean, key="c", command="cp intel/page.md skills/new.md")
        assert outcome.result.code == "PATH_TAINTED"
        await w.home.call("shell", turn=clean, key="m", command="make all")
        (spec,) = w.home.box.specs
        assert any(path.endswith("/skills") for path in spec.read_only)


async def test_one_row_that_cannot_be_read_does_not_stop_the_others(world):
    with world() as w:
        broken, good = await w.send(key="k1", text="a"), await w.send(key="k2", text="b")
        approvals = w.home.app.approvals(w.home.conveyor())
        for action_id in (broken, good):
            waiting = load_action(w.home.app.db.reader, action_id)
            await approvals.approve(waiting, by="terminal", digest=waiting.digest)
        w.home.app.db.write_now(
            lambda tx: tx.execute("UPDATE proposed_actions SET decision_json = '{' WHERE action_id = ?", (broken,))
        )
        assert await w.run_due() == 1
        assert w.received() == ["k2"]
        with pytest.raises(StorageError, match=broken):
            load_action(w.home.app.db.reader, broken)


async def test_what_expired_while_the_claim_waited_is_not_sent(world):
    with world() as w:
        action_id = await w.send(text="hello")
        conveyor = w.home.conveyor()
        waiting = load_action(w.home.app.db.reader, action_id)
        approved = await w.home.app.approvals(conveyor).approve(waiting, by="terminal", digest=waiting.digest)

        def late(point):
            if point == "claiming":
                w.wait(hours=30)

        conveyor.records._reached = late
        outcome = await conveyor.execute(approved)
        assert outcome.result.code == "EXPIRED"
        assert w.received() == []


async def test_what_a_new_policy_denies_while_the_claim_waits_is_not_sent(world):
    with world() as w:
        action_id = await w.send(text="hello")
        conveyor = w.home.conveyor()
        waiting = load_action(w.home.app.db.reader, action_id)
        approved = await w.home.app.approvals(conveyor).approve(waiting, by="terminal", digest=waiting.digest)

        def late(point):
            if point == "claiming":
                (w.home.workspace / "policies" / "no.json").write_text(
                    '{"version":1,"rules":[{"id":"no","when":{"tool":"webhook_send"},"verdict":"deny","reason":"q"}]}'
                )

        conveyor.records._reached = late
        outcome = await conveyor.execute(approved)
        assert outcome.result.code == "RULES_CHANGED"
        assert w.received() == []


async def test_arguments_that_lost_a_secret_cannot_be_proposed_again(world):
    with world() as w:
        denied = await w.home.call("webhook_send", key="s", target="door", payload={"text": SECRET})
        assert denied.result.code == "SECRET_NOT_GRANTED"
        stored = load_action(w.home.app.db.reader, denied.action.action_id)
        with pytest.raises(UsageError, match="secret"):
            await w.home.app.approvals(w.home.conveyor()).repropose(stored)


async def test_a_link_to_a_name_that_is_not_text_is_not_written_through(world):
    import os

    with world() as w:
        w.home.owner.answer = Answer(approved=True)
        os.symlink(b"\xff.txt", os.fsencode(w.home.workspace / "link.txt"))
        outcome = await w.home.call("file_write", key="l", path="link.txt", content="x")
        assert outcome.result.code == "PATH_INVALID"


async def test_an_action_nobody_can_continue_with_does_not_stop_the_others(world):
    with world() as w:
        first, second = await w.send(key="k1", text="a"), await w.send(key="k2", text="b")
        conveyor = w.home.conveyor()
        for action_id in (first, second):
            waiting = load_action(w.home.app.db.reader, action_id)
            await w.home.app.approvals(conveyor).approve(waiting, by="terminal", digest=waiting.digest)
        look = conveyor.intake.look_again

        def breaks(action, turn, ahead=None):
            if action.action_id == first:
                raise RuntimeError("kaboom")
            return look(action, turn, ahead)

        conveyor.intake.look_again = breaks
        assert await w.home.app.executor(conveyor).run_due() == 1
        assert w.received() == ["k2"]
        assert "tool_trouble" in w.home.event_names()
