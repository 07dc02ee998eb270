"""Forecast: everything that is derived from a cron expression and a zone for people to read."""

from datetime import datetime

import msgspec

from coilclaw.lib.cron.notes import PLAIN, cron_notes, notes_of
from coilclaw.lib.cron.occurrences import next_runs
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.plain import plain_summary
from coilclaw.lib.cron.time_format import written, written_local
from coilclaw.lib.cron.words import cron_summary
from coilclaw.lib.cron.zones import zones


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The derived fields, by the names they have in `cron/jobs.json`."""

    next_runs_utc: tuple[str, ...]
    next_runs_local: tuple[str, ...]
    cron_summary: str
    cron_notes: str | None


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """The same as people say it."""

    summary: str
    notes: tuple[str, ...]


def plainly(cron: str, timezone: str, after: datetime) -> Plain:
    """What an expression means, for people; UsageError if it or the zone is invalid."""
    parsed, zone = parse_cron(cron), zones().get(timezone)
    return Plain(summary=plain_summary(parsed, timezone), notes=tuple(notes_of(parsed, zone, after, PLAIN)))


def forecast(cron: str, timezone: str, after: datetime, count: int) -> Forecast:
    """What an expression means and when it runs next; UsageError if it or the zone is invalid."""
    parsed, zone = parse_cron(cron), zones().get(timezone)
    found = next_runs(parsed, zone, after, count)
    return Forecast(
        next_runs_utc=tuple(written(run) for run in found),
        next_runs_local=tuple(written_local(run, zone, timezone) for run in found),
        cron_summary=cron_summary(parsed, timezone),
        cron_notes=cron_notes(parsed, zone, after),
    )
