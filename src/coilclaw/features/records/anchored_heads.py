"""The chain held against the heads that were anchored in a git repository."""

import os
import sqlite3
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.ledger.anchors import AnchorFault, anchored, anchored_at, chain_faults, size_limit
from coilclaw.packets.errors import StorageError, ToolError
from coilclaw.packets.forge import LEDGER
from coilclaw.packets.receipt import Head
from coilclaw.sandbox.clones import files_of, opened_clone
from coilclaw.store.readonly import reading_only

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime

MOST = 100
"""So many findings are told."""


class AnchorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the comparison found."""

    valid: bool
    repository: str
    commit: str
    """Where its branch `ledger` ends; empty when there is none."""
    heads: int
    size: int
    """The receipt that its last head covers."""
    findings: tuple[AnchorFault, ...]
    notes: tuple[str, ...]


def verify_anchors(app: "Runtime", folder: Path | None) -> AnchorReport:
    """Compare the chain with the branch `ledger` of a repository, by default the workspace's. Nothing is written."""
    ours = app.workspace
    place = ours if folder is None else Path(os.path.realpath(folder))
    found: list[AnchorFault] = []
    notes: list[str] = []
    tip, heads = "", tuple[Head, ...]()
    try:
        with opened_clone(place, ("ledger",)) as repository, reading_only(app.config.memory.path) as db:
            known = anchored_at(db)[0] if place == ours else 0
            tip = repository.tip(LEDGER)
            if tip:
                there = anchored(files_of(repository, tip, size_limit))
                heads = there.heads
                found += there.faults
                found += islice(chain_faults(db, app.signing_key.name(), heads, known), MOST)
            elif known or place != ours:
                before = f", but heads up to receipt {known} were anchored in it" if known else ""
                found.append(AnchorFault(size=0, kind="dropped", detail=f"there is no branch `ledger`{before}"))
            else:
                notes.append("nothing has been anchored yet")
    except (ToolError, StorageError, sqlite3.Error) as error:
        found.append(AnchorFault(size=0, kind="damaged", detail=str(error).rstrip(".")))
    return AnchorReport(
        valid=not found,
        repository=str(place),
        commit=tip,
        heads=len(heads),
        size=heads[-1].size if heads else 0,
        findings=tuple(found[:MOST]),
        notes=tuple(notes),
    )
