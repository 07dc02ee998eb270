"""Rows: one measurement beside what it is measured against, and the goal it has."""

from pathlib import Path
from typing import Literal

import msgspec

from bench.rounds import Timing

Unit = Literal["ms", "us", "MB", "MB/s", "calls/s", "rows", "%"]
_SHOWN = {"us": "µs"}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to work with."""

    quick: bool
    """Small sizes and few rounds: to see that everything runs, not to judge by."""
    rounds: int
    baseline: str
    """The interpreter of a clean virtual environment."""
    folder: Path
    """Empty, on a real disk, gone afterwards."""

    def size(self, whole: int, quick: int) -> int:
        """A size for this kind of run."""
        return quick if self.quick else whole


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. `ok` is None where there is no goal."""

    group: str
    what: str
    unit: Unit
    measured: Timing
    against_what: str = ""
    against: Timing | None = None
    ratio: float | None = None
    """Of the medians."""
    ratio_of_mins: float | None = None
    goal: str = ""
    ok: bool | None = None
    note: str = ""


def beside(
    group: str,
    what: str,
    unit: Unit,
    measured: Timing,
    against_what: str,
    against: Timing,
    *,
    at_most: float | None = None,
    note: str = "",
) -> Row:
    """A row whose goal, if it has one, is a ratio of medians that must not be passed."""
    ratio = measured.median / against.median
    return Row(
        group=group,
        what=what,
        unit=unit,
        measured=measured,
        against_what=against_what,
        against=against,
        ratio=ratio,
        ratio_of_mins=measured.min / against.min,
        goal="" if at_most is None else f"≤ {at_most:g}×",
        ok=None if at_most is None else ratio <= at_most,
        note=note,
    )


def alone(group: str, what: str, unit: Unit, measured: Timing, *, at_most: float | None = None, note: str = "") -> Row:
    """A row whose goal, if it has one, is a number of its own."""
    return Row(
        group=group,
        what=what,
        unit=unit,
        measured=measured,
        goal="" if at_most is None else f"≤ {at_most:g} {_SHOWN.get(unit, unit)}",
        ok=None if at_most is None else measured.median <= at_most,
        note=note,
    )


HEADER = "| what | measured: median (min) | against | ratio: medians (mins) | goal | |\n|---|---:|---|---:|---:|---|"


def line(row: Row) -> str:
    """The row as a line of a markdown table."""
    against = f"{row.against_what} {_number(row.against, row.unit)}" if row.against else row.against_what
    ratio = f"{row.ratio:.2f}× ({row.ratio_of_mins:.2f}×)" if row.ratio is not None else ""
    verdict = {True: "ok", False: "**missed**", None: ""}[row.ok]
    what = f"{row.what} — {row.note}" if row.note else row.what
    return f"| {what} | {_number(row.measured, row.unit)} | {against} | {ratio} | {row.goal} | {verdict} |"


def _number(timing: Timing, unit: Unit) -> str:
    return f"{timing.median:.4g} ({timing.min:.4g}) {_SHOWN.get(unit, unit)}"
