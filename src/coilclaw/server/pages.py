"""Pages of lists, with a cursor for the next one."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Generic, TypeAlias, TypeVar

import msgspec
from litestar.params import QueryParameter

from coilclaw.server.problems import Trouble

T = TypeVar("T")
K = TypeVar("K")

Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=200, description="Maximum number of items.")]
Cursor: TypeAlias = Annotated[
    str | None, QueryParameter(max_length=400, description="Where to continue: `next_cursor` of the previous page.")
]


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list."""

    items: list[T]
    next_cursor: str | None
    """Send it as `cursor` for the next page; null at the end."""


def write_cursor(place: object) -> str:
    """A position in a list as an opaque string."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(cursor: str | None, kind: type[K]) -> K | None:
    """The position of a cursor; None for the beginning."""
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise Trouble(422, "BAD_CURSOR", "the cursor is invalid.", remedy="Start again without a cursor.") from error


def page_of(rows: Sequence[T], limit: int, places: Sequence[object]) -> Page[T]:
    """A page of rows, queried with `limit` plus one; `places` are their positions."""
    more = len(rows) > limit
    return Page(items=list(rows[:limit]), next_cursor=write_cursor(places[limit - 1]) if more else None)


def page_to(items: Sequence[T], place: object | None) -> Page[T]:
    """A page of results up to a position; None if nothing follows."""
    return Page(items=list(items), next_cursor=None if place is None else write_cursor(place))
