"""What the calls of a turn brought in, read back from whatever is on record."""

import msgspec
import pytest

from coilclaw.packets.action import ToolResult
from coilclaw.store.job_history import brought_in, standing_of
from coilclaw.store.threads import MessageRow, add_message, ensure_owner, ensure_thread

WEB = "untrusted:web"


def told(db, clock, number, role="tool", turn="t", label=WEB, **metadata):
    def write(tx):
        ensure_thread(tx, clock, "c", "cli", "c")
        row = MessageRow(
            message_id=f"m{number}", thread_id="c", turn_id=turn, role=role, content="x", label=label, metadata=metadata
        )
        add_message(tx, clock, row)

    db.write_now(write)


def ended(db, clock, result):
    """An action of the turn whose result is these bytes."""
    columns = "action_id, turn_id, source, source_id, tool, args_json, args_hash, risk_class, lane, idempotency_key"

    def write(tx):
        ensure_owner(tx, clock)
        tx.execute(
            f"INSERT INTO proposed_actions (user_id, {columns}, digest, taint_json, decision_json, status, result_json,"
            " expires_at, created_at, updated_at)"
            " VALUES ('owner', 'a', 't', 'job', 'j', 'http', '{}', '', '', '', 'k', '', '', '', 'EXECUTED', ?,"
            " '', '', '')",
            (result,),
        )

    db.write_now(write)


def result(**more):
    return msgspec.json.encode(ToolResult(success=True, output="", label=WEB, **more)).decode()


def test_a_message_says_whether_its_content_came_from_outside(db, clock):
    told(db, clock, 1, fresh=True)
    told(db, clock, 2, label="untrusted:file", fresh=False)
    assert sorted(brought_in(db.reader, "c", "t")) == [("untrusted:file", False), (WEB, True)]


def test_one_that_does_not_say_counts_as_from_outside(db, clock):
    told(db, clock, 1)
    assert brought_in(db.reader, "c", "t") == [(WEB, True)]


def test_words_and_other_turns_do_not_count(db, clock):
    told(db, clock, 1, role="assistant")
    told(db, clock, 2, turn="another", fresh=True)
    assert brought_in(db.reader, "c", "t") == []


@pytest.mark.parametrize("fresh", [True, False])
def test_an_action_says_it_too_when_no_message_does(db, clock, fresh):
    ended(db, clock, result(fresh=fresh))
    assert brought_in(db.reader, "c", "t") == [(WEB, fresh)]


def test_a_result_of_an_earlier_version_counts_as_from_outside(db, clock):
    ended(db, clock, '{"success":true,"output":"","label":"untrusted:web"}')
    assert brought_in(db.reader, "c", "t") == [(WEB, True)]


def test_a_result_that_cannot_be_read_may_have_been_anything(db, clock):
    ended(db, clock, "{")
    assert brought_in(db.reader, "c", "t") == [("", True)]  # a label that names nobody is not trusted
    standing = standing_of(db.reader, "t")["a"]
    assert (standing.status, standing.result) == ("EXECUTED", None)
