"""Why an action was refused: by the owner, by the rules, by expiry, or because it was no longer needed."""

from typing import Literal, TypeAlias

Refusal: TypeAlias = Literal["rejected", "denied", "withdrawn", "expired"]
"""`rejected`: by the owner. `denied`: by the rules. `withdrawn`: no longer needed. `expired`: nobody
answered in time."""

CODES: dict[str, Refusal] = {"OWNER_REFUSED": "rejected", "WITHDRAWN": "withdrawn", "EXPIRED": "expired"}
"""The codes of each kind; every other code is a rule's."""


def refusal_of(code: str) -> Refusal:
    """The kind of a refusal, by its code."""
    return CODES.get(code, "denied")
