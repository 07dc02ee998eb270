"""Conversations go on being counted whatever is forgotten in between."""

import pytest

from coilclaw.ledger.totals import Totals, count_new, keep_totals, load_totals
from coilclaw.packets.ids import new_id
from coilclaw.store.threads import MessageRow, add_message, clear_memory, delete_thread, ensure_thread


@pytest.fixture
def talk(db, clock):
    def say(thread, times=1):
        def write(tx):
            ensure_thread(tx, clock, thread, "cli", "x")
            for _ in range(times):
                row = MessageRow(
                    message_id=new_id("msg", clock()),
                    thread_id=thread,
                    turn_id=f"turn_{thread}",
                    role="user",
                    content="x",
                    label="owner",
                )
                add_message(tx, clock, row)

        db.write_now(write)

    return say


def counted(db, totals):
    new = count_new(db.reader, totals, tools=(), codes=10, providers=())
    db.write_now(lambda tx: keep_totals(tx, new))
    assert load_totals(db.reader) == new
    return new


def test_conversations_are_counted_on_after_everything_was_forgotten(db, talk):
    for number in range(5):
        talk(f"c{number}", 3)
    totals = counted(db, Totals())
    assert totals.conversations == 5
    db.write_now(clear_memory)
    for number in range(3):
        talk(f"d{number}")
    totals = counted(db, totals)
    assert totals.conversations == 8
    talk("d0", 30)  # past the old height
    totals = counted(db, totals)
    assert totals.conversations == 8
    talk("e")
    assert counted(db, totals).conversations == 9


def test_a_look_in_the_empty_database_between_counts_nothing_twice(db, talk):
    talk("a", 9)
    totals = counted(db, Totals())
    db.write_now(clear_memory)
    totals = counted(db, totals)
    assert totals.conversations == 1
    talk("b")
    totals = counted(db, totals)
    assert totals.conversations == 2
    assert counted(db, totals).conversations == 2


def test_what_was_not_forgotten_is_not_counted_twice(db, talk):
    talk("a", 2)
    talk("b", 5)
    totals = counted(db, Totals())
    db.write_now(lambda tx: delete_thread(tx, "b"))  # the numbers of its messages are given out anew
    talk("a", 1)
    talk("c", 1)
    totals = counted(db, totals)
    assert totals.conversations == 3
    talk("c", 20)
    assert counted(db, totals).conversations == 3


def test_a_conversation_whose_first_events_were_exported_is_not_begun_again(db, talk):
    talk("a", 3)
    totals = counted(db, Totals())
    db.write_now(lambda tx: tx.execute("DELETE FROM audit_log"))
    talk("a")
    assert counted(db, totals).conversations == 1


def test_a_conversation_whose_first_messages_were_forgotten_is_not_begun_again(db, talk):
    talk("a", 3)
    totals = counted(db, Totals())
    db.write_now(lambda tx: tx.execute("DELETE FROM messages"))
    talk("a")
    assert counted(db, totals).conversations == 1


def test_a_record_of_an_earlier_version_continues(db, talk):
    talk("a", 2)
    kept = '{"receipts":0,"audit":2,"messages":2,"conversations":1}'
    db.write_now(lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES ('totals', ?)", (kept,)))
    talk("b")
    totals = counted(db, load_totals(db.reader))
    assert totals.conversations == 2
    db.write_now(clear_memory)
    talk("c")
    assert counted(db, totals).conversations == 3
