"""What was kept long enough goes; what is still needed stays, however old."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coilclaw.packets.ids import stamp
from coilclaw.store.retention import BATCH, Cutoffs, Days, count_rows, cutoffs, delete_rows
from coilclaw.store.threads import MESSAGE_BYTES, MessageRow, add_message, ensure_thread, thread_labels
from tests.ledger.test_prune import open_action

ALL = Days(audit=30, messages=30, artifacts=30, idempotency=30)


def say(db, clock, thread="t1", text="hello", label="owner", **more):
    def write(tx):
        ensure_thread(tx, clock, thread, "cli", text)
        number = tx.execute("SELECT coalesce(max(seq), 0) FROM messages").fetchone()[0]
        row = MessageRow(
            message_id=f"m{number + 1}", thread_id=thread, turn_id="u", role="user", content=text, label=label, **more
        )
        add_message(tx, clock, row)

    db.write_now(write)


def job(tx, state, thread):
    tx.execute(
        "INSERT INTO jobs (job_id, thread_id, user_id, goal, state, budget_json, created_at, updated_at)"
        " VALUES ('job_1', ?, 'owner', 'g', ?, '{}', '', '')",
        (thread, state),
    )


def prune(db, clock, days=ALL):
    """Prune, after the count foretold exactly that. Audit rows are counted with the rest, but are exported before they
    go, so they are not deleted here: every message leaves one."""
    cut = cutoffs(days, clock())
    told = count_rows(db.reader, cut)
    gone = delete_rows(db, cut)
    assert gone == replace(told, audit=0)
    assert count_rows(db.reader, cut).audit == told.audit
    assert delete_rows(db, cut) == type(gone)()
    return gone


def messages(db):
    return [row[0] for row in db.reader.execute("SELECT content FROM messages ORDER BY seq")]


def count(db, table):
    return db.reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_zero_days_mean_for_ever(clock):
    now = clock()
    assert cutoffs(Days(audit=0, messages=0, artifacts=0, idempotency=0), now) == Cutoffs(
        now=stamp(now), audit=None, messages=None, artifacts=None, idempotency=None
    )


def test_old_messages_go_and_silent_conversations_with_them(db, clock):
    say(db, clock, "t1", "old")
    say(db, clock, "t2", "old too")
    clock.advance(days=31)
    say(db, clock, "t2", "new")
    gone = prune(db, clock)
    assert (gone.messages, gone.threads) == (2, 1)
    assert messages(db) == ["new"]
    assert [row[0] for row in db.reader.execute("SELECT thread_id FROM threads")] == ["t2"]
    found = db.reader.execute("SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'old'").fetchone()[0]
    assert found == 0


def test_messages_are_kept_by_default(db, clock):
    say(db, clock)
    clock.advance(days=10_000)
    assert prune(db, clock, Days(audit=90, messages=0, artifacts=90, idempotency=90)).messages == 0
    assert messages(db) == ["hello"]


@pytest.mark.parametrize("status", ["PENDING", "APPROVED", "UNKNOWN"])
def test_messages_around_an_action_without_an_end_stay(db, clock, status):
    say(db, clock, "t1")
    db.write_now(lambda tx: open_action(tx, status, thread="t1"))
    clock.advance(days=31)
    assert prune(db, clock).messages == 0
    db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET status = 'REJECTED'"))
    assert prune(db, clock).messages == 1


@pytest.mark.parametrize("state", ["RECEIVED", "EXECUTING", "WAITING_APPROVAL", "PAUSED_BUDGET", "PR_OPENED"])
def test_messages_of_a_job_that_continues_stay(db, clock, state):
    say(db, clock, "t1")
    db.write_now(lambda tx: job(tx, state, "t1"))
    clock.advance(days=31)
    assert prune(db, clock).messages == 0
    db.write_now(lambda tx: tx.execute("UPDATE jobs SET state = 'DONE'"))
    gone = prune(db, clock)
    assert (gone.messages, gone.threads) == (1, 0)  # the job still names its conversation


def test_a_conversation_that_continues_keeps_what_others_wrote(db, clock):
    say(db, clock, "t1", "mine")
    say(db, clock, "t1", "theirs", label="untrusted:web")
    clock.advance(days=31)
    say(db, clock, "t1", "newer")
    assert prune(db, clock).messages == 1
    assert messages(db) == ["theirs", "newer"]
    assert "untrusted:web" in thread_labels(db.reader, "t1")
    clock.advance(days=31)
    assert prune(db, clock).messages == 2
    assert count(db, "threads") == 0


def test_more_than_a_batch_goes_too(db, clock):
    def write(tx):
        ensure_thread(tx, clock, "t1", "cli", "t")
        for number in range(2 * BATCH + 7):
            label = "untrusted:web" if number % 2 else "owner"
            row = MessageRow(
                message_id=f"m{number}", thread_id="t1", turn_id="u", role="user", content=str(number), label=label
            )
            add_message(tx, clock, row)

    db.write_now(write)
    clock.advance(days=31)
    assert prune(db, clock).messages == 2 * BATCH + 7


def test_somebody_who_speaks_while_it_is_pruned_keeps_the_rest(db, clock):
    """Never is a word left whose source went before it."""
    say(db, clock, "t1", "theirs", label="untrusted:web")
    clock.advance(days=31)
    cut = cutoffs(ALL, clock())
    say(db, clock, "t1", "again")
    delete_rows(db, cut)
    assert messages(db) == ["theirs", "again"]


def put_artifact(db, clock, name, job_id=None, thread=None):
    db.write_now(
        lambda tx: tx.execute(
            "INSERT INTO artifacts (artifact_id, job_id, thread_id, type, blob, label, created_at)"
            " VALUES (?, ?, ?, 'x', x'00', 'internal', ?)",
            (name, job_id, thread, stamp(clock())),
        )
    )


def artifacts(db):
    return [row[0] for row in db.reader.execute("SELECT artifact_id FROM artifacts ORDER BY artifact_id")]


def test_old_artifacts_go_unless_something_that_stays_needs_them(db, clock):
    say(db, clock, "t1")
    say(db, clock, "t2", "long " * MESSAGE_BYTES)
    db.write_now(lambda tx: job(tx, "DONE", "t1"))
    db.write_now(lambda tx: open_action(tx, thread="t3"))
    put_artifact(db, clock, "a_loose")
    put_artifact(db, clock, "a_of_job", job_id="job_1")
    put_artifact(db, clock, "a_of_open_thread", thread="t3")
    put_artifact(db, clock, "a_of_quiet_thread", thread="t1")
    (pointed,) = [name for name in artifacts(db) if name.startswith("art_")]
    clock.advance(days=31)
    put_artifact(db, clock, "a_young")
    kept = Days(audit=0, messages=0, artifacts=30, idempotency=0)
    assert prune(db, clock, kept).artifacts == 2
    assert artifacts(db) == ["a_of_job", "a_of_open_thread", "a_young", pointed]
    assert prune(db, clock).artifacts == 1  # its message goes now, and it with it
    assert artifacts(db) == ["a_of_job", "a_of_open_thread", "a_young"]


def bind_key(tx, key, when):
    tx.execute("INSERT INTO idempotency VALUES ('owner', 'x', ?, 'h', '', ?)", (key, when))


def test_old_keys_go_unless_their_action_has_no_end(db, clock):
    old = stamp(clock())
    db.write_now(lambda tx: open_action(tx, "APPROVED", "act_open"))
    db.write_now(lambda tx: open_action(tx, "EXECUTED", "act_done"))
    for key in ("act_open", "act_done", *(f"k{number}" for number in range(BATCH + 5))):
        db.write_now(lambda tx, key=key: bind_key(tx, key, old))
    clock.advance(days=31)
    db.write_now(lambda tx: bind_key(tx, "young", stamp(clock())))
    assert prune(db, clock).idempotency == BATCH + 6
    assert [row[0] for row in db.reader.execute("SELECT key FROM idempotency ORDER BY key")] == ["act_open", "young"]


def test_expired_tokens_go_at_once(db, clock):
    def write(tx):
        tx.execute("INSERT INTO users VALUES ('owner', '', '')")
        tx.execute("INSERT INTO devices (device_id, user_id, created_at) VALUES ('d', 'owner', '')")
        for name, hours in (("past", -1), ("future", 1)):
            clock.advance(hours=hours)
            tx.execute(
                "INSERT INTO auth_tokens (token_id, device_id, token_hash, expires_at, created_at)"
                " VALUES (?, 'd', ?, ?, '')",
                (name, name, stamp(clock())),
            )
            clock.advance(hours=-hours)

    db.write_now(write)
    never = Days(audit=0, messages=0, artifacts=0, idempotency=0)
    assert prune(db, clock, never).auth_tokens == 1
    assert [row[0] for row in db.reader.execute("SELECT token_id FROM auth_tokens")] == ["future"]


def test_receipts_actions_jobs_and_usage_never_go(db, clock):
    db.write_now(lambda tx: open_action(tx, "EXECUTED"))
    db.write_now(lambda tx: tx.execute("INSERT INTO receipts VALUES (1, 'r', 'act_1', 'h', '{}', NULL)"))
    db.write_now(lambda tx: tx.execute("INSERT INTO ledger_heads VALUES (1, '{}')"))
    db.write_now(lambda tx: tx.execute("INSERT INTO usage VALUES ('u', '', '', NULL, '', '', 1, 1, 0, '', 0)"))
    clock.advance(days=10_000)
    prune(db, clock)
    assert [count(db, name) for name in ("receipts", "proposed_actions", "ledger_heads", "usage")] == [1, 1, 1, 1]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    said=st.lists(
        st.tuples(st.sampled_from(["t1", "t2", "t3"]), st.booleans(), st.integers(0, 30)), min_size=1, max_size=15
    ),
    busy=st.sets(st.sampled_from(["t1", "t2", "t3"])),
)
def test_no_taint_is_lost_and_nothing_needed_goes(tmp_path_factory, clock, said, busy):
    from coilclaw.store.database import Database

    folder = tmp_path_factory.mktemp("db")
    db = Database(folder / "m", folder / "locks")
    for thread, trusted, days in said:
        say(db, clock, thread, label="owner" if trusted else f"untrusted:{thread}")
        clock.advance(days=days)
    for thread in busy:
        db.write_now(lambda tx, thread=thread: open_action(tx, action_id=f"act_{thread}", thread=thread))
    before = {thread: thread_labels(db.reader, thread) for thread in ("t1", "t2", "t3")}
    sizes = dict(db.reader.execute("SELECT thread_id, count(*) FROM messages GROUP BY thread_id").fetchall())
    cut = cutoffs(ALL, clock())
    prune(db, clock)
    left = db.reader.execute("SELECT thread_id, label, created_at FROM messages").fetchall()
    for thread, size in sizes.items():
        mine = [row for row in left if row[0] == thread]
        if thread in busy:
            assert len(mine) == size
        elif mine:
            untrusted = [label for label in before[thread] if label != "owner"]
            assert set(untrusted) <= {row[1] for row in mine}
            assert all(row[2] >= cut.messages or row[1] != "owner" for row in mine)
    db.close()


def test_outputs_of_procedures_and_runs_of_schedules_go_when_they_are_over(db, clock):
    def write(tx):
        for run, state in (("over", "DONE"), ("open", "WAITING")):
            tx.execute(
                "INSERT INTO sop_runs (run_id, name, file_hash, sop_json, state, thread_id, turn_id, file_label,"
                " created_at, updated_at) VALUES (?, 'n', 'h', '{}', ?, 't', 'u', 'owner', ?, ?)",
                (run, state, stamp(clock()), stamp(clock())),
            )
            tx.execute(
                "INSERT INTO sop_steps (run_id, step_id, position, state, attempt, output, output_hash, started_at)"
                " VALUES (?, 's', 0, 'SUCCEEDED', 1, 'a page', 'h', ?)",
                (run, stamp(clock())),
            )
        for number, state in enumerate(("ENDED", "SKIPPED", "STARTED")):
            tx.execute(
                "INSERT INTO schedule_runs (run_instance_id, schedule_id, scheduled_at, cause, state,"
                " lateness_seconds, first_slot, created_at) VALUES (?, 's', 'x', 'due', ?, 0, 'x', ?)",
                (f"s:{number}", state, stamp(clock())),
            )

    db.write_now(write)
    assert prune(db, clock).step_outputs == 0
    clock.advance(days=31)
    gone = prune(db, clock)
    assert (gone.step_outputs, gone.schedule_runs) == (1, 2)
    left = db.reader.execute("SELECT run_id, output, output_hash FROM sop_steps ORDER BY run_id").fetchall()
    assert left == [("open", "a page", "h"), ("over", "", "h")]
    assert count(db, "schedule_runs") == 1


def keep_answer(tx, key, when):
    tx.execute(
        "INSERT INTO requests (device_id, key, request_hash, status, worker, created_at)"
        " VALUES ('d', ?, 'h', 201, 'w', ?)",
        (key, when),
    )


def test_answers_kept_for_requests_go_with_the_idempotency_keys(db, clock):
    db.write_now(lambda tx: [keep_answer(tx, f"k{number}", stamp(clock())) for number in range(BATCH + 5)])
    clock.advance(days=31)
    db.write_now(lambda tx: keep_answer(tx, "young", stamp(clock())))
    assert prune(db, clock, Days(audit=0, messages=0, artifacts=0, idempotency=0)).requests == 0
    assert prune(db, clock).requests == BATCH + 5
    assert [row[0] for row in db.reader.execute("SELECT key FROM requests")] == ["young"]


def test_challenges_and_pairing_codes_go_when_they_are_over(db, clock):
    def write(tx):
        for name, hours in (("past", -1), ("future", 1)):
            clock.advance(hours=hours)
            tx.execute(
                "INSERT INTO pairing_codes (code_id, code_hash, issued_by, mode, expires_at, created_at)"
                " VALUES (?, '', 'terminal', 'add', ?, '')",
                (name, stamp(clock())),
            )
            tx.execute(
                "INSERT INTO challenges (challenge_id, purpose, subject, digest, valid_until, nonce, device_id,"
                " expires_at, created_at) VALUES (?, '', '', '', '', '', '', ?, '')",
                (name, stamp(clock())),
            )
            clock.advance(hours=-hours)

    db.write_now(write)
    gone = prune(db, clock, Days(audit=0, messages=0, artifacts=0, idempotency=0))
    assert (gone.pairing_codes, gone.challenges) == (1, 1)
    assert [row[0] for row in db.reader.execute("SELECT code_id FROM pairing_codes")] == ["future"]
    assert [row[0] for row in db.reader.execute("SELECT challenge_id FROM challenges")] == ["future"]
