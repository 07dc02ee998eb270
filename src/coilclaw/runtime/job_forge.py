"""How the files that a job changes become pull requests; the forge provides it."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from coilclaw.store.jobs import JobRow

Fate: TypeAlias = Literal["merged", "again", "closed", "waits"]


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """How the merge question of a job ended."""

    fate: Fate
    """It was merged; the job continues with `words`; it was closed for `words`; it stays open without a question."""
    words: str = ""
    by_owner: bool = False
    """The words are the owner's."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request that a job ended in."""

    number: int
    title: str


class JobForge(msgspec.Struct, frozen=True, kw_only=True):
    """Gives a job a tree of its own, and turns it into a pull request in the end."""

    prepare: Callable[[JobRow], Awaitable[None]]
    """Give it a tree before its first step."""
    publish: Callable[[JobRow], Awaitable[Opened | None]]
    """Open its pull request or bring it up to date; None when it changed nothing."""
    ask: Callable[[JobRow], Awaitable[str]]
    """Check the pull request and put the merge question; the action's id, empty when there is nothing to ask."""
    settled: Callable[[JobRow], Awaitable[Settled]]
    """How the merge question ended."""
    deploy: Callable[[JobRow], Awaitable[str]]
    """Deploy what was merged; why that failed and was reverted, or empty."""
    in_force: Callable[[JobRow], str]
    """A sentence about the deployment: that it is in force, or which files keep the owner's edit."""
    close: Callable[[JobRow, str], Awaitable[None]]
    """The job is over without a merge: close its pull request, if it is open, and remove its tree."""
    pr_days: Callable[[], int]
    """For how many days a pull request waits for an answer."""
    waits_for_merge: Callable[[JobRow], bool]
    """Whether it waits for its pull request."""
