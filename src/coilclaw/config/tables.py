"""Named tables: tables that the owner names, each checked against its struct or its kind's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from coilclaw.config.forge import ForgeCheck
from coilclaw.config.mcp import McpServer
from coilclaw.config.models import MODEL_KINDS, default_models
from coilclaw.config.prices import Price
from coilclaw.config.runner import Org, Repo
from coilclaw.config.schema import Webhook

KeyPath: TypeAlias = tuple[str, ...]
Shapes: TypeAlias = Mapping[str, type[msgspec.Struct]]
MODELS: KeyPath = ("providers", "models")
WEBHOOKS: KeyPath = ("webhooks",)
PRICES: KeyPath = ("prices",)
CHECKS: KeyPath = ("forge", "checks")
MCP_SERVERS: KeyPath = ("mcp", "servers")
REPOS: KeyPath = ("repos",)
ORGS: KeyPath = ("orgs",)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Tables written `[path.NAME]`, as many as the owner likes."""

    path: KeyPath
    noun: str
    """The word for one of them in messages."""
    shapes: Shapes
    """The struct for each `kind`; a table without kinds has one, under the empty string."""
    signs: str = "._-"
    """Characters allowed in a name besides letters and digits."""
    longest: int = 64
    variables: bool = True
    """Whether COILCLAW_<PATH>_<NAME>_<KEY> overrides a key."""
    defaults: Callable[[], Mapping[str, msgspec.Struct]] = dict
    """The value if the file has none."""

    @property
    def key(self) -> str:
        """Its dotted name."""
        return ".".join(self.path)

    @property
    def has_kinds(self) -> bool:
        """Whether the key `kind` determines a table's keys."""
        return "" not in self.shapes

    def names(self, text: str) -> bool:
        """Whether a table may have this name."""
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
        # Models have names like openai/gpt-4o:free, which a variable's name cannot represent.
        Table(path=PRICES, noun="price", shapes={"": Price}, signs="._-/:@+", longest=128, variables=False),
        Table(path=CHECKS, noun="check", shapes={"": ForgeCheck}, signs="_-"),
        Table(path=MCP_SERVERS, noun="server", shapes={"": McpServer}, signs="_-", longest=32),
        Table(path=REPOS, noun="repository", shapes={"": Repo}),
        Table(path=ORGS, noun="organization", shapes={"": Org}, signs="_-"),
    )
}
"""Every named table by its path."""


def table_at(path: KeyPath) -> Table | None:
    """The named table that a path leads into, if any."""
    return TABLES.get(path[:1]) or TABLES.get(path[:2])
