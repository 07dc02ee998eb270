"""Notifications: what the owner is told to look at. Rows hold ids and words of a fixed list, never content."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, from_stamp, new_id, stamp
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

Type: TypeAlias = Literal[
    "approval_needed", "approval_expiring", "job_failed", "job_completed", "proactive_reach_out", "alert_raised",
    "session_waiting",
]  # fmt: skip
Reason: TypeAlias = Literal[
    "operator_attention_needed", "clarification_needed", "important_update", "follow_up_available"
]  # fmt: skip
"""Why the agent reaches out by itself."""

AGAIN = timedelta(minutes=10)
"""The same is told of the same thing at most once in this time."""
HOUR = timedelta(hours=1)
MOST_AN_HOUR = 20
"""So many notifications at most are about one job, or one conversation, in an hour."""
KEPT = timedelta(days=90)
MOST_COUNTED = 1000
SOON = timedelta(hours=1)
"""So long before its end the owner is reminded of what waits; if it waits for less than two of these, at half time."""

_CURSOR = "notifier.seq"
_LAST = 1 << 62


class NotificationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A notification as stored."""

    seq: int
    notification_id: str
    type: Type
    reason: Reason | None
    entity_id: str
    """The action, the job, the conversation, the account or the session it is about."""
    thread_id: str | None
    job_id: str | None
    seen_at: str | None
    created_at: str


class News(msgspec.Struct, frozen=True, kw_only=True):
    """Something the owner may be told."""

    type: Type
    entity_id: str
    thread_id: str | None
    job_id: str | None
    reason: Reason | None = None


ACCOUNT = "account_"
"""What the id of an account begins with."""
GUEST = "guest_"
"""What the id of a guest begins with; its name follows."""


def account_id(account: str) -> str:
    """The id of a connected account, such as `account_google_bot` for `google (bot)`."""
    return ACCOUNT + "_".join("".join(char if char.isalnum() else " " for char in account).split())


_COLUMNS = "seq, notification_id, type, reason, entity_id, thread_id, job_id, seen_at, created_at"


def _notification(row: Sequence[Any]) -> NotificationRow:
    return NotificationRow(
        seq=row[0],
        notification_id=row[1],
        type=row[2],
        reason=row[3],
        entity_id=row[4],
        thread_id=row[5],
        job_id=row[6],
        seen_at=row[7],
        created_at=row[8],
    )


# Adding


class Quota:
    """What may still be told: counts what was told lately, as one transaction sees it."""

    def __init__(self, tx: Tx, clock: Clock) -> None:
        self._tx = tx
        self._clock = clock
        self._told: dict[str, int] = {}
        since = stamp(clock() - HOUR)
        rows = tx.execute(
            "SELECT coalesce(job_id, thread_id, entity_id), created_at FROM notifications ORDER BY seq DESC"
        )
        for about, created_at in rows:
            if created_at <= since:
                break
            self._told[about] = self._told.get(about, 0) + 1

    def allows(self, news: News) -> bool:
        """Whether neither the same was told just now nor too much of the same work."""
        return self.again_at(news) is None

    def again_at(self, news: News) -> str | None:
        """When it could be told at the earliest; None when it may be told now."""
        last = self._tx.execute(
            "SELECT created_at FROM notifications WHERE entity_id = ? AND type = ? ORDER BY seq DESC LIMIT 1",
            (news.entity_id, news.type),
        ).fetchone()
        if last is not None and last[0] > stamp(self._clock() - AGAIN):
            return stamp(from_stamp(last[0]) + AGAIN)
        # When the first of the hour will be an hour old is not kept: an hour from now is always late enough.
        return None if self._told.get(_about(news), 0) < MOST_AN_HOUR else stamp(self._clock() + HOUR)

    def add(self, news: News) -> NotificationRow:
        """Store it."""
        self._told[_about(news)] = self._told.get(_about(news), 0) + 1
        return _add(self._tx, self._clock, news)


def _about(news: News) -> str:
    return news.job_id or news.thread_id or news.entity_id


def _add(tx: Tx, clock: Clock, news: News) -> NotificationRow:
    now = clock()
    notification_id, created_at = new_id("ntf", now), stamp(now)
    done = tx.execute(
        "INSERT INTO notifications (notification_id, type, reason, entity_id, thread_id, job_id, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (notification_id, news.type, news.reason, news.entity_id, news.thread_id, news.job_id, created_at),
    )
    return NotificationRow(
        seq=int(done.lastrowid or 0),
        notification_id=notification_id,
        type=news.type,
        reason=news.reason,
        entity_id=news.entity_id,
        thread_id=news.thread_id,
        job_id=news.job_id,
        seen_at=None,
        created_at=created_at,
    )


def forget_old(tx: Tx, clock: Clock) -> int:
    """Drop some of what nobody needs any more; what was told stays in the audit as long as that is kept."""
    return tx.execute(
        "DELETE FROM notifications WHERE seq IN (SELECT seq FROM notifications ORDER BY seq LIMIT 200)"
        " AND created_at < ?",
        (stamp(clock() - KEPT),),
    ).rowcount


# Reading


def notifications_before(db: Tx, before: int | None, limit: int, *, unseen: bool) -> list[NotificationRow]:
    """Notifications, the newest first, from below a number on."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM notifications WHERE seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?",  # noqa: S608
        (_LAST if before is None else max(0, min(before, _LAST)), _seen(db) if unseen else 0, limit),
    ).fetchall()
    return [_notification(row) for row in rows]


def _seen(db: Tx) -> int:
    """The number up to which all were seen. Everything up to one is seen at once, so what is not seen are the newest;
    what lies further back than a thousand counts as seen."""
    rows = db.execute("SELECT seq, seen_at FROM notifications ORDER BY seq DESC LIMIT ?", (MOST_COUNTED + 1,))
    seq = 0
    for number, (seq, seen_at) in enumerate(rows):
        if seen_at is not None or number == MOST_COUNTED:
            return int(seq)
    return max(0, seq - 1)


def count_unseen(db: Tx) -> int:
    """How many were not seen yet; more than a thousand are a thousand."""
    row = db.execute("SELECT count(*) FROM notifications WHERE seq > ?", (_seen(db),)).fetchone()
    return int(row[0])


def count_open(db: Tx) -> int:
    """How many were not seen and still ask for something: a question that was answered does not."""
    row = db.execute(
        "SELECT count(*) FROM notifications n WHERE seq > ? AND NOT (type IN ('approval_needed', 'approval_expiring')"
        " AND EXISTS (SELECT 1 FROM proposed_actions a WHERE a.action_id = n.entity_id AND a.status <> 'PENDING'))",
        (_seen(db),),
    ).fetchone()
    return int(row[0])


def see_until(tx: Tx, clock: Clock, notification_id: str) -> int | None:
    """Note that this one and all before it were seen; how many that changed, None when there is no such one."""
    found = tx.execute("SELECT seq FROM notifications WHERE notification_id = ?", (notification_id,)).fetchone()
    if found is None:
        return None
    return tx.execute(
        "UPDATE notifications SET seen_at = ? WHERE seq > ? AND seq <= ? AND seen_at IS NULL",
        (stamp(clock()), _seen(tx), found[0]),
    ).rowcount


# What there is to tell


def get_place(db: Tx) -> int | None:
    """The number of the last event that was looked at; None when none ever was."""
    place = read_meta(db, _CURSOR)
    return None if place is None else int(place)


def set_place(tx: Tx, seq: int) -> None:
    """Keep that number, in the transaction that writes what came of the events up to it."""
    write_meta(tx, _CURSOR, str(seq))


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """An action that waits for the owner's answer."""

    action_id: str
    thread_id: str | None
    job_id: str | None
    created_at: str
    expires_at: str


_WAITING = "SELECT action_id, nullif(thread_id, ''), job_id, created_at, expires_at FROM proposed_actions"
_LIFTED = (
    "EXISTS (SELECT 1 FROM proposed_actions refused WHERE refused.turn_id = proposed_actions.turn_id"
    " AND refused.tool = proposed_actions.tool AND refused.args_hash = proposed_actions.args_hash"
    " AND refused.rowid < proposed_actions.rowid"
    " AND refused.decision_json LIKE '%\"POLICY_BLOCKED_UNTRUSTED_TURN\"%')"
)
"""The owner lifted by hand what was refused in a turn with untrusted content: that is never pushed."""


def waiting_action(db: Tx, action_id: str) -> Waiting | None:
    """The action, if it waits for an answer right now and may be pushed."""
    row = db.execute(
        f"{_WAITING} WHERE action_id = ? AND status = 'PENDING' AND worker IS NULL AND NOT {_LIFTED}"  # noqa: S608
        " AND NOT EXISTS (SELECT 1 FROM audit_log WHERE entity_id = action_id AND event_type = 'tool_reproposed')",
        (action_id,),
    ).fetchone()
    return None if row is None else _waiting(row)


def ending_soon(db: Tx, clock: Clock, without: Collection[str] = ()) -> list[Waiting]:
    """Actions whose time to be answered is nearly over, of which the owner was not reminded."""
    now = clock()
    rows = db.execute(
        f"{_WAITING} WHERE status = 'PENDING' AND worker IS NULL AND expires_at > ? AND expires_at <= ?"  # noqa: S608
        " AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.entity_id = action_id AND n.type = 'approval_expiring')"
        f" AND NOT {_LIFTED}"
        " AND NOT EXISTS (SELECT 1 FROM audit_log WHERE entity_id = action_id AND event_type = 'tool_reproposed')"
        " ORDER BY expires_at LIMIT 500",
        (stamp(now), stamp(now + SOON)),
    ).fetchall()
    found = [_waiting(row) for row in rows if row[0] not in without]
    return [each for each in found if _is_late(each, stamp(now))]


def _is_late(waiting: Waiting, now: str) -> bool:
    begun, end = from_stamp(waiting.created_at), from_stamp(waiting.expires_at)
    return end - from_stamp(now) <= min(SOON, (end - begun) / 2)


def _waiting(row: Sequence[Any]) -> Waiting:
    return Waiting(action_id=row[0], thread_id=row[1], job_id=row[2], created_at=row[3], expires_at=row[4])
