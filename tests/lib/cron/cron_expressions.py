"""Cron expressions to try things with."""

from hypothesis import strategies as st

from coilclaw.lib.cron.field import FIELDS, Field
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.packets.errors import UsageError

FREQUENT = (
    "* * * * *", "*/15 * * * *", "30 * * * *", "0 * * * *", "30 2 * * *", "0 2 * * *", "15 1 * * *", "0 0 * * *",
    "*/20 */2 * * *", "45 23 * * *", "5 0 * * *", "0 3 * * *", "10-50/20 0-4 * * *", "0 */3 */2 * MON",
    "1 0,1,2,3 * * SUN", "30 1 * * 0,6", "*/7 0-3 1-15 * *",
)  # fmt: skip
"""Expressions that run at the hours at which clocks are changed."""


@st.composite
def _item(draw: st.DrawFn, field: Field) -> str:
    first = draw(st.integers(field.low, field.top))
    last = draw(st.integers(first, field.top))
    step = draw(st.integers(1, max(1, field.size - 1)))
    return draw(st.sampled_from((str(first), f"{first}-{last}", f"{first}-{last}/{step}", f"*/{step}")))


def _field(field: Field) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), _item(field), st.lists(_item(field), min_size=1, max_size=4).map(",".join))


def _holds(text: str) -> bool:
    """Dates that never come are refused, and so is a step as long as its field."""
    try:
        parse_cron(text)
    except UsageError:
        return False
    return True


def expressions() -> st.SearchStrategy[str]:
    """Any expression that is taken."""
    return st.tuples(*map(_field, FIELDS)).map(" ".join).filter(_holds)
