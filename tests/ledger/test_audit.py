"""Audit events are read in their order and followed without loss; an action's story is told from stored data alone."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coilclaw.ledger.audit import Follower, Wanted, add_event, events_after, last_events, last_number
from coilclaw.ledger.chain import append_receipt
from coilclaw.ledger.story import attempts_in, story_of
from coilclaw.packets.action import ToolResult
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import LedgerBroken
from coilclaw.store.actions import add_action, finish_action
from coilclaw.store.threads import MessageRow, add_message, ensure_owner, ensure_thread
from tests.ledger.test_ledger import action


def note(db, clock, kind="thing", entity="e", **payload):
    db.write_now(lambda tx: add_event(tx, clock, kind, entity, payload))


def numbers(events):
    return [event.seq for event in events]


def test_events_are_listed_in_order_and_by_type_and_entity(db, clock):
    for number in range(6):
        note(db, clock, kind="odd" if number % 2 else "even", entity=f"e{number % 3}", n=number)
    every = Wanted()
    assert numbers(last_events(db.reader, every, 3)) == [4, 5, 6]
    assert numbers(events_after(db.reader, every, 2, 2)) == [3, 4]
    assert numbers(last_events(db.reader, Wanted(event_type="odd"), 10)) == [2, 4, 6]
    assert numbers(events_after(db.reader, Wanted(entity_id="e1"), 2, 10)) == [5]
    assert numbers(last_events(db.reader, Wanted(event_type="odd", entity_id="e1"), 10)) == [2]
    assert last_events(db.reader, every, 1)[0].payload == {"n": 5}


def test_an_entitys_events_are_found_by_their_index(db):
    for query in ("seq > 0 AND entity_id = ? ORDER BY seq DESC", "seq > 0 AND seq <= 9 AND entity_id = ? ORDER BY seq"):
        (plan,) = db.reader.execute(f"EXPLAIN QUERY PLAN SELECT * FROM audit_log WHERE {query} LIMIT 5", ("e",))
        assert "USING INDEX audit_entity" in plan[3]


def test_a_payload_that_is_not_json_is_shown_as_it_stands(db, clock):
    db.write_now(
        lambda tx: tx.execute(
            "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at)"
            " VALUES ('x', 't', 'e', '{broken', '')"
        )
    )
    assert last_events(db.reader, Wanted(), 1)[0].payload == "{broken"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(st.sampled_from(["write", "other", "prune", "look"]), max_size=30))
def test_a_follower_sees_every_event_once_in_order_whatever_is_pruned(db, clock, steps):
    start = last_number(db.reader)
    follower = Follower(db.reader, Wanted(event_type="wanted"), start)
    seen, missed = [], []
    unseen = []
    for step in (*steps, "look"):
        if step == "look":
            seen += numbers(follower.next())
            unseen = []
        elif step == "prune":
            db.write_now(lambda tx: tx.execute("DELETE FROM audit_log"))
            missed += unseen
            unseen = []
        else:
            note(db, clock, kind="wanted" if step == "write" else "other")
            if step == "write":
                unseen.append(last_number(db.reader))
    assert seen == sorted(set(seen))
    assert len(seen) + len(missed) == steps.count("write")
    assert last_number(db.reader) == start + steps.count("write") + steps.count("other")


def test_a_follower_pages_through_a_long_past(db, clock):
    def many(tx):
        for number in range(1200):
            add_event(tx, clock, "thing", "e", {"n": number})

    db.write_now(many)
    follower = Follower(db.reader, Wanted(), 0)
    pages = [numbers(follower.next()) for _ in range(4)]
    assert [len(page) for page in pages] == [500, 500, 200, 0]
    assert [number for page in pages for number in page] == list(range(1, 1201))


# The story of an action


OUTPUT = "line 1\nline 2\n" + "x" * 5000


def stored_action(db, clock, *, status="EXECUTED", receipt="allowed"):
    """An action with its message, approval, two attempts, result and receipts, as the conveyor leaves them."""
    made = msgspec.structs.replace(action(1, "shell"), created_at="2026-03-01T12:00:00.000Z", approved_by="terminal")
    result = ToolResult(success=True, output=OUTPUT, metadata={"tier": "A", "end": "exited"}, exit=0)

    def event(tx, kind, **payload):
        add_event(tx, clock, kind, made.action_id, payload)

    def write(tx):
        ensure_owner(tx, clock)
        ensure_thread(tx, clock, "conv", "cli", "t")
        for turn, text in (("other", "not this"), ("turn", "please do it")):
            add_message(
                tx,
                clock,
                MessageRow(
                    message_id=f"m-{turn}", thread_id="conv", turn_id=turn, role="user", content=text, label="owner"
                ),
            )
        add_action(tx, clock, made, "worker_1")
        event(tx, "tool_requested")
        event(tx, "approval_needed")
        event(tx, "tool_approved", by="terminal")
        event(tx, "tool_begun", attempt=1, worker="worker_1", lookup=False)
        first = append_receipt(tx, clock, made, "failed", code="TRY_LATER", result_hash="0" * 64)
        event(tx, "tool_retry", in_seconds=5.0)
        event(tx, "tool_failed", code="TRY_LATER", receipt_id=first.id)
        event(tx, "tool_begun", attempt=2, worker="worker_2", lookup=True)
        last = append_receipt(tx, clock, made, receipt, code="APPROVED", result_hash=sha256_hex(OUTPUT.encode()))
        finish_action(tx, clock, made, status, result, reason=None)
        event(tx, "tool_completed", code="APPROVED", receipt_id=last.id)

    db.write_now(write)
    return made


def test_the_story_of_an_action_is_whole(db, clock):
    made = stored_action(db, clock)
    story = story_of(db.reader, made.action_id)
    assert story.asked.message.content == "please do it"
    assert (story.asked.source, story.asked.channel, story.asked.turn_id) == ("cli", "cli", "turn")
    assert story.args == {"n": 1}
    assert story.decision["policy_hash"] == "p" * 64
    assert (story.approval.needed, story.approval.approved_by) == (True, "terminal")
    assert (story.digest, story.idempotency_key) == (made.digest, made.idempotency_key)
    one, two = story.attempts
    assert (one.end, one.code, one.next_in_seconds, one.looked_up) == ("tool_failed", "TRY_LATER", 5.0, False)
    assert (two.number, two.worker, two.end, two.looked_up) == (2, "worker_2", "tool_completed", True)
    assert (story.result.box_tier, story.result.box_end, story.result.exit) == ("A", "exited", 0)
    assert story.result.first_lines.startswith("line 1\nline 2\n")
    assert len(story.result.first_lines) <= 4000
    assert [proof.place for proof in story.receipts] == [1, 2]
    assert story.agrees, story.disagreements
    assert story.notes == ()


def test_there_is_no_story_of_what_never_was(db):
    assert story_of(db.reader, "act_none") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE proposed_actions SET args_json = '{\"n\":2}'", "the stored arguments do not match their hash"),
        ("UPDATE proposed_actions SET args_hash = 'x'", "the row's argument hash is not the receipt's"),
        ("UPDATE proposed_actions SET digest = 'x'", "the row's digest is not the last receipt's"),
        ("UPDATE proposed_actions SET tool = 'other'", "the row names a different tool than the receipt"),
        ("UPDATE proposed_actions SET status = 'REJECTED'", "it is REJECTED, and its last receipt says allowed"),
        ('UPDATE proposed_actions SET result_json = \'{"output":"other"}\'', "the stored result is not the one"),
        ("UPDATE proposed_actions SET result_json = 'broken'", "the stored result is not the one"),
        ("UPDATE receipts SET line = replace(line, 'APPROVED', 'ALLOWED!')", "does not match its own hash"),
        ("UPDATE receipts SET receipt_hash = 'x' WHERE seq = 1", "does not follow its predecessor"),
        ("DELETE FROM receipts WHERE seq = 1", "does not follow its predecessor"),
        ("DELETE FROM receipts", "it is EXECUTED, and there is no receipt"),
    ],
)
def test_a_row_that_was_changed_no_longer_agrees_with_its_receipts(db, clock, change, said):
    made = stored_action(db, clock)
    db.write_now(lambda tx: tx.execute(change))
    story = story_of(db.reader, made.action_id)
    everything = [*story.disagreements, *(text for proof in story.receipts for text in proof.disagreements)]
    assert not story.agrees
    assert any(said in text for text in everything), everything


def test_a_receipt_that_cannot_be_read_breaks_the_ledger(db, clock):
    made = stored_action(db, clock)
    db.write_now(lambda tx: tx.execute("UPDATE receipts SET line = '{'"))
    with pytest.raises(LedgerBroken, match="receipt 1 is damaged"):
        story_of(db.reader, made.action_id)


def test_a_story_whose_events_were_pruned_says_where_they_are(db, clock):
    made = stored_action(db, clock)
    db.write_now(lambda tx: tx.execute("DELETE FROM audit_log"))
    db.write_now(lambda tx: tx.execute("DELETE FROM messages"))
    story = story_of(db.reader, made.action_id)
    assert "audit/2026/03/01.jsonl" in story.notes[0]
    assert story.asked.message is None
    assert story.agrees
    assert story.approval.approved_by == "terminal"


@given(st.lists(st.sampled_from(["tool_begun", "tool_retry", "tool_failed", "tool_completed", "tool_requested"])))
def test_every_beginning_is_an_attempt_with_at_most_one_end(kinds):
    from coilclaw.ledger.audit import AuditEvent

    events = tuple(
        AuditEvent(seq=n, entry_id=str(n), event_type=kind, entity_id="a", payload={}, created_at=str(n))
        for n, kind in enumerate(kinds)
    )
    attempts = attempts_in(events)
    assert len(attempts) == kinds.count("tool_begun")
    ends = [attempt for attempt in attempts if attempt.end is not None]
    assert len(ends) <= kinds.count("tool_failed") + kinds.count("tool_completed")
    assert all(attempt.end is None or int(attempt.ended_at) > int(attempt.begun_at) for attempt in attempts)
