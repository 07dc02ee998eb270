"""The health of a building: a pure function of its alerts, tests and the age of what is known (docs/patrols.md)."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from coilclaw.features.patrols.report import Severity

COST: dict[Severity, int] = {"critical": 40, "error": 15, "warning": 3, "info": 1}
FRESH = timedelta(days=2)
STALE = timedelta(days=30)
"""From here on nothing is known any more."""
UNSURE = 90
"""The most a building can have while a patrol that it should have was never completed, or could not audit."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the last completed run of a patrol told."""

    ended_at: datetime
    passed: int = 0
    failed: int = 0


def health_of(
    expected: Iterable[str],
    last: Mapping[str, Known],
    doubtful: Iterable[str],
    alerts: Iterable[Severity],
    now: datetime,
) -> int | None:
    """0 to 100; None when nothing is known, which is not the same as well.

    `expected` are the patrols it should have, `last` their last completed runs, `doubtful` those whose newest run could
    not tell (failed to run, or not audited), `alerts` the severities of what is open and not muted.
    """
    current = {kind: known for kind, known in last.items() if now - known.ended_at < STALE}
    if not current:
        return None
    score = 100.0 - min(100, sum(COST[severity] for severity in alerts))
    ran = sum(known.passed + known.failed for known in current.values())
    if ran:
        score *= 0.5 + 0.5 * sum(known.passed for known in current.values()) / ran
    age = now - max(known.ended_at for known in current.values())
    if age > FRESH:
        score *= 1 - 0.5 * (age - FRESH) / (STALE - FRESH)
    unsure = bool(set(expected) - current.keys()) or any(True for _ in doubtful)
    return max(0, min(UNSURE if unsure else 100, int(score)))
