"""Named tables: parts of the file whose tables the owner names, each checked against its shape or its kind's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from coilclaw.config.schema import MODEL_KINDS, Price, Webhook, default_models

KeyPath: TypeAlias = tuple[str, ...]
Shapes: TypeAlias = Mapping[str, type[msgspec.Struct]]
MODELS: KeyPath = ("providers", "models")
WEBHOOKS: KeyPath = ("webhooks",)
PRICES: KeyPath = ("prices",)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Tables written `[path.NAME]`, as many as the owner likes."""

    path: KeyPath
    noun: str
    """What one of them is called in messages."""
    shapes: Shapes
    """The struct for each `kind`; a table without kinds has one, under the empty word."""
    signs: str = "._-"
    """What a name may hold besides letters and digits."""
    longest: int = 64
    variables: bool = True
    """Whether COILCLAW_<PATH>_<NAME>_<KEY> overrides a key."""
    defaults: Callable[[], Mapping[str, msgspec.Struct]] = dict
    """What is there when the file names none."""

    @property
    def key(self) -> str:
        """Its dotted name."""
        return ".".join(self.path)

    @property
    def has_kinds(self) -> bool:
        """Whether the key `kind` says which keys a table has."""
        return "" not in self.shapes

    def names(self, text: str) -> bool:
        """Whether a table may be called this."""
        plain = all(char.isalnum() or char in self.signs for char in text)
        return plain and text.isascii() and 0 < len(text) <= self.longest and text[0].isalnum()

    def naming(self) -> str:
        """What a name may be, in words."""
        signs = [f"'{sign}'" for sign in self.signs]
        return (
            f"a {self.noun}'s name is letters, digits, {', '.join(signs[:-1])} and {signs[-1]},"
            f" at most {self.longest} of them"
        )


TABLES: Mapping[KeyPath, Table] = {
    table.path: table
    for table in (
        Table(path=MODELS, noun="provider", shapes=MODEL_KINDS, defaults=default_models),
        Table(path=WEBHOOKS, noun="webhook", shapes={"": Webhook}),
        # Models are called things like openai/gpt-4o:free, which no variable's name could tell apart.
        Table(path=PRICES, noun="price", shapes={"": Price}, signs="._-/:@+", longest=128, variables=False),
    )
}
"""Every named table by its path."""


def table_at(path: KeyPath) -> Table | None:
    """The named table that a path leads into, if it leads into one."""
    return TABLES.get(path[:1]) or TABLES.get(path[:2])
