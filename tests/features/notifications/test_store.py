"""Notification rows: how many may be told, what was seen, and what is about to end."""

import pytest

from coilclaw.features.notifications.store import (
    MOST_AN_HOUR,
    MOST_COUNTED,
    News,
    Quota,
    count_unseen,
    forget_old,
    notifications_before,
    see_until,
)
from coilclaw.packets.ids import stamp


def news(entity="job_1", kind="job_failed", *, thread="conv_1", job="job_1"):
    return News(type=kind, entity_id=entity, thread_id=thread, job_id=job)


def tell(db, clock, *items):
    """Tell those that may be told; how many that were."""

    def write(tx):
        quota = Quota(tx, clock)
        return sum(quota.allows(each) and quota.add(each) is not None for each in items)

    return db.write_now(write)


def test_the_same_is_reported_once_in_ten_minutes(db, clock):
    assert tell(db, clock, news(), news(), news(kind="job_completed")) == 2
    clock.advance(minutes=9)
    assert tell(db, clock, news()) == 0
    clock.advance(minutes=2)
    assert tell(db, clock, news()) == 1


@pytest.mark.parametrize("job", ["job_1", None])
def test_of_one_job_or_conversation_so_many_are_reported_in_an_hour(db, clock, job):
    many = [news(f"act_{n}", "approval_needed", job=job) for n in range(30)]
    assert tell(db, clock, *many) == MOST_AN_HOUR
    assert tell(db, clock, news("act_x", "approval_needed", job=job)) == 0
    assert tell(db, clock, news("act_y", "approval_needed", thread="conv_2", job="job_2")) == 1
    clock.advance(minutes=61)
    assert tell(db, clock, news("act_x", "approval_needed", job=job)) == 1


def test_a_clock_that_went_back_silences_nobody_for_ever(db, clock):
    clock.advance(days=30)
    assert tell(db, clock, news()) == 1
    clock.advance(days=-30)
    assert tell(db, clock, news("job_2", job="job_2")) == 1


def test_all_up_to_one_are_seen_at_once(db, clock):
    tell(db, clock, *(news(f"act_{n}", job=f"job_{n}") for n in range(5)))
    rows = notifications_before(db.reader, None, 10, unseen=False)
    assert [row.entity_id for row in rows] == ["act_4", "act_3", "act_2", "act_1", "act_0"]
    assert count_unseen(db.reader) == 5
    assert db.write_now(lambda tx: see_until(tx, clock, rows[2].notification_id)) == 3
    assert db.write_now(lambda tx: see_until(tx, clock, rows[4].notification_id)) == 0
    assert db.write_now(lambda tx: see_until(tx, clock, "ntf_nope")) is None
    assert count_unseen(db.reader) == 2
    unseen = notifications_before(db.reader, None, 10, unseen=True)
    assert [row.entity_id for row in unseen] == ["act_4", "act_3"]
    assert [row.entity_id for row in notifications_before(db.reader, rows[1].seq, 2, unseen=False)] == [
        "act_2",
        "act_1",
    ]
    assert notifications_before(db.reader, -5, 2, unseen=False) == []
    assert len(notifications_before(db.reader, 10**30, 10, unseen=False)) == 5


def test_the_unseen_are_counted_up_to_a_thousand(db, clock):
    def fill(tx):
        tx.executemany(
            "INSERT INTO notifications (notification_id, type, entity_id, created_at) VALUES (?, 'job_failed', ?, ?)",
            [(f"ntf_{n}", f"job_{n}", stamp(clock())) for n in range(MOST_COUNTED + 200)],
        )

    db.write_now(fill)
    assert count_unseen(db.reader) == MOST_COUNTED
    assert db.write_now(lambda tx: see_until(tx, clock, f"ntf_{MOST_COUNTED + 199}")) == MOST_COUNTED
    assert count_unseen(db.reader) == 0


def test_what_is_old_is_forgotten_and_numbers_are_never_used_again(db, clock):
    tell(db, clock, news())
    last = notifications_before(db.reader, None, 1, unseen=False)[0].seq
    clock.advance(days=91)
    assert db.write_now(lambda tx: forget_old(tx, clock)) == 1
    tell(db, clock, news())
    assert notifications_before(db.reader, None, 1, unseen=False)[0].seq > last


def test_rows_hold_words_of_the_list_only(db, clock):
    with pytest.raises(Exception, match="CHECK"):
        tell(db, clock, News(type="proactive_reach_out", entity_id="x", thread_id=None, job_id=None, reason="because"))
