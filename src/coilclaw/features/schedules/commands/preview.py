"""coilclaw schedule preview."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from coilclaw.cli.output import json_option, print_json, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.features.schedules.forecast import Forecast, Plain

COUNT = 5
MOST = 1000
LONGEST_LINE = 65_536


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of --stdin."""

    cron: str
    timezone: str
    after: str | None = None
    count: int | None = None


@click.command("preview", short_help="Explain a cron expression and show its next runs.")
@click.argument("expression", metavar="[CRON]", nargs=-1)
@click.option("--cron", metavar="CRON", help="The expression, if not given as an argument.")
@click.option("--timezone", metavar="ZONE", help="An IANA zone, such as Europe/Berlin. Default: this machine's zone.")
@click.option("--after", metavar="TIME", help="Show runs strictly after this RFC 3339 time. Default: now.")
@click.option("--count", type=int, metavar="N", help=f"How many runs to show, 1 to {MOST}. Default: {COUNT}.")
@click.option(
    "--stdin", "lines", is_flag=True, help="Read one JSON object per line, print one answer or error per line."
)
@json_option
def preview(
    expression: tuple[str, ...],
    cron: str | None,
    timezone: str | None,
    after: str | None,
    count: int | None,
    lines: bool,
    as_json: bool,
) -> int:
    """Say what a cron expression means and when it runs next, without scheduling anything.

    CRON has five fields: minute hour day-of-month month day-of-week; '0 9 * * 1-5' is every weekday at nine.
    """
    from coilclaw.features.schedules.forecast import plainly

    cron = _one_of(expression, cron)
    if lines:
        if cron is not None or timezone is not None or after is not None or count is not None:
            raise UsageError(
                "with --stdin, everything comes from the input lines.",
                remedy="Leave CRON, --timezone, --after and --count out.",
            )
        return _answer_lines(sys.stdin.buffer)
    if cron is None:
        raise UsageError(
            "the cron expression is missing.", remedy="Give one, such as '0 9 * * 1-5', or lines with --stdin."
        )
    here = machine_zone(os.environ) if timezone is None else None
    zone = timezone if timezone is not None else here or "UTC"
    asked = _instant(after)
    found = answer(Question(cron=cron, timezone=zone, after=after, count=count), asked)
    if as_json:
        print_json(found)
        return 0
    _show(found, plainly(cron, zone, asked))
    if timezone is None:
        why = f"{here}, the zone of this machine" if here else "UTC, because this machine's time zone is unknown"
        tell(f"In {why}; use --timezone for another zone.")
    return 0


def _one_of(expression: tuple[str, ...], cron: str | None) -> str | None:
    """The expression, given as an argument (also unquoted, field by field) or as an option."""
    if not expression:
        return cron
    if cron is not None:
        raise UsageError("the cron expression is given twice.", remedy="Leave --cron out.")
    return " ".join(expression)


def machine_zone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> str | None:
    """The IANA name of the zone this machine keeps; None where it cannot be told."""
    from coilclaw.lib.cron.zones import zones

    named = environ.get("TZ", "").lstrip(":")
    if not named:
        with suppress(OSError):
            named = str(localtime.readlink())
    name = named.rpartition("zoneinfo/")[2]
    return name if name in zones().names else None


def _instant(after: str | None) -> datetime:
    from coilclaw.lib.cron.time_format import moment_of
    from coilclaw.packets.ids import utc_now

    return utc_now() if after is None else moment_of(after, "the time")


def answer(question: Question, asked: datetime | None = None) -> "Forecast":
    """The forecast that was asked for."""
    from coilclaw.features.schedules.forecast import forecast

    count = COUNT if question.count is None else question.count
    if not 1 <= count <= MOST:
        raise UsageError(f"a count of {count} is not allowed.", remedy=f"Ask for 1 to {MOST} runs.")
    return forecast(question.cron, question.timezone, asked or _instant(question.after), count)


def answer_line(line: bytes) -> bytes:
    """One line in, one line out: the forecast or what is wrong with the line."""
    from coilclaw.packets.canonical import NotCanonical, parse_object

    if len(line) > LONGEST_LINE:
        return _refusal(f"the line is longer than {LONGEST_LINE} bytes.")
    try:
        question = msgspec.convert(parse_object(line), Question)
        return msgspec.json.encode(answer(question))
    except NotCanonical as error:
        reason = str(error)
    except msgspec.ValidationError as error:
        reason = f"{error}; a line needs cron and timezone, and may have after and count."
    except UsageError as error:
        reason = str(error)
    return _refusal(reason)


def _refusal(reason: str) -> bytes:
    return msgspec.json.encode({"error": reason})


def _answer_lines(source: BinaryIO) -> int:
    while line := source.readline(LONGEST_LINE + 1):
        rest = line
        while not rest.endswith(b"\n") and len(rest) > LONGEST_LINE:  # the end of an overlong line is not a line
            rest = source.readline(LONGEST_LINE + 1)
        tell(answer_line(line).decode())
    return 0


def _show(found: "Forecast", plain: "Plain") -> None:
    tell(plain.summary)
    for note in plain.notes:
        tell(f"Note: {note}")
    for utc, local in zip(found.next_runs_utc, found.next_runs_local, strict=True):
        tell(f"  {local}  ({utc})")
