"""Parses a cron expression: five fields as in every cron. Ambiguous syntax is refused."""

from coilclaw.lib.cron.cron import Cron, longest
from coilclaw.lib.cron.field import FIELDS, MONTHS, read_field
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

MAX_LENGTH = 1000
_ALIASES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip


def parse_cron(text: str) -> Cron:
    """The expression, or a UsageError that says what to write instead."""
    fields = _split(text)
    minutes, hours, days, months, weekdays = (
        read_field(field, part) for field, part in zip(FIELDS, fields, strict=True)
    )
    cron = Cron(
        fields=tuple(fields),
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=fields[2] == "*",
        any_weekday=fields[4] == "*",
    )
    if cron.any_weekday and not any(cron.days[0] <= longest(month) for month in cron.months):
        raise _never(cron)
    return cron


def _split(text: str) -> list[str]:
    text = text.strip(" \t\r\n")
    if len(text) > MAX_LENGTH:
        raise UsageError(f"the cron expression is longer than {MAX_LENGTH} characters.", remedy="Write ranges.")
    strange = next((c for c in text if not (c.isascii() and c.isprintable()) and c != "\t"), "")
    if strange:
        raise UsageError(
            f"the cron expression contains {one_line(strange)} (U+{ord(strange):04X}).",
            remedy="Use plain digits, letters and spaces.",
        )
    fields = text.replace("\t", " ").split()
    _check_opening(fields)
    if len(fields) != 5:
        raise _miscounted(fields)
    return fields


def _check_opening(fields: list[str]) -> None:
    """Prefixes of other dialects."""
    first = fields[0] if fields else ""
    if first.startswith("@"):
        alias = first.lower()
        if alias in _ALIASES:
            raise UsageError(f"{first} is not supported.", remedy=f"Write {_ALIASES[alias]}.")
        if alias == "@every":
            raise UsageError(f"{first} is not supported.", remedy="Use an interval trigger.")
        raise UsageError(f"{first} is not supported.", remedy="Write five fields, such as 0 9 * * 1-5.")
    if "=" in first:
        raise UsageError(f"{first} is not part of a cron expression.", remedy="Give the time zone in its own field.")


def _miscounted(fields: list[str]) -> UsageError:
    remedy = "Write minute, hour, day-of-month, month, day-of-week: 0 9 * * 1-5 is every weekday at nine."
    if len(fields) in (6, 7):
        five = " ".join("*" if field == "?" else field for field in fields[1:6])
        remedy = f"There are no seconds and no years here: write {five} if the first are seconds."
    count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
    return UsageError(f"a cron expression has five fields, but this one has {count}.", remedy=remedy)


def _never(cron: Cron) -> UsageError:
    names = [MONTHS[month - 1] for month in cron.months]
    which = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    day, most = cron.days[0], max(longest(month) for month in cron.months)
    verb = "has" if len(names) == 1 else "have"
    return UsageError(
        f"{cron.text} would never run: {which} {verb} no {day}{'st' if day == 31 else 'th'}.",
        remedy=f"Write a day up to {most}, or other months.",
    )
