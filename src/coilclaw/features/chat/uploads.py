"""Uploads: a file from the owner's device goes through the gate into the workspace, labelled before it is there."""

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.chat.attachment_name import fitted
from coilclaw.features.chat.store.artifacts import keep_artifact
from coilclaw.gate.paths import UPLOADS
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, Label, Source, ToolCall, ToolResult
from coilclaw.packets.canonical import parse_object, sha256_hex
from coilclaw.packets.card import Answer, Card
from coilclaw.packets.errors import Conflict
from coilclaw.packets.ids import new_id
from coilclaw.store.actions import action_with_key, load_action, result_of
from coilclaw.store.notes import artifact_id_of
from coilclaw.store.tx import Tx
from coilclaw.tools.attachments import LABEL

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

TOOL = "attachment_save"
TRIES = 5
"""How often another name is tried when somebody else takes the chosen one first."""
NAMES = 1000
SOURCE: Source = "gateway"


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a device sent, its names already plain."""

    name: str
    folder: str
    """Below attachments/; empty for attachments/ itself."""
    data: bytes


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is in the workspace now."""

    path: str
    """Where it lies in the workspace; the name may carry a number when it was taken."""
    size: int
    sha256: str
    label: Label
    """Whose words it counts as: what it says is not the owner's."""
    action_id: str
    receipt_id: str


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The gate did not let it in, or it could not be written."""

    code: str
    reasons: tuple[str, ...]
    changes: tuple[str, ...]
    """What would change its mind."""
    action_id: str
    denied: bool
    """It was not let in; else it was, and failed."""
    under_way: bool
    """It was let in and is not there yet: another process carries it out."""


class Uploads:
    """Saves what devices upload. The authenticated upload is itself the owner's yes to exactly these bytes."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._by: dict[str, str] = {}
        """Who uploads, by the action that is being carried."""
        self._turnstile = asyncio.Lock()
        self._made: Conveyor | None = None

    @property
    def _conveyor(self) -> "Conveyor":
        if self._made is None:
            self._made = self._app.conveyor(self._answer)
        return self._made

    async def _answer(self, card: Card) -> Answer:
        """A yes in lane A, to the very action that was made of the upload. Anything else would have to wait."""
        by = self._by.get(card.action_id)
        if by is None or card.lane != "A" or card.tool_name != TOOL:
            return Answer(approved=None)
        return Answer(approved=True, by=by)

    async def save(self, upload: Upload, *, by: str, key: str | None) -> Saved | Refused:
        """Save a file under a free name; the same key again saves it once."""
        key = f"upload:{key or new_id('key', self._app.clock())}"
        async with self._turnstile:  # names are chosen one after the other
            outcome: Saved | Refused | None = None
            for number in range(TRIES):
                outcome = await self._once(upload, by, f"{key}:{number}")
                if isinstance(outcome, Saved) or outcome.code != "FILE_EXISTS":
                    return outcome
            assert outcome is not None  # noqa: S101 - TRIES is not 0
            return outcome

    async def _once(self, upload: Upload, by: str, key: str) -> Saved | Refused:
        action = action_with_key(self._app.db.reader, TOOL, key)
        if action is None:
            action = await self._propose(upload, by, key)
        elif parse_object(action.call.args_bytes).get("sha256") != sha256_hex(upload.data):
            raise Conflict(
                "this Idempotency-Key was used before with another file.", remedy="Use a new Idempotency-Key."
            )
        elif action.status == "APPROVED":
            await self._go_on(action)
        action = load_action(self._app.db.reader, action.action_id) or action
        if action.status == "PENDING":
            reason = "uploads are only accepted where the owner's device alone can approve"
            await self._app.approvals(self._conveyor).reject(action, reason=reason, by=by)
        return self._told(action, upload)

    async def _go_on(self, action: Action) -> None:
        """Carry out what a dead process left begun; what a live one has in hand is left to it."""
        if action.begun:
            await self._conveyor.recover()
        left = load_action(self._app.db.reader, action.action_id)
        if left is not None:
            await self._conveyor.execute(left)

    async def _propose(self, upload: Upload, by: str, key: str) -> Action:
        sha256 = sha256_hex(upload.data)
        artifact_id = artifact_id_of(key)
        path = self._free_path(upload)
        call = ToolCall.of(TOOL, {"artifact_id": artifact_id, "path": path, "sha256": sha256})
        turn = Turn(new_id("upload", self._app.clock()), "", SOURCE, (LABEL,))
        action = self._conveyor.intake.propose(call, turn, key)
        if action.decision.verdict != "deny":
            await self._app.db.write(lambda tx: self._keep(tx, artifact_id, path, upload))
        self._by[action.action_id] = by
        try:
            return (await self._conveyor.carry(action, turn, stored=False)).action
        finally:
            del self._by[action.action_id]

    def _keep(self, tx: Tx, artifact_id: str, path: str, upload: Upload) -> None:
        """Keep the bytes, and label the file before it is there: no reader ever finds it without."""
        keep_artifact(
            tx,
            self._app.clock,
            artifact_id=artifact_id,
            kind="upload",
            name=upload.name,
            content=upload.data,
            label=LABEL,
        )
        labels = self._app.root.labels
        labels.mark(tx, labels.expected(path, upload.data), (LABEL,))

    def _free_path(self, upload: Upload) -> str:
        folder = "/".join(part for part in (UPLOADS, upload.folder) if part)
        root = self._app.workspace / folder
        for number in range(1, NAMES):
            name = upload.name if number == 1 else fitted(upload.name, f"-{number}")
            if not os.path.lexists(root / name):
                return f"{folder}/{name}"
        return f"{folder}/{fitted(upload.name, '-' + os.urandom(6).hex())}"

    def _told(self, action: Action, upload: Upload) -> Saved | Refused:
        result = result_of(self._app.db.reader, action.action_id) or ToolResult(success=False, output="")
        if action.status == "EXECUTED":
            args = parse_object(action.call.args_bytes)
            return Saved(
                path=str(args["path"]),
                size=len(upload.data),
                sha256=str(args["sha256"]),
                label=LABEL,
                action_id=action.action_id,
                receipt_id=result.receipt_id or "",
            )
        waits = action.status in ("PENDING", "APPROVED")
        return Refused(
            code=action.decision.code if waits else result.code or action.decision.code,
            reasons=action.decision.reasons if action.decision.verdict == "deny" or waits else (result.output,),
            changes=action.decision.recommended_changes,
            action_id=action.action_id,
            denied=action.status in ("PENDING", "REJECTED"),
            under_way=action.status == "APPROVED",
        )
