"""The notifier: follows the audit events and tells the owner of those that ask for a look, each once.

How far it has come and what it told are written in one transaction, so that neither a crash nor a second worker can
lose or double anything.
"""

from collections.abc import Callable

import msgspec

from coilclaw.config.notify import Notify
from coilclaw.features.jobs.lifecycle import COARSE
from coilclaw.features.notifications.store import (
    GUEST,
    News,
    NotificationRow,
    Quota,
    Reason,
    Type,
    Waiting,
    account_id,
    ending_soon,
    forget_old,
    get_place,
    set_place,
    waiting_action,
)
from coilclaw.features.notifications.store.deliveries import MAIL_WAY, URL_WAY, plan_deliveries
from coilclaw.features.notifications.store.followed import (
    FollowedEvent,
    any_followed,
    first_place,
    followed,
    thread_of_job,
)
from coilclaw.ledger.audit import add_event, last_number
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import JobState
from coilclaw.store.database import Database
from coilclaw.store.tx import Tx

WINDOW = 20_000
"""So many events are looked at in one transaction, so that others get to write in between."""
FAR = 2000
"""So many events may lie behind the place that is kept, when nothing in them is worth a write."""

_GRAVE = frozenset({"error", "critical"})
"""Alerts that somebody should look at; the others stand in their list."""
_ENDS: dict[str, Type] = {"COMPLETED": "job_completed", "FAILED": "job_failed"}


class _Moved(msgspec.Struct, frozen=True):
    to: JobState


class _Alerted(msgspec.Struct, frozen=True):
    severity: str
    job_id: str = ""
    code: str = ""
    muted: bool = False


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
            if any_followed(db, start, newest):
                return True
            self._looked = newest
        return newest - place > FAR or bool(ending_soon(db, self._clock, self._passed))

    def _tell(self, tx: Tx) -> tuple[int, bool]:
        """One stretch of events and what is about to end: how many were told, and whether this was all."""
        place = get_place(tx)
        start = first_place(tx, self._clock) if place is None else place
        newest = last_number(tx)
        until = min(newest, start + WINDOW)
        quota = Quota(tx, self._clock)
        made = 0
        for event in followed(tx, start, until):
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


def _news_of(tx: Tx, event: FollowedEvent) -> News | None:
    """What an event means to the owner; None when it is over already, or nothing they need to be told."""
    try:
        match event.event_type:
            case "approval_needed":
                waiting = waiting_action(tx, event.entity_id)
                return None if waiting is None else _about(waiting, "approval_needed")
            case "job_state":
                return _end_of_job(tx, event)
            case "oauth_reconnect_needed":
                return News(
                    type="proactive_reach_out",
                    entity_id=account_id(event.entity_id),
                    thread_id=None,
                    job_id=None,
                    reason="operator_attention_needed",
                )
            case "guest_changed":
                return News(
                    type="proactive_reach_out",
                    entity_id=GUEST + event.entity_id,
                    thread_id=None,
                    job_id=None,
                    reason="operator_attention_needed",
                )
            case "alert_raised":
                return _of_patrol(msgspec.json.decode(event.payload, type=_Alerted))
            case "session_alert_raised":
                waits = msgspec.json.decode(event.payload, type=_Alerted).code == "NEEDS_YOU"
                return _waiting(event.entity_id) if waits else None
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


def _of_patrol(alert: _Alerted) -> News | None:
    """All that one patrol raised is one notification, however much a repository makes its programs say."""
    if alert.severity not in _GRAVE or alert.muted or not alert.job_id:
        return None
    return News(type="alert_raised", entity_id=alert.job_id, thread_id=None, job_id=alert.job_id)


def _waiting(session_id: str) -> News:
    return News(type="session_waiting", entity_id=session_id, thread_id=None, job_id=None)


def _end_of_job(tx: Tx, event: FollowedEvent) -> News | None:
    kind = _ENDS.get(COARSE[msgspec.json.decode(event.payload, type=_Moved).to])
    if kind is None:
        return None
    thread_id = thread_of_job(tx, event.entity_id)
    return News(type=kind, entity_id=event.entity_id, thread_id=thread_id, job_id=event.entity_id)


def _about(waiting: Waiting, kind: Type) -> News:
    return News(type=kind, entity_id=waiting.action_id, thread_id=waiting.thread_id, job_id=waiting.job_id)
