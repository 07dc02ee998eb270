"""Findings of verification: each fault with its kind and position."""

import sqlite3
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.errors import CoilclawError, UsageError

Kind: TypeAlias = Literal["edited", "missing", "reordered", "truncated", "forked", "forged", "damaged"]
MOST = 100
"""Maximum number of findings listed; further ones are only counted."""


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """One fault."""

    receipt: int
    """The receipt concerned; 0 if it is about something else."""
    kind: Kind
    detail: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verification."""

    valid: bool
    receipts: int
    heads: int
    broken: Broken | None
    """The first fault."""
    notes: tuple[str, ...]
    findings: tuple[Broken, ...] = ()
    """All faults, in order; at most a hundred."""
    more: int = 0
    """How many further findings there are."""
    events: int = 0
    """How many audit events were checked."""
    actions: int = 0
    """How many actions were checked."""


class Stop(Exception):
    """Raised inside a part of verification that cannot continue."""

    def __init__(self, receipt: int, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.broken = Broken(receipt=receipt, kind=kind, detail=detail)


class Findings:
    """Collects faults; an error raised by a part of the verification counts as one."""

    def __init__(self) -> None:
        self.all: list[Broken] = []
        self.more = 0
        self.notes: list[str] = []

    def add(self, receipt: int, kind: Kind, detail: str) -> None:
        """Record a fault."""
        self.take(Broken(receipt=receipt, kind=kind, detail=detail))

    def take(self, broken: Broken) -> None:
        """Record a fault found elsewhere, once."""
        if broken in self.all:
            return
        if len(self.all) < MOST:
            self.all.append(broken)
        else:
            self.more += 1

    def during(self, part: Callable[[], None], what: str) -> bool:
        """Run a part of the verification; False if it could not be completed, which is a finding too."""
        try:
            part()
        except Stop as stop:
            self.take(stop.broken)
        except UsageError:  # could not be attempted, which says nothing about the ledger
            raise
        except CoilclawError as error:
            self.add(0, "damaged", error.message.rstrip("."))
        except sqlite3.Error as error:
            self.add(0, "damaged", f"{what}: the database cannot be read ({error})")
        except Exception as error:  # garbage can have any shape, and must become a finding, not an exception
            self.add(0, "damaged", f"{what} cannot be read ({type(error).__name__}: {error})"[:300])
        else:
            return True
        return False

    def report(self, *, receipts: int, heads: int, events: int = 0, actions: int = 0) -> Report:
        """All of it."""
        return Report(
            valid=not self.all,
            receipts=receipts,
            heads=heads,
            broken=self.all[0] if self.all else None,
            notes=tuple(self.notes),
            findings=tuple(self.all),
            more=self.more,
            events=events,
            actions=actions,
        )
