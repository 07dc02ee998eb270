"""The desk: what the watcher asks, and CoilClaw's answers. A merge becomes a card of the owner's, a notice is told."""

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.features.evolve.changes import in_record
from coilclaw.features.evolve.desk_files import put_file
from coilclaw.features.evolve.places import places_of
from coilclaw.features.evolve.tools import MERGE, EvolveMergeArgs
from coilclaw.features.evolve.watcher.record import is_branch
from coilclaw.gate.turn import Turn
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import ToolCall, untrusted
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import new_id
from coilclaw.packets.text import visible
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.store.actions import action_with_key, result_of
from coilclaw.store.threads import ensure_thread

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime

THREAD = "conv_evolve"
"""The conversation in which it reaches out to the owner."""
_LOOK_SECONDS = 0.3
_LONGEST_PAUSE = 30.0
_MOST_BYTES = 1 << 16
_ASK = re.compile(r"ask-([A-Za-z0-9._+-]{1,200})\.json")


class MergeAsk(msgspec.Struct, frozen=True, tag_field="kind", tag="merge"):
    """The watcher asks to merge a branch."""

    branch: str
    old: str
    new: str


class NoticeAsk(msgspec.Struct, frozen=True, tag_field="kind", tag="notice"):
    """The watcher, or the agent's model, has something to tell the owner."""

    severity: str
    text: Annotated[str, msgspec.Meta(max_length=4000)]
    comms: bool = False
    """Whether COMMS.md does not have it yet; the watcher writes its own words there itself."""


class BranchAsk(msgspec.Struct, frozen=True, tag_field="kind", tag="branch"):
    """The watcher took a branch of the agent's into the record, or refused it."""

    branch: str
    sha: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{40})?$")]
    refused: bool


class DeskAnswer(msgspec.Struct, frozen=True):
    """What came of it."""

    ok: bool
    why: str = ""
    expired: bool = False
    """Whether nobody answered in time: then it may be asked again."""


class EvolveDesk:
    """Answers one watcher for as long as `evolve up` runs."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._calls = OwnerCalls(app, conveyor)
        self._folder = places_of(app.home.root).desk

    async def run(self) -> None:
        """Answer until cancelled; what the disk does not take now is tried again."""
        troubles = 0
        while True:
            try:
                await self.look()
                troubles = 0
            except OSError as error:
                troubles = min(troubles + 1, 20)
                if troubles == 1:
                    self._app.warn(f"The agent's desk could not write: {error}. It tries again.")
            await asyncio.sleep(min(_LOOK_SECONDS * 2**troubles, _LONGEST_PAUSE))

    async def look(self) -> None:
        """Answer everything that can be answered now."""
        for path in sorted(self._folder.glob("ask-*.json")):
            found = _ASK.fullmatch(path.name)
            if found is None or (self._folder / f"answer-{found[1]}.json").exists():
                continue
            try:
                answer = await self._answer(found[1], path)
            except CoilclawError as error:
                answer = DeskAnswer(ok=False, why=self._app.redact(str(error)))
            if answer is not None:
                put_file(self._folder, f"answer-{found[1]}.json", msgspec.json.encode(answer))

    async def _answer(self, ask_id: str, path: Path) -> DeskAnswer | None:
        try:
            asked: MergeAsk | NoticeAsk | BranchAsk = msgspec.json.decode(
                path.read_bytes()[:_MOST_BYTES], type=MergeAsk | NoticeAsk | BranchAsk
            )
        except (OSError, msgspec.DecodeError) as error:
            return DeskAnswer(ok=False, why=f"this cannot be read: {error}")
        match asked:
            case MergeAsk():
                return await self._merge(ask_id, asked)
            case NoticeAsk():
                await self._tell(ask_id, asked)
                return DeskAnswer(ok=True)
            case BranchAsk():
                # Any other name is the agent's own words.
                name = asked.branch if is_branch(asked.branch) else sha256_hex(asked.branch.encode())
                about: dict[str, Json] = {"branch": name, "commit": asked.sha, "refused": asked.refused}
                await self._app.db.write(lambda tx: add_event(tx, self._app.clock, "evolve_branch", "evolve", about))
                return DeskAnswer(ok=True)

    # Merging

    async def _merge(self, ask_id: str, asked: MergeAsk) -> DeskAnswer | None:
        app = self._app
        if app.estop.engaged():
            return None  # it waits: nothing moves before the owner clears it
        app.refresh()
        if app.config.evolve.merge == "boxed":
            made = await in_record(app, lambda record: record.merge(asked.branch, asked.old, asked.new))
            about: dict[str, Json] = {"branch": asked.branch, "commit": made, "mode": "boxed"}
            await app.db.write(lambda tx: add_event(tx, app.clock, "evolve_merged", asked.branch, about))
            return DeskAnswer(ok=True)
        key = f"evolve-{ask_id}-{asked.old}"  # the same merge into another main is another question
        action = action_with_key(app.db.reader, MERGE, key)
        if action is None:
            call = ToolCall.of(MERGE, msgspec.to_builtins(EvolveMergeArgs(asked.branch, asked.old, asked.new)))
            action = await self._calls.make(call, by="evolve", key=key, at_once=False)
        return self._came_of(action)

    def _came_of(self, action: "Action") -> DeskAnswer | None:
        if action.status in ("PENDING", "APPROVED"):
            return None
        if action.status == "EXECUTED":
            return DeskAnswer(ok=True)
        result = result_of(self._app.db.reader, action.action_id)
        why = action.rejection_reason or ("" if result is None else result.error or "") or action.status
        expired = result is not None and result.code == "EXPIRED"
        return DeskAnswer(ok=False, why=self._told(why)[:1000], expired=expired)

    # Telling

    def _told(self, text: str) -> str:
        return visible(self._app.redact(text))

    async def _tell(self, ask_id: str, asked: NoticeAsk) -> None:
        """Say it in the log and in the audit; what is critical reaches the owner."""
        app = self._app
        text = self._told(asked.text)
        app.warn(text)
        digest = sha256_hex(text.encode("utf-8", "replace"))
        about: dict[str, Json] = {"severity": asked.severity[:20], "sha256": digest}
        await app.db.write(lambda tx: add_event(tx, app.clock, "evolve_notice", "evolve", about))
        if asked.comms:
            await in_record(app, lambda record: record.tell(text))
        if asked.severity != "critical":
            return
        await app.db.write(lambda tx: ensure_thread(tx, app.clock, THREAD, "gateway", "The agent that works on itself"))
        # What the watcher quotes, such as the name of a branch, was written by the agent.
        turn = Turn(new_id("turn", app.clock()), THREAD, "gateway", (untrusted("evolve"),))
        call = ToolCall.of("reach_out", {"reason": "operator_attention_needed", "message": text[:2000]})
        await self._calls.make(call, by="evolve", key=f"evolve-{ask_id}", turn=turn)
