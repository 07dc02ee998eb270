"""Pages of actions: each once, newest first, and never more work at a time than a page may do."""

from coilclaw.packets.ids import stamp
from coilclaw.store import action_pages
from coilclaw.store.action_pages import (
    ActionPlace,
    WaitingOf,
    WaitingPlace,
    WantedActions,
    count_waiting,
    page_of_actions,
    page_of_waiting,
)
from coilclaw.store.threads import ensure_owner

DECISION = (
    '{"verdict":"%s","risk":"R1","risk_word":"low","risk_class":"WRITE","lane":"A","code":"X","rule":"x","reasons":[],'
    '"recommended_changes":[],"policy_hash":"","risk_level":"R1","allowed":true,"requires_approval":false}'
)


def add_rows(db, clock, rows):
    """Rows as the conveyor leaves them: dicts of what is special about each."""

    def write(tx):
        ensure_owner(tx, clock)
        for row in rows:
            place = tx.execute("SELECT coalesce(max(rowid), 0) + 1 FROM proposed_actions").fetchone()[0]
            usual = {
                "action_id": f"act_{place}", "user_id": "owner", "thread_id": "", "turn_id": "", "source": "cli",
                "source_id": "", "tool": "note_write", "args_json": "{}", "args_hash": "", "risk_class": "WRITE",
                "lane": "A", "idempotency_key": f"k{place}", "digest": "", "taint_json": "[]",
                "decision_json": DECISION % "allow", "status": "EXECUTED", "expires_at": "",
                "created_at": stamp(clock()), "updated_at": "",
            }  # fmt: skip
            columns = {**usual, "user_id": tx.execute("SELECT user_id FROM users").fetchone()[0], **row}
            tx.execute(
                f"INSERT INTO proposed_actions ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                tuple(columns.values()),
            )

    db.write_now(write)


def walk(db, wanted, limit):
    """Every page: the ids, and how many pages there were."""
    found, place, pages = [], None, 0
    while pages < 1000:
        actions, place = page_of_actions(db.reader, wanted, place, limit)
        found += [action.action_id for action in actions]
        pages += 1
        if place is None:
            return found, pages
    raise AssertionError("it has no end")


def test_rows_of_one_millisecond_are_each_listed_once(db, clock):
    now = stamp(clock())
    add_rows(db, clock, [{"created_at": now} for _ in range(10)])
    found, pages = walk(db, WantedActions(), 3)
    assert found == [f"act_{number}" for number in range(10, 0, -1)]
    assert pages == 4


def test_a_rare_one_is_found_over_bounded_pages(db, clock):
    add_rows(db, clock, [{"tool": "rare"}, *({} for _ in range(action_pages.SCANNED + 5)), {"tool": "rare"}])
    actions, place = page_of_actions(db.reader, WantedActions(tool="rare"), None, 50)
    assert len(actions) == 1
    assert place is not None
    assert len(walk(db, WantedActions(tool="rare"), 50)[0]) == 2
    assert len(walk(db, WantedActions(tool="rare", status="EXECUTED"), 1)[0]) == 2
    assert walk(db, WantedActions(tool="none"), 50)[0] == []


def test_a_row_that_cannot_be_read_is_passed_over(db, clock):
    add_rows(db, clock, [{}, {"decision_json": "{"}, {}])
    assert walk(db, WantedActions(), 1)[0] == ["act_3", "act_1"]
    assert page_of_actions(db.reader, WantedActions(), None, 2)[1] == ActionPlace(
        *db.reader.execute("SELECT created_at, rowid FROM proposed_actions WHERE rowid = 2").fetchone()
    )


def test_only_what_needed_the_owner_counts_as_an_approval(db, clock):
    add_rows(
        db,
        clock,
        [
            {"action_id": "ran"},
            {"action_id": "denied", "status": "REJECTED", "decision_json": DECISION % "deny"},
            {"action_id": "refused", "status": "REJECTED", "decision_json": DECISION % "ask", "rejection_reason": "no"},
            {
                "action_id": "late",
                "status": "REJECTED",
                "decision_json": DECISION % "ask",
                "rejection_reason": "expired",
            },
            {"action_id": "done", "decision_json": DECISION % "ask", "approved_by": "device:x"},
            {"action_id": "done again", "approved_by": "device:x"},  # it was allowed, and tried anew by the owner
            {"action_id": "held", "status": "PENDING", "worker": "worker_1", "decision_json": DECISION % "ask"},
            {"action_id": "waits", "status": "PENDING", "decision_json": DECISION % "ask"},
        ],
    )
    wanted = {"pending": ["waits"], "rejected": ["refused"], "expired": ["late"], "executed": ["done"],
              "all": ["waits", "held", "done", "late", "refused"]}  # fmt: skip
    for standing, ids in wanted.items():
        assert walk(db, WantedActions(standing=standing), 10)[0] == ids


def test_every_listing_uses_an_index(db, clock):
    add_rows(db, clock, [{"job_id": "job_1"}, {}])
    statements = []
    db.reader.set_trace_callback(statements.append)
    for wanted in (
        WantedActions(),
        WantedActions(status="EXECUTED"),
        WantedActions(job_id="job_1", status="EXECUTED"),
        WantedActions(session_id="session_1", status="EXECUTED"),
    ):
        page_of_actions(db.reader, wanted, ActionPlace("9999", 1 << 50), 10)
    db.reader.set_trace_callback(None)
    plans = [db.reader.execute(f"EXPLAIN QUERY PLAN {each}").fetchall()[0][3] for each in statements]
    used = ("actions_created", "actions_status", "actions_job", "actions_turn")
    assert [index in plan for index, plan in zip(used, plans, strict=True)] == [True] * 4


def test_a_session_is_told_by_what_its_program_asked_for(db, clock):
    rows = [
        {"action_id": "asked", "source": "session", "turn_id": "session_1"},
        {"action_id": "another", "source": "session", "turn_id": "session_2"},
        {"action_id": "owner", "source": "gateway", "turn_id": "session_1"},
    ]
    add_rows(db, clock, rows)
    assert walk(db, WantedActions(session_id="session_1"), 10)[0] == ["asked"]


WAITS = {"status": "PENDING", "decision_json": DECISION % "ask"}


def walk_waiting(db, wanted, limit):
    found, place = [], None
    for _ in range(1000):
        actions, place = page_of_waiting(db.reader, wanted, place, limit)
        found += [action.action_id for action in actions]
        if place is None:
            return found
    raise AssertionError("it has no end")


def test_what_waits_is_listed_by_its_end_each_once_whatever_the_size_of_a_page(db, clock):
    ends = ["2026-03", "2026-01", "2026-02", "2026-01", "2026-02", "2026-01"]
    add_rows(db, clock, [{**WAITS, "action_id": f"w{at}", "expires_at": end} for at, end in enumerate(ends)])
    add_rows(db, clock, [{"expires_at": "2025"}, {**WAITS, "expires_at": "2025", "worker": "worker_1"}])
    for limit in (1, 2, 3, 5, 6, 7):
        assert walk_waiting(db, WaitingOf(), limit) == ["w1", "w3", "w5", "w2", "w4", "w0"]


def test_what_waits_is_found_by_lane_job_and_conversation_and_counted(db, clock):
    rows = [
        {"action_id": "a", "lane": "A", "job_id": "job_1", "thread_id": "t1", "expires_at": "3"},
        {"action_id": "b", "lane": "B", "job_id": "job_1", "thread_id": "t1", "expires_at": "2"},
        {"action_id": "c", "lane": "C", "thread_id": "t2", "expires_at": "1"},
        {"action_id": "d", "lane": "A", "thread_id": "t2", "expires_at": "4"},
    ]
    add_rows(db, clock, [*({**WAITS, **row} for row in rows), {"lane": "B", "job_id": "job_1"}])
    wanted = {
        WaitingOf(): ["c", "b", "a", "d"],
        WaitingOf(lane="A"): ["a", "d"],
        WaitingOf(job_id="job_1"): ["b", "a"],
        WaitingOf(thread_id="t2"): ["c", "d"],
        WaitingOf(thread_id="t2", lane="C"): ["c"],
        WaitingOf(job_id="job_1", thread_id="t2"): [],
    }
    for of, ids in wanted.items():
        assert walk_waiting(db, of, 1) == ids
        assert sum(count_waiting(db.reader, of).values()) == len(ids)
    assert count_waiting(db.reader, WaitingOf()) == {"A": 2, "B": 1, "C": 1}
    assert count_waiting(db.reader, WaitingOf(job_id="none")) == {"A": 0, "B": 0, "C": 0}


def test_one_that_waits_and_cannot_be_read_is_passed_over(db, clock):
    add_rows(db, clock, [{**WAITS, "expires_at": "1", "decision_json": "{"}, {**WAITS, "expires_at": "2"}])
    assert walk_waiting(db, WaitingOf(), 1) == ["act_2"]


def test_what_waits_is_listed_and_counted_in_the_order_of_an_index(db, clock):
    add_rows(db, clock, [{**WAITS, "job_id": "job_1", "thread_id": "t"}])
    indexes = {
        WaitingOf(): ("actions_waiting ", "actions_waiting_lane"),
        WaitingOf(lane="B"): ("actions_waiting_lane ", "actions_waiting_lane "),
        WaitingOf(thread_id="t"): ("actions_waiting_thread ", "actions_waiting_thread "),
        WaitingOf(job_id="job_1"): ("actions_waiting_job ", "actions_waiting_job "),
        WaitingOf(job_id="job_1", lane="A"): ("actions_waiting_job ", "actions_waiting_job "),
    }
    for of, (listed, counted) in indexes.items():
        statements = []
        db.reader.set_trace_callback(statements.append)
        page_of_waiting(db.reader, of, WaitingPlace("", 0), 10)
        count_waiting(db.reader, of)
        db.reader.set_trace_callback(None)
        page, count = (plan_of(db, statements[0]), plan_of(db, statements[-1]))
        assert listed in page[0]
        assert page[1:] == [], "it is sorted again"
        assert counted in f"{count[0]} "
    assert "COVERING" in plan_of(db, "SELECT lane, count(*) FROM proposed_actions INDEXED BY actions_waiting_lane"
                                 " WHERE status = 'PENDING' AND worker IS NULL GROUP BY lane")[0]  # fmt: skip


def plan_of(db, statement):
    return [row[3] for row in db.reader.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()]


def steps_of(db, work):
    """How much the database did for it, counted in its own steps and not by a clock."""
    counted = []
    db.reader.set_progress_handler(lambda: counted.append(1) and None, 100)
    try:
        work()
    finally:
        db.reader.set_progress_handler(None, 0)
    return len(counted)


def test_paging_through_all_answers_costs_as_much_as_there_are(db, clock):
    answered = {"decision_json": DECISION % "ask", "approved_by": "terminal"}
    cost = {}
    for number in (500, 2000):
        add_rows(db, clock, [answered] * (number - len(cost) * 500))
        cost[number] = steps_of(db, lambda: walk(db, WantedActions(standing="executed"), 20))
    assert cost[2000] < cost[500] * 6  # four times as many rows; a square would be sixteen


def test_paging_through_a_crowd_that_expires_at_once_costs_as_much_as_there_are(db, clock):
    waiting = {"status": "PENDING", "expires_at": "2026-03-02T12:00:00.000Z"}
    cost = {}

    def pages():
        found, place = [], None
        while not found or place is not None:
            actions, place = page_of_waiting(db.reader, WaitingOf(), place, 20)
            found += [action.action_id for action in actions]
        assert len(set(found)) == len(found) == sum(1 for _ in db.reader.execute("SELECT 1 FROM proposed_actions"))

    for number in (500, 2000):
        add_rows(db, clock, [waiting] * (number - len(cost) * 500))
        cost[number] = steps_of(db, pages)
    assert cost[2000] < cost[500] * 6  # four times as many rows; a square would be sixteen
