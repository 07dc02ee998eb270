"""Overview: what happened day by day and what waits now, counted. A table is read only where a day's rows lie, and a
day that is long over is counted once for all who ask within a while."""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias

import msgspec

from coilclaw.features.notifications.store import count_open
from coilclaw.packets.decision import Risk, Verdict
from coilclaw.packets.ids import Clock, from_stamp, stamp
from coilclaw.packets.job import ENDED, JobSpec, JobState
from coilclaw.store.read_connection import reading_apart
from coilclaw.store.tx import Tx
from coilclaw.store.usage import UsageRow, day_began, usage_row

Table: TypeAlias = Literal["proposed_actions", "jobs", "schedule_runs"]
Said: TypeAlias = Literal["approved", "rejected", "expired", "waiting"]

MOST_WAITS = 1000
"""Of so many answers of a day, the newest, the waits are looked at."""
MOST_EVIDENCE = 1000
"""Of so many jobs that are over, the newest, the evidence is looked at."""
SETTLED = timedelta(days=3)
"""What is older hardly changes any more, and is not counted at every look."""
COUNTED_AGAIN = timedelta(minutes=10)
"""But then it is."""


class DayCount(msgspec.Struct, frozen=True, kw_only=True):
    """What happened on one day (UTC): jobs by the state they are in now, actions by what was decided and became."""

    day: str
    jobs: dict[JobState, int]
    verdicts: dict[Verdict, int]
    risks: dict[Risk, int]
    tools: dict[str, dict[str, int]]
    """Calls by tool, and by the status they have now."""
    answers: dict[Said, int]
    waits: tuple[float, ...]
    """Seconds from a question to its answer."""
    runs: dict[str, int]
    """Runs of schedules by how they ended, `STARTED` while they run; slots that were skipped as `SKIPPED`."""
    usage: tuple[UsageRow, ...]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are over, and how many of them left all they had to."""

    looked_at: int
    complete: int


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for the owner now."""

    approvals: int
    unknown_actions: int
    paused_schedules: int
    paused_jobs: int
    waiting_jobs: int
    notifications: int


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was counted."""

    days: tuple[DayCount, ...]
    """The oldest first; a day on which nothing happened is there too."""
    evidence: Evidence
    waits: Waits

    def total(self, field: Literal["verdicts", "risks", "answers", "runs"]) -> Counter[str]:
        """One of the counts over all days."""
        whole: Counter[str] = Counter()
        for day in self.days:
            whole.update(getattr(day, field))
        return whole

    def tools(self, most: int) -> list[tuple[str, Counter[str]]]:
        """The tools that were called most, by what became of the calls."""
        whole: dict[str, Counter[str]] = {}
        for day in self.days:
            for tool, count in day.tools.items():
                whole.setdefault(tool, Counter()).update(count)
        return sorted(whole.items(), key=lambda item: (-item[1].total(), item[0]))[:most]

    def median_wait(self) -> float | None:
        """Of all answers; None when there were none."""
        waits = [wait for day in self.days for wait in day.waits]
        return round(median(waits), 3) if waits else None


class OverviewReader:
    """Counts, with a connection of its own, so that it may do so in a thread of its own."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[datetime, DayCount]] = {}
        """By day, and when it was counted."""

    def count(self, days: int) -> Counted:
        """Count the last days, today included."""
        with self._lock, reading_apart(self._path) as db:
            now = self._clock()
            starts = [day_began(now, days_ago=ago) for ago in range(days - 1, -2, -1)]
            found = [self._day(db, now, start, end) for start, end in pairwise(starts)]
            return Counted(days=tuple(found), evidence=count_evidence(db, starts[0]), waits=count_waits(db))

    def _day(self, db: Tx, now: datetime, start: str, end: str) -> DayCount:
        kept = self._kept.get(start)
        if kept is not None and timedelta() <= now - kept[0] < COUNTED_AGAIN:
            return kept[1]
        made = count_day(db, start, end)
        if end < stamp(now - SETTLED):
            self._kept[start] = (now, made)
        return made


def first_row(db: Tx, table: Table, since: str) -> int:
    """The first row of a table that was written at a time or later, found by halving: rows are numbered as they come,
    so that no index is needed."""
    low, high = db.execute(
        f"SELECT coalesce((SELECT min(rowid) FROM {table}), 1), coalesce((SELECT max(rowid) FROM {table}), 0) + 1"  # noqa: S608
    ).fetchone()
    while low < high:
        middle = (low + high) // 2
        row = db.execute(
            f"SELECT rowid, created_at FROM {table} WHERE rowid >= ? ORDER BY rowid LIMIT 1",  # noqa: S608
            (middle,),
        ).fetchone()
        if row is None or row[1] >= since:
            high = middle
        else:
            low = row[0] + 1
    return int(low)


def count_day(db: Tx, start: str, end: str) -> DayCount:
    """Count what was made from one time on and before another."""
    places: dict[Table, tuple[int, int]] = {
        table: (first_row(db, table, start), first_row(db, table, end))
        for table in ("proposed_actions", "jobs", "schedule_runs")
    }
    verdicts, risks, answers, tools = _actions(db, places["proposed_actions"])
    jobs: dict[JobState, int] = dict(
        db.execute(
            "SELECT state, count(*) FROM jobs WHERE rowid >= ? AND rowid < ? GROUP BY +state", places["jobs"]
        ).fetchall()
    )
    return DayCount(
        day=start[:10],
        jobs=jobs,
        verdicts=verdicts,
        risks=risks,
        tools=tools,
        answers=answers,
        waits=_waited(db, places["proposed_actions"]),
        runs=_runs(db, places["schedule_runs"]),
        usage=_usage(db, start, end),
    )


# Actions

_DECIDED = re.compile(r'\{"verdict":"(allow|ask|deny)","risk":"(R[0-3])"')
_Actions: TypeAlias = tuple[dict[Verdict, int], dict[Risk, int], dict[Said, int], dict[str, dict[str, int]]]


def _actions(db: Tx, place: tuple[int, int]) -> _Actions:
    """One pass over the actions. A decision begins with its verdict and its risk, so that its JSON need not be read.

    What the owner did through the panel (`gateway`) counts as a call; nobody asked them about it.
    """
    rows = db.execute(
        "SELECT substr(decision_json, 1, 30) AS decided, tool, status, approved_by IS NOT NULL AS yes,"
        " rejection_reason IS 'expired' AS late, source = 'gateway' AS own, count(*)"
        " FROM proposed_actions WHERE rowid >= ? AND rowid < ?"
        " GROUP BY decided, tool, +status, yes, late, own",
        place,
    ).fetchall()
    verdicts: Counter[Verdict] = Counter()
    risks: Counter[Risk] = Counter()
    answers: Counter[Said] = Counter()
    tools: dict[str, Counter[str]] = {}
    for decided, tool, status, yes, late, own, count in rows:
        tools.setdefault(tool, Counter())[status] += count
        found = _DECIDED.match(decided)
        if found is None or own:
            continue
        verdicts[found[1]] += count  # pyright: ignore[reportArgumentType] - one of the three
        risks[found[2]] += count  # pyright: ignore[reportArgumentType] - one of the four
        if found[1] == "ask":
            answers[_said(status, yes=bool(yes), late=bool(late))] += count
    return dict(verdicts), dict(risks), dict(answers), {tool: dict(count) for tool, count in tools.items()}


def _said(status: str, *, yes: bool, late: bool) -> Said:
    if yes:
        return "approved"
    if status == "PENDING":
        return "waiting"
    return "expired" if late else "rejected"


def _waited(db: Tx, place: tuple[int, int]) -> tuple[float, ...]:
    rows = db.execute(
        "SELECT created_at, coalesce(approved_at, updated_at) FROM proposed_actions WHERE rowid >= ? AND rowid < ?"
        " AND source <> 'gateway'"
        " AND (approved_by IS NOT NULL OR (status = 'REJECTED' AND rejection_reason IS NOT 'expired'"
        ' AND substr(decision_json, 1, 16) = \'{"verdict":"ask"\')) ORDER BY rowid DESC LIMIT ?',
        (*place, MOST_WAITS),
    ).fetchall()
    return tuple((from_stamp(answered) - from_stamp(asked)).total_seconds() for asked, answered in rows)


# Schedules and tokens


def _runs(db: Tx, place: tuple[int, int]) -> dict[str, int]:
    rows = db.execute(
        "SELECT state, outcome, count(*), sum(slots) FROM schedule_runs WHERE rowid >= ? AND rowid < ?"
        " GROUP BY +state, outcome",
        place,
    ).fetchall()
    ends: Counter[str] = Counter()
    for state, outcome, count, slots in rows:
        ends[outcome if state == "ENDED" else state] += slots if state == "SKIPPED" else count
    return dict(ends)


def _usage(db: Tx, start: str, end: str) -> tuple[UsageRow, ...]:
    rows: Sequence[tuple[Any, ...]] = db.execute(
        "SELECT model, count(*), sum(input_tokens), sum(output_tokens),"
        " sum(CASE WHEN estimated THEN input_tokens + output_tokens ELSE 0 END), sum(cached_tokens)"
        " FROM usage WHERE created_at >= ? AND created_at < ? GROUP BY model",
        (start, end),
    ).fetchall()
    return tuple(usage_row(start[:10], *row) for row in rows)


# Evidence

_SPEC = msgspec.json.Decoder(JobSpec)
_ENDED = ", ".join(f"'{state}'" for state in sorted(ENDED))


def count_evidence(db: Tx, since: str) -> Evidence:
    """How many of the newest jobs that are over left their manifest and everything that was required of them."""
    rows = db.execute(
        f"SELECT job_id, spec_json FROM jobs WHERE rowid >= ? AND +state IN ({_ENDED}) ORDER BY rowid DESC LIMIT ?",  # noqa: S608
        (first_row(db, "jobs", since), MOST_EVIDENCE),
    ).fetchall()
    marks = ", ".join("?" * len(rows))
    manifests = db.execute(
        f"SELECT DISTINCT job_id FROM artifacts WHERE job_id IN ({marks}) AND type = 'evidence_manifest'",  # noqa: S608
        [row[0] for row in rows],
    ).fetchall()
    shown = {row[0] for row in manifests}
    complete = sum(row[0] in shown and _left(db, row[0], _required(row[1])) for row in rows)
    return Evidence(looked_at=len(rows), complete=complete)


def _required(spec: str) -> tuple[str, ...]:
    try:
        return _SPEC.decode(spec).outputs.evidence_required
    except msgspec.DecodeError:
        return ("",)  # nobody knows what it had to leave


def _left(db: Tx, job_id: str, required: Iterable[str]) -> bool:
    """Whether a job left everything it had to, as an artifact's name or kind."""
    wanted = set(required)
    if not wanted:
        return True
    rows = db.execute(
        "SELECT name, type FROM artifacts WHERE job_id = ? AND type <> 'evidence_manifest'", (job_id,)
    ).fetchall()
    return wanted <= {word for row in rows for word in row}


# Now


def count_waits(db: Tx) -> Waits:
    """What waits for the owner at this moment."""

    def count(rest: str) -> int:
        return int(db.execute(f"SELECT count(*) FROM {rest}").fetchone()[0])  # noqa: S608

    return Waits(
        approvals=count("proposed_actions WHERE status = 'PENDING' AND worker IS NULL"),
        unknown_actions=count("proposed_actions WHERE status = 'UNKNOWN'"),
        paused_schedules=count("schedules WHERE paused_reason IS NOT NULL"),
        paused_jobs=count("jobs WHERE state = 'PAUSED_BUDGET'"),
        waiting_jobs=count("jobs WHERE state IN ('WAITING_APPROVAL', 'PR_OPENED')"),
        notifications=count_open(db),
    )


def usage_by_provider(db: Tx, since: str) -> list[UsageRow]:
    """What was used from a moment on: one row for each provider and model, in the order of the providers."""
    rows = db.execute(
        "SELECT provider, model, count(*), sum(input_tokens), sum(output_tokens),"
        " sum(CASE WHEN estimated THEN input_tokens + output_tokens ELSE 0 END), sum(cached_tokens)"
        " FROM usage WHERE created_at >= ? GROUP BY provider, model ORDER BY provider, model",
        (since,),
    )
    return [usage_row(*row) for row in rows]
