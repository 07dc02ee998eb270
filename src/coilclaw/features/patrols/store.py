"""Runs, alerts and quests in the database. What a run tells is written once, all or nothing."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from coilclaw.config.runner import SELF, PatrolKind
from coilclaw.features.patrols.report import PatrolReport, ReportedFinding, Severity
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.tx import Tx

PatrolState: TypeAlias = Literal["running", "passed", "failed", "not_audited", "error"]
QuestState: TypeAlias = Literal["offered", "taken", "in_review", "done", "dropped"]
OPEN_QUEST: tuple[QuestState, ...] = ("offered", "taken", "in_review")
KEPT_RUNS = 200
"""Of each patrol."""
KEPT_RESOLVED = timedelta(days=90)
MOST_OPEN = 1000
"""Open alerts of one patrol; a program that names new ones in every run fills no disk."""
METERED_AS = "patrol"
"""The provider that patrols stand under in the usage of sessions."""


class PatrolRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one patrol."""

    run_id: str
    repo: str
    room: str
    kind: PatrolKind
    checkout_ref: str
    base: str
    job_id: str
    quest_id: str
    command: str
    format: str
    state: PatrolState
    reason: str
    passed: int
    failed: int
    skipped: int
    findings: int
    seconds: float
    output: str
    started_at: str
    ended_at: str | None

    @property
    def building(self) -> str:
        """What it looked after."""
        return building_of(self.repo, self.room)


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Something a patrol found, once, however often it was seen."""

    alert_id: str
    fingerprint: str
    repo: str
    room: str
    kind: PatrolKind
    severity: Severity
    summary: str
    evidence: dict[str, Json]
    first_seen: str
    raised_at: str
    last_seen: str
    count: int
    run_id: str
    state: Literal["open", "resolved"]
    resolved_at: str | None
    resolved_by: str
    muted_until: str | None
    mute_reason: str

    def muted(self, now: datetime) -> bool:
        """Whether the owner does not want to hear of it now."""
        return self.muted_until is not None and self.muted_until > stamp(now)


class Quest(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as a task."""

    quest_id: str
    alert_id: str
    repo: str
    room: str
    kind: PatrolKind
    title: str
    goal: str
    acceptance: list[str]
    approvals: list[str]
    state: QuestState
    session_id: str
    checked: str
    run_id: str
    reason: str
    created_at: str
    updated_at: str


def building_of(repo: str, room: str) -> str:
    """A repository, or a room of it."""
    return f"{repo}/{room}" if room else repo


_RUN = ", ".join(PatrolRun.__struct_fields__)
_ALERT = ", ".join(Alert.__struct_fields__).replace("evidence", "evidence_json")
_QUEST = (
    ", ".join(Quest.__struct_fields__).replace("acceptance", "acceptance_json").replace("approvals", "approvals_json")
)


def _run(row: tuple[object, ...]) -> PatrolRun:
    return msgspec.convert(dict(zip(PatrolRun.__struct_fields__, row, strict=True)), PatrolRun)


def _alert(row: tuple[object, ...]) -> Alert:
    fields = dict(zip(Alert.__struct_fields__, row, strict=True))
    return msgspec.convert({**fields, "evidence": msgspec.json.decode(str(fields["evidence"]))}, Alert)


def _quest(row: tuple[object, ...]) -> Quest:
    fields = dict(zip(Quest.__struct_fields__, row, strict=True))
    lists = {name: msgspec.json.decode(str(fields[name])) for name in ("acceptance", "approvals")}
    return msgspec.convert({**fields, **lists}, Quest)


# Runs


def begin_run(tx: Tx, clock: Clock, run: PatrolRun) -> PatrolRun:
    """Record that a run has begun; one that is known already is given back as it is."""
    known = load_run(tx, run.run_id)
    if known is not None:
        return known
    places = ", ".join("?" * len(PatrolRun.__struct_fields__))
    tx.execute(f"INSERT INTO patrol_runs ({_RUN}) VALUES ({places})", msgspec.structs.astuple(run))  # noqa: S608
    if run.kind == "test":
        add_event(tx, clock, "test_run_started", run.run_id, _about(run, clock) | {"command": run.command})
    return run


def load_run(db: Tx, run_id: str) -> PatrolRun | None:
    """One run."""
    row = db.execute(f"SELECT {_RUN} FROM patrol_runs WHERE run_id = ?", (run_id,)).fetchone()  # noqa: S608
    return None if row is None else _run(row)


def needed_run(db: Tx, run_id: str) -> PatrolRun:
    """One run that must be there."""
    run = load_run(db, run_id)
    if run is None:
        raise UsageError(f"there is no patrol run {run_id[:80]!r}.", remedy="See `coilclaw patrol list`.")
    return run


def runs_before(db: Tx, before: str | None, limit: int, repo: str | None = None) -> list[PatrolRun]:
    """The newest runs from before an id on."""
    query = f"SELECT {_RUN} FROM patrol_runs WHERE run_id < ? AND (? IS NULL OR repo = ?) ORDER BY run_id DESC LIMIT ?"  # noqa: S608
    return [_run(row) for row in db.execute(query, (before or "~", repo, repo, limit))]


def runs_of_job(db: Tx, job_id: str) -> list[PatrolRun]:
    """The runs of one job, in order."""
    query = f"SELECT {_RUN} FROM patrol_runs WHERE job_id = ? ORDER BY started_at, run_id"  # noqa: S608
    return [_run(row) for row in db.execute(query, (job_id,))]


def unfinished_runs(db: Tx) -> list[PatrolRun]:
    """Runs whose job is over, and that nothing goes on with."""
    query = (
        f"SELECT {', '.join('r.' + name for name in PatrolRun.__struct_fields__)} FROM patrol_runs r"  # noqa: S608
        " LEFT JOIN jobs j ON j.job_id = r.job_id WHERE r.state = 'running'"
        " AND (j.job_id IS NULL OR j.state IN ('DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT'))"
    )
    return [_run(row) for row in db.execute(query)]


def recent_runs(db: Tx, repo: str, room: str, limit: int = 200) -> list[PatrolRun]:
    """The newest ended runs of a building on its current branch, newest first."""
    query = (
        f"SELECT {_RUN} FROM patrol_runs WHERE repo = ? AND room = ? AND state != 'running' AND checkout_ref = ''"  # noqa: S608
        " ORDER BY started_at DESC, run_id DESC LIMIT ?"
    )
    return [_run(row) for row in db.execute(query, (repo, room, limit))]


def buildings_seen(db: Tx) -> list[tuple[str, str]]:
    """Every repository and room that a patrol looked after."""
    return [(row[0], row[1]) for row in db.execute("SELECT DISTINCT repo, room FROM patrol_runs ORDER BY repo, room")]


def finish_run(tx: Tx, clock: Clock, run: PatrolRun, report: PatrolReport | None, base: str) -> PatrolRun:
    """Record how a run ended, with its alerts and its time. A run that has ended stays as it is: nothing is told twice.

    Alerts come from the repository's current branch alone; a branch of a quest changes none.
    """
    known = needed_run(tx, run.run_id)
    if known.state != "running":
        return known
    run = msgspec.structs.replace(run, base=base, ended_at=stamp(clock()))
    settings = ", ".join(f"{name} = ?" for name in PatrolRun.__struct_fields__)
    tx.execute(
        f"UPDATE patrol_runs SET {settings} WHERE run_id = ?",  # noqa: S608
        (*msgspec.structs.astuple(run), run.run_id),
    )
    counts: dict[str, Json] = {"passed": run.passed, "failed": run.failed, "skipped": run.skipped}
    told: dict[str, Json] = {"command": run.command, **counts, "seconds": round(run.seconds, 3)}
    if run.kind == "test":
        add_event(tx, clock, "test_run_finished", run.run_id, _about(run, clock) | told)
    add_event(tx, clock, "patrol_finished", run.run_id, _about(run, clock) | {"kind": run.kind, "state": run.state})
    _meter(tx, clock, run)
    _forget(tx, clock, run)
    if report is not None and not run.checkout_ref:
        _take_in(tx, clock, run, report)
    return run


def _forget(tx: Tx, clock: Clock, run: PatrolRun) -> None:
    """Old runs of the same patrol, and what was resolved long ago: programs of others decide how much there is."""
    place = (run.repo, run.room, run.kind)
    tx.execute(
        "DELETE FROM patrol_runs WHERE repo = ? AND room = ? AND kind = ? AND state != 'running' AND started_at <"
        " (SELECT min(started_at) FROM (SELECT started_at FROM patrol_runs WHERE repo = ? AND room = ? AND kind = ?"
        " ORDER BY started_at DESC LIMIT ?))",
        (*place, *place, KEPT_RUNS),
    )
    tx.execute(
        "DELETE FROM patrol_alerts WHERE state = 'resolved' AND resolved_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM quests q WHERE q.alert_id = patrol_alerts.alert_id)",
        (stamp(clock() - KEPT_RESOLVED),),
    )


def _about(run: PatrolRun, clock: Clock) -> dict[str, Json]:
    return {
        "ts": int(clock().timestamp() * 1000),
        "org_id": SELF,
        "repo_id": run.repo,
        "building": run.building,
        "job_id": run.job_id,
    }


def _meter(tx: Tx, clock: Clock, run: PatrolRun) -> None:
    tx.execute(
        "INSERT INTO session_usage (org_id, month, provider, agent_seconds, terminal_kb, files_touched, patrol_seconds)"
        " VALUES (?, ?, ?, 0, 0, 0, ?)"
        " ON CONFLICT DO UPDATE SET patrol_seconds = patrol_seconds + excluded.patrol_seconds",
        (SELF, stamp(clock())[:7], METERED_AS, -int(-run.seconds // 1)),
    )


# Alerts


def _take_in(tx: Tx, clock: Clock, run: PatrolRun, report: PatrolReport) -> None:
    """Raise what is new, count what is known, resolve what a complete run no longer sees."""
    seen: set[str] = set()
    known = {alert.fingerprint for alert in open_alerts(tx, run.repo, run.room, run.kind)}
    left = MOST_OPEN - len(known)
    for each in report.findings:
        print_ = each.fingerprint(run.building, run.kind)
        if print_ in seen:
            continue
        seen.add(print_)
        left -= print_ not in known
        if print_ in known or left >= 0:
            _raise(tx, clock, run, each, print_)
    if not report.complete:
        return
    for alert in open_alerts(tx, run.repo, run.room, run.kind):
        if alert.fingerprint not in seen:
            resolve(tx, clock, alert, by=run.run_id)


def _raise(tx: Tx, clock: Clock, run: PatrolRun, found: ReportedFinding, fingerprint: str) -> None:
    now = stamp(clock())
    evidence: dict[str, Json] = {
        "run_id": run.run_id, "rule": found.rule, "path": found.path, "line": found.line, "commit": run.base,
    }  # fmt: skip
    row = tx.execute(f"SELECT {_ALERT} FROM patrol_alerts WHERE fingerprint = ?", (fingerprint,)).fetchone()  # noqa: S608
    known = None if row is None else _alert(row)
    new = known is None or known.state == "resolved"
    alert = Alert(
        alert_id=new_id("alert", clock()) if known is None else known.alert_id,
        fingerprint=fingerprint,
        repo=run.repo,
        room=run.room,
        kind=run.kind,
        severity=found.severity,
        summary=found.text or found.rule,
        evidence=evidence,
        first_seen=now if known is None else known.first_seen,
        raised_at=now if known is None or new else known.raised_at,
        last_seen=now,
        count=1 if known is None else known.count + 1,
        run_id=run.run_id,
        state="open",
        resolved_at=None,
        resolved_by="",
        muted_until=None if known is None else known.muted_until,
        mute_reason="" if known is None else known.mute_reason,
    )
    _put_alert(tx, alert)
    if new:
        told: dict[str, Json] = {
            "alert_id": alert.alert_id, "kind": alert.kind, "severity": alert.severity, "fingerprint": fingerprint,
            "summary": alert.summary, "evidence": alert.evidence, "first_seen": alert.first_seen, "count": alert.count,
            "muted": alert.muted(clock()),
        }  # fmt: skip
        add_event(tx, clock, "alert_raised", alert.alert_id, {**_about(run, clock), **told, "untrusted": True})


def _put_alert(tx: Tx, alert: Alert) -> None:
    values = [
        msgspec.json.encode(value).decode() if isinstance(value, dict) else value
        for value in msgspec.structs.astuple(alert)
    ]
    places = ", ".join("?" * len(values))
    tx.execute(
        f"INSERT INTO patrol_alerts ({_ALERT}) VALUES ({places}) ON CONFLICT (alert_id) DO UPDATE SET"  # noqa: S608
        f" {', '.join(f'{name} = excluded.{name}' for name in _ALERT.split(', '))}",
        values,
    )


def open_alerts(db: Tx, repo: str, room: str, kind: str | None = None) -> list[Alert]:
    """What is open in a building."""
    query = (
        f"SELECT {_ALERT} FROM patrol_alerts WHERE state = 'open' AND repo = ? AND room = ?"  # noqa: S608
        " AND (? IS NULL OR kind = ?) ORDER BY first_seen"
    )
    return [_alert(row) for row in db.execute(query, (repo, room, kind, kind))]


def alerts_before(db: Tx, before: str | None, limit: int, *, everything: bool = False) -> list[Alert]:
    """The newest alerts from before an id on; open ones, or also resolved ones."""
    query = (
        f"SELECT {_ALERT} FROM patrol_alerts WHERE alert_id < ? AND (? OR state = 'open')"  # noqa: S608
        " ORDER BY alert_id DESC LIMIT ?"
    )
    return [_alert(row) for row in db.execute(query, (before or "~", everything, limit))]


def needed_alert(db: Tx, alert_id: str) -> Alert:
    """One alert that must be there."""
    row = db.execute(f"SELECT {_ALERT} FROM patrol_alerts WHERE alert_id = ?", (alert_id,)).fetchone()  # noqa: S608
    if row is None:
        raise UsageError(f"there is no alert {alert_id[:80]!r}.", remedy="See `coilclaw alert list`.")
    return _alert(row)


def resolve(tx: Tx, clock: Clock, alert: Alert, *, by: str) -> Alert:
    """Close an alert; if a run sees it again, it is raised again."""
    if alert.state == "resolved":
        return alert
    done = msgspec.structs.replace(alert, state="resolved", resolved_at=stamp(clock()), resolved_by=by)
    _put_alert(tx, done)
    add_event(tx, clock, "alert_resolved", alert.alert_id, {"by": by, "fingerprint": alert.fingerprint})
    for quest in _open_quests_of(tx, alert.alert_id):
        if quest.state == "offered":
            change_quest(tx, clock, quest, "dropped", reason="Its alert is resolved.")
    return done


def mute(tx: Tx, clock: Clock, alert: Alert, *, reason: str, until: datetime, by: str) -> Alert:
    """Mute an alert until then. It is still counted."""
    done = msgspec.structs.replace(alert, muted_until=stamp(until), mute_reason=reason)
    _put_alert(tx, done)
    add_event(tx, clock, "alert_muted", alert.alert_id, {"by": by, "until": stamp(until), "reason": reason})
    return done


# Quests


def add_quest(tx: Tx, clock: Clock, quest: Quest) -> Quest:
    """Offer a quest; where one for its alert is open, that one."""
    known = _open_quests_of(tx, quest.alert_id)
    if known:
        return known[0]
    _put_quest(tx, quest)
    told: dict[str, Json] = {"alert_id": quest.alert_id, "to": quest.state}
    add_event(tx, clock, "quest_state", quest.quest_id, told)
    return quest


def _put_quest(tx: Tx, quest: Quest) -> None:
    values = [
        msgspec.json.encode(value).decode() if isinstance(value, list) else value
        for value in msgspec.structs.astuple(quest)
    ]
    places = ", ".join("?" * len(values))
    tx.execute(
        f"INSERT INTO quests ({_QUEST}) VALUES ({places}) ON CONFLICT (quest_id) DO UPDATE SET"  # noqa: S608
        f" {', '.join(f'{name} = excluded.{name}' for name in _QUEST.split(', '))}",
        values,
    )


def needed_quest(db: Tx, quest_id: str) -> Quest:
    """One quest that must be there."""
    row = db.execute(f"SELECT {_QUEST} FROM quests WHERE quest_id = ?", (quest_id,)).fetchone()  # noqa: S608
    if row is None:
        raise UsageError(f"there is no quest {quest_id[:80]!r}.", remedy="See `coilclaw quest list`.")
    return _quest(row)


def quests_before(db: Tx, before: str | None, limit: int, states: Collection[QuestState] = ()) -> list[Quest]:
    """The newest quests from before an id on, in these states; without any, in all."""
    places = ", ".join("?" * len(states))
    only = f"AND state IN ({places})" if states else ""
    query = f"SELECT {_QUEST} FROM quests WHERE quest_id < ? {only} ORDER BY quest_id DESC LIMIT ?"  # noqa: S608
    return [_quest(row) for row in db.execute(query, (before or "~", *states, limit))]


def _open_quests_of(db: Tx, alert_id: str) -> list[Quest]:
    query = f"SELECT {_QUEST} FROM quests WHERE alert_id = ? AND state IN ('offered', 'taken', 'in_review')"  # noqa: S608
    return [_quest(row) for row in db.execute(query, (alert_id,))]


def unoffered_alerts(db: Tx, severities: Iterable[Severity], limit: int) -> list[Alert]:
    """Open alerts of these severities that had no quest since they were raised."""
    wanted = tuple(severities)
    query = (
        f"SELECT {_ALERT} FROM patrol_alerts a WHERE state = 'open' AND severity IN ({', '.join('?' * len(wanted))})"  # noqa: S608
        " AND NOT EXISTS (SELECT 1 FROM quests q WHERE q.alert_id = a.alert_id AND q.created_at >= a.raised_at)"
        " ORDER BY first_seen LIMIT ?"
    )
    return [_alert(row) for row in db.execute(query, (*wanted, limit))]


def offered_quests(db: Tx, repo: str) -> int:
    """How many quests of a repository are on offer."""
    row = db.execute("SELECT count(*) FROM quests WHERE state = 'offered' AND repo = ?", (repo,)).fetchone()
    return int(row[0])


def sessions_of_quests_since(db: Tx, repo: str, moment: str) -> int:
    """How many sessions began to work on quests of a repository since then."""
    query = (
        "SELECT count(*) FROM quests q JOIN coding_sessions s ON s.session_id = q.session_id"
        " WHERE q.repo = ? AND s.created_at >= ?"
    )
    return int(db.execute(query, (repo, moment)).fetchone()[0])


def rests_since(db: Tx, session_id: str, moment: str) -> bool:
    """Whether the program of a session has said since then that it is done, or waits for the keyboard."""
    query = (
        "SELECT 1 FROM audit_log WHERE entity_id = ? AND event_type = 'session_alert_raised' AND created_at > ?"
        " AND json_extract(payload_json, '$.code') = 'NEEDS_YOU'"
    )
    return db.execute(query, (session_id, moment)).fetchone() is not None


def change_quest(tx: Tx, clock: Clock, quest: Quest, to: QuestState, *, reason: str = "", **more: str) -> Quest:
    """Move a quest on and say so."""
    moved = msgspec.structs.replace(quest, state=to, reason=reason, updated_at=stamp(clock()), **more)
    _put_quest(tx, moved)
    told: dict[str, Json] = {"from": quest.state, "to": to, "session_id": moved.session_id, "run_id": moved.run_id}
    add_event(tx, clock, "quest_state", quest.quest_id, told)
    return moved


def waiting_jobs(db: Tx, key: str) -> int:
    """How many patrol jobs for this have not begun."""
    row = db.execute(
        "SELECT count(*) FROM jobs j WHERE state IN ('RECEIVED', 'PARSED', 'POLICY_CHECKED', 'PLANNED', 'EXECUTING')"
        " AND worker IS NULL AND json_extract(spec_json, '$.inputs.patrol') = ?"
        " AND NOT EXISTS (SELECT 1 FROM patrol_runs r WHERE r.job_id = j.job_id)",
        (key,),
    ).fetchone()
    return int(row[0])
