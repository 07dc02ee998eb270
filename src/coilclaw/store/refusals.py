"""Who said no: the owner, the rules, the clock, or nobody because it was no longer needed."""

from typing import Literal, TypeAlias

Refusal: TypeAlias = Literal["rejected", "denied", "withdrawn", "expired"]
"""`rejected`: the owner said no. `denied`: the rules did. `withdrawn`: it was not needed any more. `expired`: nobody
answered in time."""

CODES: dict[str, Refusal] = {"OWNER_REFUSED": "rejected", "WITHDRAWN": "withdrawn", "EXPIRED": "expired"}
"""The codes that tell so; every other code of a refusal is a rule's."""


def refusal_of(code: str) -> Refusal:
    """Who said no, by the code it ended with."""
    return CODES.get(code, "denied")
