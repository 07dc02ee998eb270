"""Usage: the tokens of each answer, by model, day and job. Days are UTC."""

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.tx import Tx

By: TypeAlias = Literal["model", "day", "job"]


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one group of answers by one model."""

    group: str
    """The model, the day as 2026-03-01, or the job; empty outside jobs."""
    model: str
    answers: int
    input_tokens: int
    output_tokens: int
    estimated: int
    """How many of the tokens are our own estimate, because the provider did not report any."""
    cached_tokens: int = 0
    """How many of the input tokens came from the provider's cache, as it reports them."""


def add_usage(
    tx: Tx,
    clock: Clock,
    *,
    thread_id: str,
    turn_id: str,
    job_id: str | None,
    provider: str,
    model: str,
    input_tokens: int,
    output_tokens: int,
    estimated: bool,
    cached_tokens: int = 0,
) -> None:
    """Record the usage of one answer, in the caller's transaction."""
    now = clock()
    tx.execute(
        "INSERT INTO usage (usage_id, thread_id, turn_id, job_id, provider, model, input_tokens, output_tokens,"
        " estimated, created_at, cached_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new_id("use", now),
            thread_id,
            turn_id,
            job_id,
            provider,
            model,
            max(0, input_tokens),  # a provider's count must not lower a total
            max(0, output_tokens),
            int(estimated),
            stamp(now),
            min(max(0, cached_tokens), max(0, input_tokens)),  # never more than was read
        ),
    )


def day_began(moment: datetime, *, days_ago: int = 0) -> str:
    """The stamp of the midnight (UTC) at which a day began."""
    day = moment.astimezone(UTC) - timedelta(days=days_ago)
    return stamp(day.replace(hour=0, minute=0, second=0, microsecond=0))


def tokens_since(db: Tx, since: str) -> int:
    """Tokens in and out since a time."""
    row = db.execute(
        "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM usage WHERE created_at >= ?", (since,)
    ).fetchone()
    return int(row[0])


def tokens_of_job(db: Tx, job_id: str) -> int:
    """Tokens in and out used by a job so far."""
    row = db.execute(
        "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM usage WHERE job_id = ?", (job_id,)
    ).fetchone()
    return int(row[0])


def tokens_of_turn(db: Tx, turn_id: str, *, since: str) -> int:
    """Tokens in and out used by a turn so far; `since` is any time before its first answer."""
    row = db.execute(
        "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM usage WHERE created_at >= ? AND turn_id = ?",
        (since, turn_id),
    ).fetchone()
    return int(row[0])


_GROUPS: dict[By, str] = {"model": "model", "day": "substr(created_at, 1, 10)", "job": "coalesce(job_id, '')"}


def models_of_job(db: Tx, job_id: str) -> tuple[str, ...]:
    """The models that worked on a job, by name."""
    rows = db.execute("SELECT DISTINCT model FROM usage WHERE job_id = ? ORDER BY model", (job_id,))
    return tuple(row[0] for row in rows)


def usage_rows(db: Tx, since: str, by: By, thread_id: str | None = None) -> list[UsageRow]:
    """Usage since a time, of all or one conversation: one row per group and model, in order."""
    rows = db.execute(
        f"SELECT {_GROUPS[by]} AS part, model, count(*), sum(input_tokens), sum(output_tokens),"  # noqa: S608
        " sum(CASE WHEN estimated THEN input_tokens + output_tokens ELSE 0 END), sum(cached_tokens)"
        " FROM usage WHERE created_at >= ? AND (? IS NULL OR thread_id = ?) GROUP BY part, model ORDER BY part, model",
        (since, thread_id, thread_id),
    )
    return [usage_row(*row) for row in rows]


def usage_row(group: str, model: str, answers: int, read: int, written: int, estimated: int, cached: int) -> UsageRow:
    """A row as the database sums it up."""
    return UsageRow(
        group=group,
        model=model,
        answers=answers,
        input_tokens=read,
        output_tokens=written,
        estimated=estimated,
        cached_tokens=cached,
    )
