"""Measure CoilClaw side by side with what limits it, and print one table of ratios (DESIGN: speed and memory).

Every number is taken in rounds that interleave both sides, so trust the ratios, not the absolutes. `scripts/bench` runs
this with everything prepared; `scripts/bench --quick --rows policy ledger` is a short look at two groups.
"""

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import (  # noqa: E402
    airlock,
    approvals,
    audit,
    boxes,
    checkouts,
    cron,
    echo,
    evolve,
    forge,
    gate,
    github,
    growth,
    guests,
    jobs,
    ledger,
    live,
    mail,
    memory,
    models,
    panel,
    patrols,
    policy,
    processes,
    programs,
    redactor,
    schedules,
    server,
    stream,
    terminals,
    turns,
)
from bench.row import HEADER, Plan, Row, line  # noqa: E402

ROWS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "processes": processes.measure,
    "gate": gate.measure,
    "turns": turns.measure,
    "approvals": approvals.measure,
    "jobs": jobs.measure,
    "forge": forge.measure,
    "github": github.measure,
    "evolve": evolve.measure,
    "audit": audit.measure,
    "policy": policy.measure,
    "ledger": ledger.measure,
    "memory": memory.measure,
    "boxes": boxes.measure,
    "airlock": airlock.measure,
    "redactor": redactor.measure,
    "cron": cron.measure,
    "schedules": schedules.measure,
    "server": server.measure,
    "live": live.measure,
    "panel": panel.measure,
    "patrols": patrols.measure,
    "guests": guests.measure,
    "mail": mail.measure,
    "terminals": terminals.measure,
    "checkouts": checkouts.measure,
    "stream": stream.measure,
    "echo": echo.measure,
    "models": models.measure,
    "programs": programs.measure,
    "growth": growth.measure,
}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run, as it is written."""

    quick: bool
    rounds: int
    python: str
    sqlite: str
    cores: int
    load_before: float
    load_after: float
    seconds: float
    rows: tuple[Row, ...]
    skipped: tuple[str, ...]
    """Groups that could not be measured here, and why."""


class Options(argparse.Namespace):
    """What was asked for."""

    rows: list[str]
    quick: bool
    rounds: int | None
    baseline: str
    json: Path


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="GROUP",
                        help=f"which groups to measure: {', '.join(ROWS)}; all unless given")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: a look, not a judgement")
    parser.add_argument("--rounds", type=int, help="rounds for each comparison; 11 unless given, 3 when quick")
    parser.add_argument(
        "--baseline", default=sys.executable, metavar="PYTHON", help="the bare interpreter to compare to"
    )
    parser.add_argument("--json", type=Path, default=Path(__file__).with_name("results.json"), metavar="FILE")
    return parser.parse_args(namespace=Options())


def _disk() -> str | None:
    """A place that is rarely kept in memory, where a commit costs what it costs."""
    place = "/var/tmp"
    return place if os.access(place, os.W_OK) else None


def main() -> int:
    """Measure, print, write."""
    options = _options()
    rounds = options.rounds or (3 if options.quick else 11)
    rows: list[Row] = []
    skipped: list[str] = []
    began, load = time.monotonic(), os.getloadavg()[0]
    print(HEADER, flush=True)
    for name in dict.fromkeys(options.rows):
        with tempfile.TemporaryDirectory(prefix=f"coilclaw-bench-{name}-", dir=_disk()) as folder:
            plan = Plan(quick=options.quick, rounds=rounds, baseline=options.baseline, folder=Path(folder))
            try:
                for row in ROWS[name](plan):
                    rows.append(row)
                    print(line(row), flush=True)
            except Exception as error:  # one group that breaks must not take the others' numbers with it
                skipped.append(f"{name}: {type(error).__name__}: {error}")
                print(f"{name} could not be measured: {type(error).__name__}: {error}", file=sys.stderr)
    report = Report(
        quick=options.quick,
        rounds=rounds,
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        cores=os.cpu_count() or 1,
        load_before=load,
        load_after=os.getloadavg()[0],
        seconds=time.monotonic() - began,
        rows=tuple(rows),
        skipped=tuple(skipped),
    )
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    missed = [row.what for row in rows if row.ok is False]
    loads = f"load {load:.1f} to {report.load_after:.1f} on {report.cores} cores"
    print(f"\n{len(rows)} rows in {report.seconds:.0f} s, {loads}; {len(missed)} missed. Written to {options.json}.")
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
