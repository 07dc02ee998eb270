"""Cron: reading an expression and finding its next run in a zone, beside croniter doing the same."""

from collections.abc import Iterator
from datetime import UTC, datetime

from bench.rounds import Timing, timed, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.lib.cron.notes import cron_notes
from coilclaw.lib.cron.occurrences import count_runs, next_run, next_runs
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.words import cron_summary
from coilclaw.lib.cron.zones import zones

ZONE = "America/Los_Angeles"
AFTER = datetime(2026, 5, 5, 12, 34, 56, tzinfo=UTC)
EXPRESSIONS = {
    "every day": "0 17 * * *",
    "business hours": "*/15 9-17 * * MON-FRI",
    "either day": "0 9 13 * 5",
    "every minute": "* * * * *",
    "the leap day": "0 0 29 2 *",
}


def _ours(text: str) -> datetime | None:
    return next_run(parse_cron(text), zones().get(ZONE), AFTER)


def measure(plan: Plan) -> Iterator[Row]:
    """Parse and next per expression; further runs; what is shown; a month of missed minutes."""
    from croniter import croniter

    local = AFTER.astimezone(zones().get(ZONE))
    times = plan.size(300, 50)
    for name, text in EXPRESSIONS.items():
        theirs = croniter(text, local).get_next(datetime)
        if theirs.astimezone(UTC) != _ours(text):
            raise RuntimeError(f"croniter finds another next run of {text}: {theirs}")
        found = timings(
            {
                "ours": timed(lambda text=text: _ours(text), times),
                "croniter": timed(lambda text=text: croniter(text, local).get_next(datetime), times),
            },
            plan.rounds,
        )
        note = f"{_rate(found['ours'])}, croniter {_rate(found['croniter'])}"
        yield beside(
            "cron", f"cron, parse and next, {name} (`{text}`)", "us", found["ours"].scaled(1e6), "croniter",
            found["croniter"].scaled(1e6), at_most=1, note=note,
        )  # fmt: skip
    yield from _alone(plan)


def _alone(plan: Plan) -> Iterator[Row]:
    zone = zones().get(ZONE)
    minute, leap = parse_cron("* * * * *"), parse_cron("0 0 29 2 *")
    month = (datetime(2026, 10, 15, tzinfo=UTC), datetime(2026, 11, 14, tzinfo=UTC))
    found = timings(
        {
            "next": timed(lambda: next_run(minute, zone, AFTER), plan.size(500, 100)),
            "five": timed(lambda: next_runs(leap, zone, AFTER, 5), plan.size(100, 20)),
            "words": timed(lambda: (cron_summary(minute, ZONE), cron_notes(minute, zone, AFTER)), plan.size(20, 5)),
            "count": timed(lambda: count_runs(minute, zone, *month), plan.size(100, 20)),
        },
        plan.rounds,
    )
    yield alone("cron", "cron, next, already read", "us", found["next"].scaled(1e6), note=_rate(found["next"]))
    yield alone("cron", "cron, next five leap days", "ms", found["five"].scaled(1e3), at_most=5)
    yield alone("cron", "cron, summary and notes", "ms", found["words"].scaled(1e3))
    yield alone(
        "cron", "cron, counting a month of missed minutes", "ms", found["count"].scaled(1e3), note="43,140 runs"
    )


def _rate(timing: Timing) -> str:
    return f"{1 / timing.median:,.0f}/s"
