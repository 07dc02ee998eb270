"""What the owner changes in the agent's record and reads of it: merges, rollbacks, directives."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from coilclaw.features.evolve.init import needed
from coilclaw.features.evolve.tools import MERGE, ROLLBACK
from coilclaw.features.evolve.watcher.comms import REPORTS, section, without
from coilclaw.features.evolve.watcher.git import RecordError
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.ledger.audit import add_event
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import CoilclawError, ToolError, UsageError
from coilclaw.packets.text import visible
from coilclaw.sandbox.hostile_tree import remove_tree
from coilclaw.store.actions import waiting_actions

if TYPE_CHECKING:
    from coilclaw.features.evolve.tools import EvolveMergeArgs
    from coilclaw.runtime.runtime import Runtime

T = TypeVar("T")
_CARD_BYTES = 128 << 10
_WAITING = 1000
_MERGED = (".", ":(exclude)COMMS.md", ":(exclude)spec")
_OWNERS = ("COMMS.md", "spec")


async def in_record(app: "Runtime", do: "Callable[[Record], T]") -> T:
    """Do something with the record, in a thread; what it refuses is a ToolError."""
    record = Record(needed(app).root)
    try:
        return await asyncio.to_thread(do, record)
    except RecordError as error:
        raise ToolError(f"{visible(str(error))}.", code="RECORD_REFUSED", begun=False) from error


async def say(app: "Runtime", text: str) -> str:
    """Add a directive of the owner's, without secrets: it stays in the record, and the model reads it."""
    return await in_record(app, lambda record: record.say(app.redact(text)))


def merge_card(app: "Runtime", args: "EvolveMergeArgs") -> str:
    """What a merge changes, for the owner to read. Anybody may propose one: whatever is wrong, there is an answer."""
    try:
        record = Record(needed(app).root)
        if not (record.sha(args.old) and record.sha(args.new)):
            return "Nothing would be merged."
    except (CoilclawError, RecordError):
        return "Nothing would be merged."
    names = _diff(app, record, args, "--stat=100", *_MERGED)
    parts = [f"{args.branch} at {args.new[:12]}, main at {args.old[:12]}.", names, _diff(app, record, args, *_MERGED)]
    kept = _diff(app, record, args, "--merge-base", *_OWNERS)  # main's own lines since are no change of the branch's
    if kept and not _adds_reports_alone(record, args):
        parts += ["Not merged, because COMMS.md and spec/ are yours. To take it over, change main yourself:", kept]
    return "\n".join(parts)


def _adds_reports_alone(record: Record, args: "EvolveMergeArgs") -> bool:
    """Whether main has all that the branch did to COMMS.md already: reports are taken over as they are pushed."""
    try:
        base = record.git.text("merge-base", args.old, args.new)
        if record.git.ask("diff", "--quiet", base, args.new, "--", "spec")[0]:
            return False
        before, after = record.comms(base), record.comms(args.new)
    except RecordError:
        return False
    gone = set(section(before, REPORTS)) - set(section(after, REPORTS))
    return not gone and without(before, REPORTS) == without(after, REPORTS)


def _diff(app: "Runtime", record: Record, args: "EvolveMergeArgs", *words: str) -> str:
    """A difference as text; of one that the agent made too long, where to read it. It is made under limits."""
    fixed = ("--no-color", "--no-renames", "--no-ext-diff", "--no-textconv")
    options = [word for word in words if word.startswith("-")]
    paths = [word for word in words if not word.startswith("-")]
    try:
        told = record.git.run("diff", *fixed, *options, args.old, args.new, "--", *paths)
        if len(told) <= _CARD_BYTES:
            return visible(app.redact(told.decode("utf-8", "replace")))
    except RecordError:
        pass
    return f"Too much to show here: read it in a clone of {record.git.directory}."


async def destroy(app: "Runtime") -> None:
    """Remove everything of the agent; what waits for the owner's answer about it is withdrawn."""
    approvals = app.approvals(app.conveyor(nobody))
    for action in waiting_actions(app.db.reader, _WAITING):
        if action.call.tool in (MERGE, ROLLBACK):
            with suppress(CoilclawError):  # answered at this very moment
                await approvals.withdraw(action, reason="the agent was removed")
    await app.db.write(lambda tx: add_event(tx, app.clock, "evolve_destroyed", "evolve", {}))
    await asyncio.to_thread(remove_tree, needed(app).root)


async def resolved(app: "Runtime", ref: str) -> str:
    """The commit that the owner means; a UsageError if there is none."""
    found = await in_record(app, lambda record: record.resolve(ref))
    if found is None:
        raise UsageError(
            f"the record has no {visible(ref)[:80]!r}.", remedy="Name a branch, a tag or a commit id of it."
        )
    return found
