"""Bills: what answers took, by group, and what they cost as far as prices are known."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.config.prices import MILLION
from coilclaw.store.read_connection import reading_apart
from coilclaw.store.tx import Tx
from coilclaw.store.usage import day_began, tokens_since

if TYPE_CHECKING:
    from coilclaw.config import Price
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.usage import UsageRow

UsageBy: TypeAlias = Literal["model", "provider", "day", "job"]


class UsageBill(msgspec.Struct, frozen=True, kw_only=True):
    """What one group took, and what it cost as far as prices are known."""

    group: str
    """The model, the provider, the day as 2026-03-01, or the job; empty for what belongs to no job."""
    answers: int
    input_tokens: int
    cached_tokens: int
    """How many of the input tokens came from a provider's cache, as it reports them."""
    output_tokens: int
    estimated_tokens: int
    """How many of the tokens are our own estimate, because a provider did not say."""
    cost_millionths: int | None
    """In millionths of the currency that the prices are in; null when no price is known."""
    unpriced_tokens: int
    """Tokens of models without a price; the cost leaves them out."""


class Today(msgspec.Struct, frozen=True, kw_only=True):
    """What was used today, and how much may be."""

    tokens: int
    daily_tokens: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `usage` shows."""

    by: str
    since: str
    rows: list[UsageBill]
    total: UsageBill
    today: Today


def usage_report(app: "Runtime", db: Tx, by: str, since: str, rows: "list[UsageRow]") -> Report:
    """What was used since then: a bill for each group, all together, and today's share of the budget."""
    prices = app.config.prices
    today = Today(tokens=tokens_since(db, day_began(app.clock())), daily_tokens=app.config.budgets.daily_tokens)
    return Report(
        by=by, since=since, rows=bills(rows, prices, app.redact), total=bill("total", rows, prices), today=today
    )


def bills(rows: "Iterable[UsageRow]", prices: "Mapping[str, Price]", redact: Callable[[str], str]) -> list[UsageBill]:
    """One bill for each group, in order."""
    groups: dict[str, list[UsageRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return [bill(redact(group), parts, prices) for group, parts in groups.items()]


def bill(group: str, rows: "Iterable[UsageRow]", prices: "Mapping[str, Price]") -> UsageBill:
    """What these rows took together. Costs are added as whole numbers and rounded once, at the end."""
    parts = list(rows)
    priced = [row for row in parts if row.model in prices]
    cost = sum(
        prices[row.model].cost(read=row.input_tokens, cached=row.cached_tokens, written=row.output_tokens)
        for row in priced
    )
    return UsageBill(
        group=group,
        answers=sum(row.answers for row in parts),
        input_tokens=sum(row.input_tokens for row in parts),
        cached_tokens=sum(row.cached_tokens for row in parts),
        output_tokens=sum(row.output_tokens for row in parts),
        estimated_tokens=sum(row.estimated for row in parts),
        cost_millionths=(cost + MILLION // 2) // MILLION if priced else None,
        unpriced_tokens=sum(row.input_tokens + row.output_tokens for row in parts if row.model not in prices),
    )


# Over HTTP


class UsageBudgets(msgspec.Struct, frozen=True, kw_only=True):
    """The ceilings, and what is left of them today."""

    daily_tokens: int
    used_today: int
    left_today: int
    job_tokens: int
    """What one job may use."""
    turn_tokens: int
    """What one turn may use."""


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What answers took."""

    by: UsageBy
    since: str
    rows: list[UsageBill]
    total: UsageBill
    budgets: UsageBudgets


class UsageReports:
    """What answers took."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    async def report(self, by: UsageBy, days: int) -> UsageReport:
        """What was used in so many days, read apart: a year may be many rows."""
        return await asyncio.to_thread(self._report, by, days)

    def _report(self, by: UsageBy, days: int) -> UsageReport:
        from coilclaw.features.status.store import usage_by_provider
        from coilclaw.store.usage import usage_rows

        app = self._app
        since = day_began(app.clock(), days_ago=days - 1)
        with reading_apart(app.db.path) as db:
            rows = usage_by_provider(db, since) if by == "provider" else usage_rows(db, since, by)
            report = usage_report(app, db, by, since, rows)
        used, daily = report.today.tokens, report.today.daily_tokens
        return UsageReport(
            by=by,
            since=since,
            rows=report.rows,
            total=report.total,
            budgets=UsageBudgets(
                daily_tokens=daily,
                used_today=used,
                left_today=max(0, daily - used),
                job_tokens=app.config.budgets.job_tokens,
                turn_tokens=app.config.agent.turn_token_budget,
            ),
        )
