"""The five fields of a cron expression: their bounds, names and syntax."""

import re
from collections.abc import Mapping

import msgspec

from coilclaw.packets.errors import UsageError

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One of the five."""

    name: str
    low: int
    high: int
    top: int
    """The highest number allowed: 7 is Sunday too."""
    unit: str
    """The interval unit of a step; empty if intervals have no such unit."""
    names: Mapping[str, int]

    @property
    def size(self) -> int:
        """The number of values."""
        return self.high - self.low + 1


_NO_NAMES: Mapping[str, int] = {}
MINUTE = Field(name="minute", low=0, high=59, top=59, unit="minutes", names=_NO_NAMES)
HOUR = Field(name="hour", low=0, high=23, top=23, unit="hours", names=_NO_NAMES)
DAY = Field(name="day-of-month", low=1, high=31, top=31, unit="days", names=_NO_NAMES)
MONTH = Field(
    name="month", low=1, high=12, top=12, unit="",
    names={name[:3].upper(): number for number, name in enumerate(MONTHS, start=1)},
)  # fmt: skip
WEEKDAY = Field(
    name="day-of-week", low=0, high=6, top=7, unit="",
    names={name[:3].upper(): number for number, name in enumerate(DAYS)},
)  # fmt: skip
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)

_NUMBER = "[0-9A-Za-z]+"
_ITEM = re.compile(rf"(?:(?P<star>\*)|(?P<first>{_NUMBER})(?:-(?P<last>{_NUMBER}))?)(?:/(?P<step>[0-9]+))?")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a list: a range with a step."""

    first: int
    last: int
    step: int

    def values(self, field: Field) -> list[int]:
        """Its numbers, with 7 as 0 for Sunday."""
        numbers = range(self.first, self.last + 1, self.step)
        return [0 if number > field.high else number for number in numbers]


def read_field(field: Field, text: str) -> tuple[int, ...]:
    """The sorted values of one field."""
    if text == "*":
        return tuple(range(field.low, field.high + 1))
    found: set[int] = set()
    for item in items_of(field, text):
        found.update(item.values(field))
    return tuple(sorted(found))


def items_of(field: Field, text: str) -> list[Item]:
    """The items of one field; an unsupported spelling is refused, with the right one if there is one."""
    return [_item(field, part, text) for part in text.split(",")]


def _item(field: Field, part: str, text: str) -> Item:
    match = _ITEM.fullmatch(part)
    if match is None:
        raise _misshapen(field, part, text)
    step = int(match["step"] or 1)
    if match["star"]:
        item = Item(first=field.low, last=field.high, step=step)
    else:
        first = _number(field, match["first"])
        last = first if match["last"] is None else _number(field, match["last"])
        if match["last"] is None and match["step"]:
            raise _open_step(field, part, first, step)
        if last < first:
            raise _backwards(field, part, first, last, step)
        item = Item(first=first, last=last, step=step)
    _check_step(field, part, item)
    return item


def _number(field: Field, word: str) -> int:
    """A number or a name of this field."""
    if not word.isdigit():
        return _named(field, word)
    number = int(word)
    if field.low <= number <= field.top:
        return number
    hint = f"Write {field.low} to {field.top}."
    if field is HOUR and number == 24:
        hint = "Midnight is hour 0."
    elif field is MINUTE and number == 60:
        hint = "The full hour is minute 0."
    raise UsageError(f"{word} is not a valid {field.name}.", remedy=hint)


def _named(field: Field, word: str) -> int:
    """A name of this field; names of another field, or longer ones, get a specific message."""
    known = field.names.get(word.upper())
    if known is not None:
        return known
    short = word[:3].upper()
    for other in (MONTH, WEEKDAY):
        if word.upper() in other.names and other is not field:
            raise UsageError(
                f"{word} is a {other.name}, but it is in the {field.name} field.",
                remedy="The fields are minute, hour, day-of-month, month, day-of-week.",
            )
    full = next((name for name in (*MONTHS, *DAYS) if name.upper() == word.upper()), "")
    if full and short in field.names:
        raise UsageError(f"{word} is not accepted as a {field.name}.", remedy=f"Write {short}.")
    raise _unknown(field, word)


def _check_step(field: Field, part: str, item: Item) -> None:
    if item.step == 0:
        raise UsageError(f"{part} has a step of 0.", remedy=f"Write a step of 1 or more, or {part.partition('/')[0]}.")
    whole = item.first == field.low and item.last >= field.high
    if item.step > field.size or (whole and item.step == field.size):
        remedy = f"It would only ever pick {item.first}: write {item.first}."
        if field.unit and item.step > field.size:
            remedy = (
                f"A field of the {field.name} starts again after {field.size}, so it cannot say that: use an interval"
                f" of {item.step} {field.unit}, or write {item.first}."
            )
        raise UsageError(f"{part} is a step as long as the {field.name} field or longer.", remedy=remedy)


def _open_step(field: Field, part: str, first: int, step: int) -> UsageError:
    first = field.low if first > field.high else first
    right = f"{first}-{field.high}/{step}" if 0 < step <= field.high - first else str(first)
    return UsageError(f"{part} has a step without a range.", remedy=f"Write {right}.")


def _backwards(field: Field, part: str, first: int, last: int, step: int) -> UsageError:
    """A range that wraps around: the same days or hours, in a spelling that every cron parses alike."""
    over = [*range(first, field.high + 1), *range(field.low, last + 1)]
    if step > 1:
        right = ",".join(str(number) for number in sorted(over[::step]))
    elif first > field.high:
        right = _span(field.low, last)
    elif field is WEEKDAY and last == 0:
        right = f"{first}-7"
    else:
        right = f"{_span(first, field.high)},{_span(field.low, last)}"
    return UsageError(f"{part} runs backwards: {first} comes after {last}.", remedy=f"Write {right}.")


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


_EXTENSIONS = (
    (re.compile(r"\?"), "? is not supported.", "Write *."),
    (re.compile(r"#"), "# (the nth weekday of a month) is not supported.",
     "Write the days it can fall on and let the job look at the date: 8-14 holds every second Tuesday, say."),
    (re.compile(r"~"), "~ (a random number) is not supported.", "Write the number; a stagger spreads starts."),
    (re.compile(r"^H", re.IGNORECASE), "H (a number chosen for you) is not supported.",
     "Write the number; a stagger spreads starts."),
    (re.compile(r"^L|[0-9]L$|^[A-Z]{3}L$", re.IGNORECASE), "L (the last day) is not supported.",
     "Write 28-31 and let the job look at the date, or a day up to 28."),
    (re.compile(r"W$", re.IGNORECASE), "W (the nearest weekday) is not supported.", "Write the day itself."),
)  # fmt: skip


def _misshapen(field: Field, part: str, text: str) -> UsageError:
    """An item with invalid syntax."""
    if not part:
        return UsageError(f"the {field.name} field {text} has an empty item.", remedy="Remove the extra comma.")
    return _unknown(field, part)


def _unknown(field: Field, part: str) -> UsageError:
    for pattern, message, remedy in _EXTENSIONS:
        if pattern.search(part):
            return UsageError(f"the {field.name} field has {part}: {message}", remedy=remedy)
    allowed = f"{field.low}-{field.top}"
    words = ", a name such as JAN" if field is MONTH else ", a name such as MON" if field is WEEKDAY else ""
    return UsageError(
        f"{part} is not a valid {field.name}.",
        remedy=f"Write *, a number of {allowed}{words}, a range a-b, a step */n or a-b/n, or a list of those.",
    )
