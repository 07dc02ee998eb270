"""Turns in the database: the first of its conversation, once, by one process, to one end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.features.chat.store.turns import (
    TurnEnd,
    TurnRow,
    add_turn,
    answer_of,
    begin_turn,
    count_open,
    end_turn,
    load_turn,
    next_turn,
    open_turns,
    queue_again,
)
from coilclaw.packets.chat import ProposedCall
from coilclaw.store.database import Database
from coilclaw.store.threads import MessageRow, add_message, ensure_thread


def nobody_is_gone(_):
    return False


def keep(db, clock, turn_id, thread_id="conv_1", worker="me"):
    turn = TurnRow(turn_id=turn_id, thread_id=thread_id, message_id=f"msg_{turn_id}", state="QUEUED", worker=worker)

    def write(tx):
        ensure_thread(tx, clock, thread_id, "panel", "")
        add_turn(tx, clock, turn)

    db.write_now(write)
    return load_turn(db.reader, turn_id)


def begin(db, clock, turn, worker="me"):
    return db.write_now(lambda tx: begin_turn(tx, clock, turn, worker))


def end(db, clock, turn, **fields):
    return db.write_now(lambda tx: end_turn(tx, clock, turn, TurnEnd(**fields)))


def test_the_first_of_a_conversation_goes_first(db, clock):
    first, second = keep(db, clock, "b"), keep(db, clock, "a")
    assert next_turn(db.reader, "me", nobody_is_gone) == first
    assert begin(db, clock, first)
    assert next_turn(db.reader, "me", nobody_is_gone) is None
    other = keep(db, clock, "c", "conv_2")
    assert next_turn(db.reader, "me", nobody_is_gone) == other
    assert end(db, clock, load_turn(db.reader, "b"), state="ANSWERED", ending="answered")
    assert next_turn(db.reader, "me", nobody_is_gone) == second


def test_a_turn_is_begun_once(db, clock):
    turn = keep(db, clock, "a")
    assert begin(db, clock, turn)
    assert not begin(db, clock, turn)
    assert not begin(db, clock, turn, "other")


def test_a_turn_ends_once_and_only_for_its_current_holder(db, clock):
    turn = keep(db, clock, "a")
    begin(db, clock, turn)
    assert not end(db, clock, turn, state="STOPPED")
    running = load_turn(db.reader, "a")
    assert end(db, clock, running, state="FAILED", code="X", reason="why")
    assert not end(db, clock, running, state="ANSWERED")
    over = load_turn(db.reader, "a")
    assert (over.state, over.code, over.reason) == ("FAILED", "X", "why")
    assert over.ended_at


def test_what_a_living_process_has_in_hand_is_left_to_it(db, clock):
    theirs = keep(db, clock, "a", worker="they")
    assert next_turn(db.reader, "me", nobody_is_gone) is None
    assert next_turn(db.reader, "me", lambda worker: worker == "they") == theirs


def test_a_waiting_turn_of_others_keeps_its_place(db, clock):
    keep(db, clock, "a", worker="they")
    keep(db, clock, "b", worker="me")
    assert next_turn(db.reader, "me", nobody_is_gone) is None


def test_a_turn_waits_again_for_whoever_takes_it_up(db, clock):
    turn = keep(db, clock, "a", worker="they")
    begin(db, clock, turn, "they")
    running = load_turn(db.reader, "a")
    assert db.write_now(lambda tx: queue_again(tx, running, "me"))
    assert not db.write_now(lambda tx: queue_again(tx, running, "me"))
    again = load_turn(db.reader, "a")
    assert (again.state, again.worker, again.started_at) == ("QUEUED", "me", None)


def test_open_turns_are_counted(db, clock):
    for name, thread in (("a", "conv_1"), ("b", "conv_1"), ("c", "conv_2")):
        keep(db, clock, name, thread)
    end(db, clock, load_turn(db.reader, "b"), state="STOPPED")
    assert count_open(db.reader, "conv_1") == (1, 2)
    assert count_open(db.reader, "conv_none") == (0, 2)


def test_a_turn_needs_its_conversation(db, clock):
    import sqlite3

    turn = TurnRow(turn_id="a", thread_id="conv_none", message_id="m", state="QUEUED")
    with pytest.raises(sqlite3.IntegrityError):
        db.write_now(lambda tx: add_turn(tx, clock, turn))


@pytest.mark.parametrize(
    ("roles", "answered"),
    [
        (["user"], False),
        (["system", "user", "system"], False),
        (["user", "calls", "tool"], False),
        (["user", "calls", "tool", "assistant"], True),
        (["user", "assistant", "system"], True),
    ],
)
def test_the_last_word_of_a_turn_is_the_one_that_proposes_nothing(db, clock, roles, answered):
    keep(db, clock, "a")
    for number, role in enumerate(roles):
        row = MessageRow(
            message_id=f"m{number}", thread_id="conv_1", turn_id="a", content=f"{role} {number}", label="internal",
            role="assistant" if role == "calls" else role,
            tool_calls=(ProposedCall(call_id="c", tool="time", arguments="{}"),) if role == "calls" else (),
        )  # fmt: skip
        db.write_now(lambda tx, row=row: add_message(tx, clock, row))
    assert (answer_of(db.reader, "conv_1", "a") is not None) == answered


@pytest.mark.slow
@settings(max_examples=40)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["post", "begin", "end", "die"]), st.integers(0, 2), st.sampled_from(["me", "they"])),
        max_size=40,
    )
)
def test_whatever_happens_a_conversation_is_answered_one_at_a_time_in_order(tmp_path_factory, steps):
    from tests.conftest import TestClock

    folder, clock = tmp_path_factory.mktemp("turns"), TestClock()
    db = Database(folder / "memory.sqlite", folder / "locks")
    try:
        posted: dict[str, list[str]] = {}
        begun: dict[str, list[str]] = {}
        for number, (step, place, worker) in enumerate(steps):
            thread = f"conv_{place}"
            if step == "post":
                posted.setdefault(thread, []).append(keep(db, clock, f"t{number}", thread, worker).turn_id)
            elif step == "begin" and (turn := next_turn(db.reader, worker, nobody_is_gone)) is not None:
                assert begin(db, clock, turn, worker)
                begun.setdefault(turn.thread_id, []).append(turn.turn_id)
            for turn in open_turns(db.reader):
                if turn.state == "RUNNING" and turn.thread_id == thread and step in ("end", "die"):
                    if step == "end":
                        assert end(db, clock, turn, state="ANSWERED")
                    else:
                        assert db.write_now(lambda tx, turn=turn, worker=worker: queue_again(tx, turn, worker))
                        begun[thread].pop()
            running = [turn.thread_id for turn in open_turns(db.reader) if turn.state == "RUNNING"]
            assert len(running) == len(set(running))
        for thread, names in begun.items():
            assert names == posted[thread][: len(names)]
    finally:
        db.close()


def test_what_is_open_is_found_without_reading_every_turn_there_ever_was(db):
    from coilclaw.features.chat.store import thread_list

    seen: list[str] = []
    db.reader.set_trace_callback(seen.append)
    thread_list.overview_of(db.reader, "nobody")
    db.reader.set_trace_callback(None)
    (asked,) = [statement for statement in seen if "FROM turns" in statement]
    plan = " ".join(row[3] for row in db.reader.execute(f"EXPLAIN QUERY PLAN {asked}"))
    assert "turns_open" in plan
