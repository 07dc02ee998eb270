"""coilclaw usage."""

import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli.output import json_option, print_json, print_rows
from coilclaw.cli.session import opened

if TYPE_CHECKING:
    from coilclaw.config import Price
    from coilclaw.store.usage import By, UsageRow

MILLION = 1_000_000


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What one group took, and what it cost as far as prices are known."""

    group: str
    answers: int
    input_tokens: int
    output_tokens: int
    estimated_tokens: int
    cost_millionths: int | None
    """In millionths of the currency that the prices are in; None when no price is known."""
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
    rows: list[Bill]
    total: Bill
    today: Today


@click.command()
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 36_500), help="How many days, with today.")
@click.option("--by", default="model", show_default=True, type=click.Choice(["model", "day", "job"]))
@json_option
def usage(days: int, by: "By", as_json: bool) -> None:
    """Show the tokens that were used, what they cost, and today's share of the budget. Days are UTC."""
    from coilclaw.store.usage import day_began, tokens_since, usage_rows

    with opened() as app:
        now, db = app.clock(), app.db.reader
        since = day_began(now, days_ago=days - 1)
        found = usage_rows(db, since, by)
        today = Today(tokens=tokens_since(db, day_began(now)), daily_tokens=app.config.budgets.daily_tokens)
        prices = app.config.prices
        report = Report(
            by=by,
            since=since,
            rows=bills(found, prices, app.redact),
            total=bill("total", found, prices),
            today=today,
        )
    if as_json:
        print_json(report)
    else:
        _print(report)


def bills(rows: "Iterable[UsageRow]", prices: "Mapping[str, Price]", redact: Callable[[str], str]) -> list[Bill]:
    """One bill for each group, in order."""
    groups: dict[str, list[UsageRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return [bill(redact(group), parts, prices) for group, parts in groups.items()]


def bill(group: str, rows: "Iterable[UsageRow]", prices: "Mapping[str, Price]") -> Bill:
    """What these rows took together. Costs are added as whole numbers and rounded once, at the end."""
    parts = list(rows)
    priced = [row for row in parts if row.model in prices]
    cost = sum(
        row.input_tokens * _rate(prices[row.model].input_per_million)
        + row.output_tokens * _rate(prices[row.model].output_per_million)
        for row in priced
    )
    return Bill(
        group=group,
        answers=sum(row.answers for row in parts),
        input_tokens=sum(row.input_tokens for row in parts),
        output_tokens=sum(row.output_tokens for row in parts),
        estimated_tokens=sum(row.estimated for row in parts),
        cost_millionths=(cost + MILLION // 2) // MILLION if priced else None,
        unpriced_tokens=sum(row.input_tokens + row.output_tokens for row in parts if row.model not in prices),
    )


def _rate(per_million: float) -> int:
    """A price as millionths for a million tokens: 0.15 is 150000."""
    return int((Decimal(str(per_million)) * MILLION).to_integral_value(ROUND_HALF_EVEN))


def cost_text(bill: Bill) -> str:
    """`1.2345`, `≥ 1.2345` where a price is missing, `-` where every price is."""
    if bill.cost_millionths is None:
        return "-"
    hundredths = (bill.cost_millionths + 50) // 100
    text = f"{hundredths // 10_000}.{hundredths % 10_000:04d}"
    return f"≥ {text}" if bill.unpriced_tokens else text


def _print(report: Report) -> None:
    shown = [*report.rows, report.total] if len(report.rows) > 1 else report.rows
    rows = [
        (bill.group or "(no job)", str(bill.answers), str(bill.input_tokens), str(bill.output_tokens), cost_text(bill))
        for bill in shown
    ]
    print_rows(rows, (report.by, "answers", "tokens in", "tokens out", "cost"), empty="No tokens were used.")
    if report.total.estimated_tokens:
        click.echo(f"{report.total.estimated_tokens} of the tokens are estimated: a provider did not say.", err=True)
    today = report.today
    share = today.tokens * 1000 // today.daily_tokens
    line = f"Today: {today.tokens} of {today.daily_tokens} tokens ({share // 10}.{share % 10} %)."
    click.echo(line, err=not sys.stdout.isatty())
