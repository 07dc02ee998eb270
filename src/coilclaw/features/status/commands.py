"""coilclaw usage, coilclaw doctor."""

import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_line, print_rows, print_wrapped, tell
from coilclaw.config.prices import MILLION
from coilclaw.features.status.usage_cost import Report, UsageBill

if TYPE_CHECKING:
    from coilclaw.packets.box import Probe
    from coilclaw.runtime import Runtime
    from coilclaw.store.usage import By

STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "info": ""}


@click.command()
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 36_500), help="How many days, with today.")
@click.option("--by", default="model", show_default=True, type=click.Choice(["model", "day", "job"]))
@click.option("--sessions", is_flag=True, help="What coding sessions used instead, by organization and month.")
@json_option
def usage(days: int, by: "By", sessions: bool, as_json: bool) -> None:
    """Show the tokens that were used, what they cost, and today's share of the budget. Days are UTC."""
    if sessions:
        _print_sessions(as_json=as_json)
        return
    from coilclaw.features.status.usage_cost import usage_report
    from coilclaw.store.usage import day_began, usage_rows

    with opened() as app:
        since = day_began(app.clock(), days_ago=days - 1)
        report = usage_report(app, app.db.reader, by, since, usage_rows(app.db.reader, since, by))
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print_sessions(*, as_json: bool) -> None:
    from coilclaw.features.runner.store import usage_of

    with opened() as app:
        found = usage_of(app.db.reader)
    if as_json:
        print_json(found)
        return
    rows = [
        (each.org_id, each.month, each.provider, f"{(each.agent_seconds + each.patrol_seconds) / 60:.1f}",
         str(each.terminal_kb), str(each.files_touched), str(each.provider_invocations),
         str(each.input_tokens + each.output_tokens),
         f"{each.cost_millionths / MILLION:.4f}{' +' if each.unpriced_tokens else ''}")
        for each in found
    ]  # fmt: skip
    columns = (
        "organization", "month", "provider", "minutes", "kB of output", "files touched", "calls", "tokens", "cost"
    )  # fmt: skip
    print_rows(rows, columns, empty="No session has run yet.")


def cost_text(bill: UsageBill) -> str:
    """`1.2345`, `≥ 1.2345` where a price is missing, `-` where every price is."""
    if bill.cost_millionths is None:
        return "-"
    hundredths = (bill.cost_millionths + 50) // 100
    text = f"{hundredths // 10_000}.{hundredths % 10_000:04d}"
    return f"≥ {text}" if bill.unpriced_tokens else text


def _print(report: Report) -> None:
    shown = [*report.rows, report.total] if len(report.rows) > 1 else report.rows
    figure = "{:,}".format if sys.stdout.isatty() else str
    rows = [
        (
            bill.group or "(no job)",
            figure(bill.answers),
            figure(bill.input_tokens),
            figure(bill.output_tokens),
            cost_text(bill),
            figure(bill.cached_tokens),  # last: programs that read the other columns go on as they are
        )
        for bill in shown
    ]
    columns = (report.by, "answers", "tokens in", "tokens out", "cost", "in from cache")
    print_rows(rows, columns, empty="No tokens were used.")
    if report.total.estimated_tokens:
        tell(f"{report.total.estimated_tokens:,} of the tokens are estimated: a provider did not say.", err=True)
    today = report.today
    share = today.tokens * 1000 // today.daily_tokens
    line = f"Today: {today.tokens:,} of {today.daily_tokens:,} tokens ({share // 10}.{share % 10} %)."
    tell(line, err=not sys.stdout.isatty())


@click.command()
@click.option("--short", is_flag=True, help="Only the essential probes, without trying every box.")
@click.option(
    "--canaries", is_flag=True, help="Also run a canary against every guard on every path, in a temporary home."
)
@click.option("--phone", is_flag=True, help="Only what a phone would meet: name, certificate, server, origin.")
@click.option("--quiet", is_flag=True, help="Print problems only, or one line if there are none.")
@json_option
def doctor(short: bool, canaries: bool, phone: bool, quiet: bool, as_json: bool) -> int:
    """Probe everything the agent relies on, by behaviour, with a remedy for each fault.

    Exit 1 when execution is disabled: something the agent cannot do without does not hold.
    """
    from coilclaw.runtime.checkup import examine

    with opened() as app:
        probes = _by_phone(app) if phone else examine(app, lambda: app.db.reader, short=short)
    if canaries:
        from coilclaw.features.status.canaries import run_canaries

        probes += run_canaries()
    if as_json:
        print_json(probes)
    else:
        amiss = [probe for probe in probes if probe.state in ("warn", "fail")]
        if quiet and not amiss:
            print_line(f"Everything is in place: {app.home.root}, {app.workspace}")
        for probe in amiss if quiet else probes:
            remedy = f" -> {probe.remedy}" if probe.remedy and probe.state != "ok" else ""
            print_wrapped(f"[{probe.state:4}] {probe.name}: {probe.detail}{remedy}", style=STYLES[probe.state])
    return 1 if any(probe.state == "fail" for probe in probes) else 0


def _by_phone(app: "Runtime") -> "list[Probe]":
    import asyncio

    from coilclaw.runtime.phone_probes import examine_phone
    from coilclaw.server.server_lock import running_address

    return asyncio.run(examine_phone(app, running_address(app.home.locks_dir)))
