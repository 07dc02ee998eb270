"""What a conversation took in, told apart by who wrote it; rows of labelled files."""

import pytest

from coilclaw.packets.ids import stamp
from coilclaw.store.labels import (
    all_labels,
    any_labels,
    conversation_texts,
    drop_labels,
    held_labels,
    label_rows,
    labelled_contents,
    newest_labelled,
    path_rows,
    put_label,
    rows_of_size,
)
from coilclaw.store.threads import MESSAGE_BYTES, MessageRow, add_message, ensure_thread

EVIL, HOLDING = "untrusted:evil.example", "untrusted:held.example"


@pytest.fixture
def say(db, clock):
    db.write_now(lambda tx: ensure_thread(tx, clock, "conv", "cli", "t"))
    db.write_now(lambda tx: ensure_thread(tx, clock, "other", "cli", "t"))
    count = iter(range(10_000))

    def add(role, content, label, *, turn="turn_1", thread="conv", tool=None):
        number = next(count)
        action = f"act_{number}" if tool else None
        row = MessageRow(
            message_id=f"msg_{number}",
            thread_id=thread,
            turn_id=turn,
            role=role,
            content=content,
            label=label,
            action_id=action,
        )

        def write(tx):
            add_message(tx, clock, row)
            if tool:
                now = stamp(clock())
                tx.execute(
                    "INSERT INTO proposed_actions (action_id, user_id, source, source_id, tool, args_json, args_hash,"
                    " risk_class, lane, idempotency_key, digest, taint_json, decision_json, status, expires_at,"
                    " created_at, updated_at) VALUES (?, 'owner', 'chat', '', ?, '{}', '', 'READ', 'A', ?, '', '[]',"
                    " '{}', 'EXECUTED', ?, ?, ?)",
                    (action, tool, action, now, now, now),
                )

        db.write_now(write)

    return add


def test_untrusted_content_and_the_owners_words_are_told_apart(db, say):
    say("user", "what I said", "owner")
    say("tool", "a page", EVIL, tool="http")
    say("tool", "a file of mine", "owner", tool="file_read")
    say("tool", "my answer", "owner", tool="ask_user")
    say("assistant", "a summary of the page", EVIL)
    say("assistant", "what it proposes now", EVIL, turn="turn_2")
    say("tool", "the time", "internal", tool="time")
    say("tool", "elsewhere", EVIL, thread="other")
    texts = conversation_texts(db.reader, "conv", turn_id="turn_2")
    assert texts.untrusted == ("a summary of the page", "a page")
    assert texts.owner == ("my answer", "what I said")
    assert texts.complete
    assert "what it proposes now" in conversation_texts(db.reader, "conv").untrusted


def test_what_a_message_keeps_in_an_artifact_is_read_whole(db, say):
    say("tool", "x" * MESSAGE_BYTES + " the end of it", EVIL)
    (text,) = conversation_texts(db.reader, "conv").untrusted
    assert text.endswith("the end of it")


def test_what_is_too_much_is_cut_at_the_oldest_and_said_so(db, say):
    say("tool", "older", EVIL)
    say("user", "o" * 8, "owner")
    say("tool", "newer", EVIL)
    texts = conversation_texts(db.reader, "conv", most=7)
    assert texts.untrusted == ("newer", "ol")
    assert texts.owner == ("o" * 7,)
    assert not texts.complete
    assert conversation_texts(db.reader, "conv", most=10).complete


def test_a_label_nobody_knows_is_not_trusted(db, say):
    say("tool", "odd", "something")
    assert conversation_texts(db.reader, "conv").untrusted == ("odd",)


def test_rows_come_and_go_exactly(db, clock):
    assert not any_labels(db.reader, "")
    for content in ("1", "2"):
        db.write_now(
            lambda tx, content=content: put_label(
                tx, clock, root="", path="a", label=EVIL, content_hash=content, size=1, mtime_ns=2
            )
        )
    old = label_rows(db.reader, "", 10)
    assert [row.content_hash for row in old] == ["1", "2"]
    db.write_now(lambda tx: put_label(tx, clock, root="", path="a", label=EVIL, content_hash="1", size=3, mtime_ns=4))
    db.write_now(lambda tx: drop_labels(tx, "", old))
    assert [(row.content_hash, row.size) for row in label_rows(db.reader, "", 10)] == [("1", 3)], "written anew since"
    assert any_labels(db.reader, "")


def test_labels_are_found_by_path_by_size_and_below_a_folder(db, clock):
    def put(tx):
        for path, size in (("a", 1), ("a/x", 2), ("a/y", 2), ("a0", 3), ("ab", 4), ("/act_1", 0)):
            held = path.startswith("/")
            put_label(
                tx, clock, root="", path=path, label=HOLDING if held else EVIL, content_hash=path, size=size, mtime_ns=0
            )

    db.write_now(put)
    assert [row.path for row in path_rows(db.reader, "", "a")] == ["a"]
    assert [row.path for row in rows_of_size(db.reader, "", 2)] == ["a/x", "a/y"]
    assert newest_labelled(db.reader, "", "a", 10) == [("a/y", EVIL), ("a/x", EVIL)]
    assert [path for path, _ in newest_labelled(db.reader, "", "", 10)] == ["ab", "a0", "a/y", "a/x", "a"]
    assert newest_labelled(db.reader, "", "", 1) == [("ab", EVIL)]
    assert labelled_contents(db.reader, "", 2) == [("a", EVIL, "a", 1), ("a/x", EVIL, "a/x", 2)]
    assert len(labelled_contents(db.reader, "", 10)) == 5
    assert held_labels(db.reader, "") == {HOLDING}
    assert all_labels(db.reader, "") == {EVIL, HOLDING}
