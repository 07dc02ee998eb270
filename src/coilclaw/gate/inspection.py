"""Inspection: what a run made is looked at before its result is released (decision 0015).

A repository inside the workspace would be obeyed by the owner's own git, and names that other programs run would be
obeyed by those. Both are moved into the home. For such names the owner is asked once a run, unless untrusted content
may have had a hand in it.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.facts import Inspected
from coilclaw.gate.intake import Intake
from coilclaw.gate.labelling import Labelling
from coilclaw.gate.outcomes import End, ended_badly
from coilclaw.gate.records import Record, Records
from coilclaw.gate.root import Root
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, ToolCall, ToolResult
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.ids import Clock, new_id
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.sandbox.quarantine import Found, Item

MADE = "REPOSITORY_MADE"
HELD = "RUN_BY_OTHERS_HELD"
TAKEN = "RUN_BY_OTHERS_TAKEN"
NAMED = 20
"""The most names that a result lists."""
ASKED = 500
"""The most files on one card; beyond that the owner moves them by hand."""


class Inspection:
    """Inspects the workspace before and after every call that may change more of it than it names."""

    def __init__(
        self,
        intake: Intake,
        upkeep: Labelling,
        release_tool: str,
        records: Records,
        clock: Clock,
        warn: Callable[[str], None],
    ) -> None:
        self._intake = intake
        self._upkeep = upkeep
        self._release_tool = release_tool
        """The tool that puts held files in place."""
        self._records = records
        self._clock = clock
        self._warn = warn

    async def before(self, action: Action, inspected: Inspected) -> End | None:
        """Record the state of the workspace; returns an outcome if the run must not begin."""
        facts = inspected.facts
        if facts.only_reads or (facts.command is not None and facts.unsafe):
            return None
        try:
            await asyncio.to_thread(self._begin, action, inspected)
        except ToolError as error:
            return ended_badly(error.code, str(error))
        except (CoilclawError, OSError) as error:
            return ended_badly("NOT_INSPECTED", f"the workspace could not be inspected first: {error}")
        return None

    def _begin(self, action: Action, inspected: Inspected) -> None:
        from coilclaw.sandbox.hard_links import unlink_from_outside

        is_command = inspected.facts.command is not None
        quarantine = inspected.root.quarantine
        found = quarantine.begin(
            action.action_id,
            tainted=bool(inspected.taint),
            names=is_command,  # what an undo brings back stood on its card
            allowed=_asked_about(inspected),
            links=is_command,
        )
        linked = [each for each in found.linked if inspected.root.places.classify(each.path) not in ("never", "owner")]
        if linked:
            copied = unlink_from_outside(quarantine.workspace, linked)
            self._warn(f"{copied} files in the workspace were hard links to files outside it; they are copies now.")

    async def after(self, action: Action, end: End, root: Root) -> tuple[End, Record | None]:
        """Quarantine what the run may not leave behind, say so in its outcome, and ask the owner what to release."""
        if root.left_nothing(action.action_id):
            return end, None  # most calls only read: checking here is cheaper than switching to another thread
        try:
            found = await asyncio.to_thread(root.quarantine.end, action.action_id)
        except (CoilclawError, OSError) as error:
            text = f"What it created could not be inspected: {error} Nothing else runs until that is done."
            return _spoiled(end, "NOT_INSPECTED", text), None
        if found is None:
            return end, None
        repositories, names = found.of("repository", "deep"), found.of("name")
        record: Record | None = None
        if repositories:
            end = _spoiled(end, MADE, _about_repositories(found, repositories))
        if names and found.tainted:
            end = _spoiled(end, TAKEN, _about_taken(found, names))
        elif names:
            asked = self._ask(action, await asyncio.to_thread(root.quarantine.held, action.action_id))
            end = _spoiled(end, HELD, _about_held(found, names, asked[0] if asked else None))
            record = asked[1] if asked else None
        return end, record

    def not_needed(self, action: Action, root: Root) -> None:
        """A run that certainly never began made nothing."""
        root.quarantine.forget(action.action_id)

    def _ask(self, action: Action, held: dict[str, str]) -> tuple[Action, Record] | None:
        """The question, as an action of its own, and what leaves it waiting. None when it cannot be put."""
        if not 0 < len(held) <= ASKED or not all(_is_text(f"{path}{content}") for path, content in held.items()):
            return None
        turn = Turn(new_id("release", self._clock()), action.thread_id, "gateway")
        call = ToolCall.of(self._release_tool, {"action": action.action_id, "files": dict(held)})
        asked = self._intake.propose(call, turn, f"release:{action.action_id}:{action.attempt}")
        if asked.decision.verdict != "ask":
            return None
        see = self._upkeep.see(asked.action_id, self._intake.look_again(asked, turn)[0])

        def record(tx: Tx, result: ToolResult) -> None:
            self._records.leave(tx, asked, result, stored=False, record=see)

        return asked, record


def _asked_about(inspected: Inspected) -> tuple[str, ...]:
    """The names that the call itself shows, as given and as resolved; the owner said yes to them."""
    shown = [path for path in inspected.facts.paths if path.write and path.path_class == "executed"]
    spelled = (os.path.normpath(path.asked) for path in shown)
    return tuple(dict.fromkeys((*(path.relative for path in shown if path.relative), *spelled)))


def _spoiled(end: End, code: str, text: str) -> End:
    """The end with what was found; a run whose end is unknown stays unknown."""
    output = f"{end.result.output}\n\n{text}".strip()
    keeps = end.status == "unknown"
    result = msgspec.structs.replace(
        end.result, success=False, output=output, error=output, code=end.result.code if keeps else code
    )
    if keeps:
        return msgspec.structs.replace(end, result=result)
    return msgspec.structs.replace(end, status="failed", result=result, reason=code, sequel="none")


def _listed(items: "tuple[Item, ...]") -> str:
    names = [item.path.encode("utf-8", "replace").decode() for item in items]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _about_repositories(found: "Found", items: "tuple[Item, ...]") -> str:
    return (
        f"It made what git takes for a repository ({_listed(items)}). Its configuration would be run by the owner's own"
        f" git, outside the box, so it was moved to quarantine/{found.action_id} in CoilClaw's home. Work without a"
        " repository there; the owner can make or clone one."
    )


def _about_taken(found: "Found", items: "tuple[Item, ...]") -> str:
    return (
        f"Other programs run files with these names automatically: {_listed(items)}. This conversation took in"
        " untrusted"
        f" content, so they were taken back and moved to quarantine/{found.action_id} in CoilClaw's home."
        f"{_about_lost(items)}"
    )


def _about_held(found: "Found", items: "tuple[Item, ...]", asked: Action | None) -> str:
    where = f"quarantine/{found.action_id} in CoilClaw's home"
    how = f"The owner is asked whether to put them in place ({asked.action_id})." if asked is not None else (
        "The owner can look at them and put them in place by hand."
    )  # fmt: skip
    return (
        f"The rest is done, but other programs run what has these names by themselves: {_listed(items)}. They are held"
        f" in {where}. {how} Do not make them again.{_about_lost(items)}"
    )


def _about_lost(items: "tuple[Item, ...]") -> str:
    lost = tuple(item for item in items if item.lost)
    return f" What was there before could not be restored: {_listed(lost)}." if lost else ""


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
