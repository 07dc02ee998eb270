"""Forecast: everything that is derived from a cron expression and a zone for people to read."""

from datetime import datetime

import msgspec

from coilclaw.jobs.cron_notes import cron_notes
from coilclaw.jobs.cron_parse import parse_cron
from coilclaw.jobs.cron_words import cron_summary
from coilclaw.jobs.moments import written, written_local
from coilclaw.jobs.occurrences import next_runs
from coilclaw.jobs.zones import zones


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The derived fields, by the names they have in `cron/jobs.json`."""

    next_runs_utc: tuple[str, ...]
    next_runs_local: tuple[str, ...]
    cron_summary: str
    cron_notes: str | None


def forecast(cron: str, timezone: str, after: datetime, count: int) -> Forecast:
    """What an expression means and when it runs next; UsageError if it or the zone does not hold."""
    parsed, zone = parse_cron(cron), zones().get(timezone)
    found = next_runs(parsed, zone, after, count)
    return Forecast(
        next_runs_utc=tuple(written(run) for run in found),
        next_runs_local=tuple(written_local(run, zone, timezone) for run in found),
        cron_summary=cron_summary(parsed, timezone),
        cron_notes=cron_notes(parsed, zone, after),
    )
