"""Runs, alerts, quests and buildings as they are shown, at the terminal and over HTTP."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.config.runner import OFF, PatrolKind
from coilclaw.features.patrols.health import Known, health_of
from coilclaw.features.patrols.report import Severity
from coilclaw.features.patrols.store import (
    Alert,
    PatrolRun,
    PatrolState,
    Quest,
    QuestState,
    building_of,
    buildings_seen,
    open_alerts,
    recent_runs,
)
from coilclaw.features.patrols.target import KINDS, settings_of
from coilclaw.features.runner.sources import sources_of
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import from_stamp

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.tx import Tx

TREND = 20
"""How many past runs a trend shows."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a patrol."""

    run_id: str
    repo: str
    room: str
    building: str
    kind: PatrolKind
    state: PatrolState
    reason: str
    command: str
    format: str
    """What its output was read as; empty before it was."""
    passed: int
    failed: int
    skipped: int
    findings: int
    seconds: float
    base: str
    """The commit that was looked at."""
    job_id: str
    quest_id: str
    started_at: str
    ended_at: str | None


class RunShown(RunView, frozen=True, kw_only=True):
    """A run with the end of what its command wrote: anybody's words."""

    output: str


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """Something a patrol found. Its words are those of the program that found it: untrusted."""

    alert_id: str
    kind: PatrolKind
    severity: Severity
    building: str
    repo: str
    room: str
    fingerprint: str
    summary: str
    evidence: dict[str, Json]
    first_seen: str
    last_seen: str
    count: int
    state: Literal["open", "muted", "resolved"]
    muted_until: str | None
    mute_reason: str
    resolved_at: str | None


class QuestView(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as a task."""

    quest_id: str
    alert_id: str
    repo: str
    building: str
    kind: PatrolKind
    title: str
    goal: str
    acceptance: list[str]
    approvals: list[str]
    """What the owner will be asked before the work can leave: `merge`, `deps_add`."""
    state: QuestState
    session_id: str
    run_id: str
    """The run that looked at its branch last."""
    reason: str
    created_at: str
    updated_at: str


class TrendPoint(msgspec.Struct, frozen=True, kw_only=True):
    """How one past run went."""

    state: PatrolState
    findings: int
    failed: int
    at: str


class PatrolView(msgspec.Struct, frozen=True, kw_only=True):
    """One patrol of a building: how it went last, and before."""

    kind: PatrolKind
    command: str
    """The owner's own command; empty: what its files suggest."""
    last: RunView | None
    trend: list[TrendPoint]
    """The oldest first."""


class BuildingView(msgspec.Struct, frozen=True, kw_only=True):
    """A repository, or a room of it, and how it is."""

    building: str
    repo: str
    room: str
    health: int | None
    """0 to 100; null when nothing is known."""
    alerts: int
    """Open and not muted."""
    patrols: list[PatrolView]


def run_view(run: PatrolRun) -> RunView:
    """A run for a list."""
    return msgspec.convert(run, RunView, from_attributes=True)


def run_shown(run: PatrolRun) -> RunShown:
    """A run with everything."""
    return msgspec.convert(run, RunShown, from_attributes=True)


def run_words(run: PatrolRun) -> str:
    """How a run went, in a line. Nothing in it is the program's own words."""
    what = f"{run.kind} of {run.building}"
    if run.kind == "suggest" and run.state == "passed":
        return f"{what}: {run.findings} quest{'s' * (run.findings != 1)} taken."
    if run.state in ("error", "not_audited"):
        return f"{what}: {run.reason}"
    tests = f", {run.passed} passed, {run.failed} failed, {run.skipped} skipped" if run.passed or run.failed else ""
    findings = f"{run.findings} finding{'s' * (run.findings != 1)}"
    return f"{what}: {run.state}{tests}, {findings}, {run.seconds:.1f} s."


def alert_view(alert: Alert, now: datetime) -> AlertView:
    """An alert."""
    fields = {name: getattr(alert, name) for name in Alert.__struct_fields__}
    shown = "muted" if alert.state == "open" and alert.muted(now) else alert.state
    return msgspec.convert(
        {**fields, "building": building_of(alert.repo, alert.room), "state": shown}, AlertView, strict=True
    )


def quest_view(quest: Quest) -> QuestView:
    """A quest."""
    fields = {name: getattr(quest, name) for name in Quest.__struct_fields__}
    return msgspec.convert({**fields, "building": building_of(quest.repo, quest.room)}, QuestView)


def buildings_of(app: "Runtime") -> list[BuildingView]:
    """Every building: those of the configuration, and those that a patrol has looked after."""
    db = app.db.reader
    known = sources_of(app)
    named = {(name, room) for name in known for room in settings_of(app, name).patrol_rooms or ("",)}
    seen = {(repo, room) for repo, room in buildings_seen(db) if repo in known}
    return [_building(app, db, repo, room) for repo, room in sorted(named | seen)]


def _building(app: "Runtime", db: "Tx", repo: str, room: str) -> BuildingView:
    runs = recent_runs(db, repo, room)
    settings, now = settings_of(app, repo), app.clock()
    configured = {kind: command for kind, command in settings.patrols.items() if command != OFF}
    newest: dict[PatrolKind, PatrolRun] = {}
    last: dict[str, Known] = {}
    for run in runs:
        newest.setdefault(run.kind, run)
        told = run.kind != "suggest" and run.kind not in last  # it says nothing about the repository
        if told and run.state in ("passed", "failed") and run.ended_at is not None:
            tests = run if run.kind == "test" else None
            passed, failed = (0, 0) if tests is None else (tests.passed, tests.failed)
            last[run.kind] = Known(ended_at=from_stamp(run.ended_at), passed=passed, failed=failed)
    unsure = (run for run in newest.values() if run.state in ("error", "not_audited"))
    doubtful = [run.kind for run in unsure if run.kind != "suggest"]
    alerts = [each for each in open_alerts(db, repo, room) if not each.muted(now)]
    kinds: list[PatrolKind] = [kind for kind in KINDS if kind in configured or kind in newest]
    return BuildingView(
        building=building_of(repo, room),
        repo=repo,
        room=room,
        health=health_of(configured.keys() - {"suggest"}, last, doubtful, [each.severity for each in alerts], now),
        alerts=len(alerts),
        patrols=[_patrol(kind, configured.get(kind, ""), [run for run in runs if run.kind == kind]) for kind in kinds],
    )


def _patrol(kind: PatrolKind, command: str, runs: list[PatrolRun]) -> PatrolView:
    trend = [
        TrendPoint(state=run.state, findings=run.findings, failed=run.failed, at=run.started_at)
        for run in reversed(runs[:TREND])
    ]
    return PatrolView(kind=kind, command=command, last=run_view(runs[0]) if runs else None, trend=trend)
