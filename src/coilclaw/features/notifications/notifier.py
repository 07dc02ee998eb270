"""The notifier: follows the audit events and tells the owner of those that ask for a look, each once.

How far it has come and what it told are written in one transaction, so that neither a crash nor a second worker can
lose or double anything.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import msgspec

from coilclaw.config.notify import Notify
from coilclaw.features.jobs.lifecycle import COARSE
from coilclaw.features.notifications.store import (
    News,
    NotificationRow,
    Quota,
    Reason,
    Type,
    Waiting,
    ending_soon,
    forget_old,
    get_place,
    set_place,
    waiting_action,
)
from coilclaw.features.notifications.store.deliveries import MAIL_WAY, URL_WAY, plan_deliveries
from coilclaw.ledger.audit import add_event, last_number
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.job import JobState
from coilclaw.store.database import Database
from coilclaw.store.tx import Tx

WINDOW = 20_000
"""So many events are looked at in one transaction, so that others get to write in between."""
FAR = 2000
"""So many events may lie behind the place that is kept, when nothing in them is worth a write."""
FIRST_LOOK = timedelta(days=1)
"""Where nobody ever looked, older events are no news."""

_FOLLOWED = "event_type IN ('approval_needed', 'job_state', 'reach_out')"
_ENDS: dict[str, Type] = {"COMPLETED": "job_completed", "FAILED": "job_failed"}


class _Event(NamedTuple):
    seq: int
    event_type: str
    entity_id: str
    payload: str


class _Moved(msgspec.Struct, frozen=True):
    to: JobState


class _ReachedOut(msgspec.Struct, frozen=True):
    reason: Reason
    thread_id: str
    job_id: str | None = None


class Notifier:
    """Makes notifications of events, over any number of processes."""

    def __init__(self, *, db: Database, clock: Clock, settings: Callable[[], Notify] = Notify) -> None:
        self._db = db
        self._clock = clock
        self._settings = settings
        self._looked = 0
        """Up to here this process found nothing to tell."""
        self._passed: set[str] = set()
        """Reminders for which there was no room any more."""

    async def tick(self) -> int:
        """Tell what there is to tell now; how many notifications that made. Looking at nothing writes nothing."""
        made = 0
        while self._has_news():
            told, done = await self._db.write(self._tell)
            made += told
            if done:
                break
        return made

    def _has_news(self) -> bool:
        db = self._db.reader
        place, newest = get_place(db), last_number(db)
        if place is None:
            return True
        start = max(place, self._looked)
        if newest > start:
            if _any_followed(db, start, newest):
                return True
            self._looked = newest
        return newest - place > FAR or bool(ending_soon(db, self._clock, self._passed))

    def _tell(self, tx: Tx) -> tuple[int, bool]:
        """One stretch of events and what is about to end: how many were told, and whether this was all."""
        place = get_place(tx)
        start = _first_place(tx, self._clock) if place is None else place
        newest = last_number(tx)
        until = min(newest, start + WINDOW)
        quota = Quota(tx, self._clock)
        made = 0
        for event in _followed(tx, start, until):
            news = _news_of(tx, event)
            if news is not None and quota.allows(news):
                self._say(tx, quota.add(news))
                made += 1
        for waiting in ending_soon(tx, self._clock, self._passed):
            news = _about(waiting, "approval_expiring")
            if quota.allows(news):
                self._say(tx, quota.add(news))
                made += 1
            else:
                self._passed.add(waiting.action_id)
        set_place(tx, until)
        if made:
            forget_old(tx, self._clock)
        return made, until == newest

    def _say(self, tx: Tx, row: NotificationRow) -> None:
        payload: dict[str, Json] = {
            "notification_id": row.notification_id,
            "type": row.type,
            "reason": row.reason,
            "thread_id": row.thread_id,
            "job_id": row.job_id,
        }
        add_event(tx, self._clock, "notification_added", row.entity_id, payload)
        settings = self._settings()
        if row.type in settings.types:
            plan_deliveries(tx, self._clock, row, _ways(settings))


def _ways(settings: Notify) -> list[str]:
    """Where the owner has notifications sent to, beside browsers."""
    return [URL_WAY] * bool(settings.url) + [MAIL_WAY] * bool(settings.smtp.host)


def _any_followed(db: Tx, start: int, until: int) -> bool:
    found = db.execute(
        f"SELECT 1 FROM audit_log WHERE seq > ? AND seq <= ? AND {_FOLLOWED} LIMIT 1",  # noqa: S608
        (start, until),
    )
    return found.fetchone() is not None


def _followed(tx: Tx, start: int, until: int) -> list[_Event]:
    rows = tx.execute(
        "SELECT seq, event_type, entity_id, payload_json FROM audit_log"  # noqa: S608
        f" WHERE seq > ? AND seq <= ? AND {_FOLLOWED} ORDER BY seq",
        (start, until),
    ).fetchall()
    return [_Event._make(row) for row in rows]


def _first_place(tx: Tx, clock: Clock) -> int:
    """The number before the first event that is still news."""
    row = tx.execute(
        "SELECT seq FROM audit_log WHERE created_at >= ? ORDER BY created_at, seq LIMIT 1",
        (stamp(clock() - FIRST_LOOK),),
    ).fetchone()
    return last_number(tx) if row is None else int(row[0]) - 1


def _news_of(tx: Tx, event: _Event) -> News | None:
    """What an event means to the owner; None when it is over already, or nothing they need to be told."""
    try:
        match event.event_type:
            case "approval_needed":
                waiting = waiting_action(tx, event.entity_id)
                return None if waiting is None else _about(waiting, "approval_needed")
            case "job_state":
                return _end_of_job(tx, event)
            case _:
                told = msgspec.json.decode(event.payload, type=_ReachedOut)
                return News(
                    type="proactive_reach_out",
                    entity_id=told.job_id or told.thread_id,
                    thread_id=told.thread_id,
                    job_id=told.job_id,
                    reason=told.reason,
                )
    except msgspec.DecodeError:  # a payload that nobody can read tells nothing
        return None


def _end_of_job(tx: Tx, event: _Event) -> News | None:
    kind = _ENDS.get(COARSE[msgspec.json.decode(event.payload, type=_Moved).to])
    if kind is None:
        return None
    row = tx.execute("SELECT thread_id FROM jobs WHERE job_id = ?", (event.entity_id,)).fetchone()
    return News(type=kind, entity_id=event.entity_id, thread_id=None if row is None else row[0], job_id=event.entity_id)


def _about(waiting: Waiting, kind: Type) -> News:
    return News(type=kind, entity_id=waiting.action_id, thread_id=waiting.thread_id, job_id=waiting.job_id)
