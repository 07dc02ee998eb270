"""Tables `[prices."NAME"]`: what models cost."""

from typing import Annotated

import msgspec
from msgspec import Meta

MILLION = 1_000_000

Rate = Annotated[float, Meta(ge=0, le=1_000_000)]


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs, for `coilclaw usage`. The table's name is the model's name in its answers."""

    input_per_million: Rate = 0.0
    """Price of a million tokens read, in your currency."""
    cached_per_million: Rate | None = None
    """Price of a million tokens that the provider read from its own cache. Without it they cost as much as any token
    read, so the cost shown is never too low for them."""
    output_per_million: Rate = 0.0
    """Price of a million tokens written."""

    def cost(self, *, read: int, cached: int, written: int) -> int:
        """What tokens cost, in millionths of a millionth: whole numbers, to be added and rounded once.

        The `cached` ones are among those `read`.
        """
        rate = _exactly(self.input_per_million)
        of_cached = rate if self.cached_per_million is None else _exactly(self.cached_per_million)
        return (read - cached) * rate + cached * of_cached + written * _exactly(self.output_per_million)


def _exactly(per_million: float) -> int:
    """A price as millionths for a million tokens: 0.15 is 150000."""
    from decimal import ROUND_HALF_EVEN, Decimal

    return int((Decimal(str(per_million)) * MILLION).to_integral_value(ROUND_HALF_EVEN))
