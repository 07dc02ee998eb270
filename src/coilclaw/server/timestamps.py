"""Times as clients write them, and as rows store them."""

import re
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from litestar.params import QueryParameter

from coilclaw.packets.ids import stamp
from coilclaw.server.problems import Trouble

_FORMAT = {"format": "date-time"}
_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_LEAP_SECOND = re.compile(r"(?<=[T ]\d\d:\d\d):60")
_NO_OFFSET = re.compile(r"[T ].*[+-]\d\d(?::?\d\d)?:?[6-9]\d")
"""An offset with sixty or more minutes or seconds, which Python would carry over."""

Since: TypeAlias = Annotated[
    str | None,
    QueryParameter(max_length=64, schema_extra=_FORMAT, description="Only items at or after this time."),
]
Until: TypeAlias = Annotated[
    str | None, QueryParameter(max_length=64, schema_extra=_FORMAT, description="Only items before this time.")
]


def moment_of(text: str | None) -> str | None:
    """The stamp of an RFC 3339 time; UTC without a zone. A time beyond the calendar is clamped."""
    if text is None:
        return None
    written = text.strip().upper()
    try:
        if written.startswith("0000-"):  # RFC 3339 has a year 0
            return stamp(_FIRST)
        moment = datetime.fromisoformat(_LEAP_SECOND.sub(":59", written))
    except ValueError as error:
        raise _no_moment() from error
    if _NO_OFFSET.search(written):
        raise _no_moment()
    try:
        return stamp(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except OverflowError:
        return stamp(_FIRST if moment.year == 1 else _LAST)


def _no_moment() -> Trouble:
    return Trouble(422, "BAD_MOMENT", "that is not a valid time.", remedy="Write it like 2026-03-01T12:00:00Z.")
