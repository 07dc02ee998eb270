"""Edits of schedules that the owner makes, at the terminal or over HTTP: each is one change of the registry file.

At the terminal the owner writes the file. A paired device proposes to write it, and the gate has its say.
"""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.features.schedules.registry_edit import Edit
    from coilclaw.features.schedules.scheduler import Draft, Scheduler
    from coilclaw.gate.records import Write
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.serving import Serving

TOOL = "file_write"
PATIENCE_SECONDS = 10.0
LOOK_SECONDS = 0.02


class GatedEdits:
    """Edits by a paired device: drafted, proposed with exactly the drafted bytes, taken over once they are written."""

    def __init__(self, serving: "Serving", clockwork: "Scheduler") -> None:
        from coilclaw.runtime.owner_calls import OwnerCalls

        self._app = serving.runtime
        self._core = serving.core
        self._clockwork = clockwork
        self._calls = OwnerCalls(serving.runtime, serving.core.conveyor)
        self._one = asyncio.Lock()  # of this process, only one stands in line for the registry

    async def make(
        self, edit: "Edit", *, by: str, in_transaction: "Write | None" = None, key: str | None = None
    ) -> None:
        """Make one edit; a Trouble when the gate or the tool would not. What the edit objects to is not proposed."""
        from coilclaw.features.schedules.registry import REGISTRY
        from coilclaw.packets.action import ToolCall

        async with self._one, self._clockwork.editing():
            draft = await self._clockwork.draft(edit)
            _must_fit(draft)
            call = ToolCall.of(TOOL, {"path": REGISTRY, "content": draft.data.decode("utf-8")})
            async with self._clockwork.being_written():
                await self._must_be_written(await self._calls.make(call, by=by, key=key))
                await self._clockwork.take(draft, in_transaction, by)

    async def added_by(self, by: str, key: str | None) -> str | None:
        """The schedule that an earlier try of this request added, though it never came to say so; None when none."""
        from coilclaw.features.schedules.scheduler import Draft
        from coilclaw.features.schedules.store.schedules import load_schedule

        action = self._calls.earlier(TOOL, key)
        if action is None:
            return None
        async with self._one, self._clockwork.editing():
            await self._must_be_written(await self._calls.go_on(action, by=by))
            data, added = _written_by(action)
            if load_schedule(self._app.db.reader, added) is None:
                await self._clockwork.take(Draft(data=data, written=None), None, by)
        return added

    async def _must_be_written(self, action: "Action") -> None:
        from coilclaw.server.problems import Trouble
        from coilclaw.store.actions import result_of

        action = await self._ended(action)
        if action.status == "EXECUTED":
            return
        result = result_of(self._app.db.reader, action.action_id)
        code, said = ("", "") if result is None else (result.code, result.output)
        if action.status == "PENDING":  # its bytes would be stale by the time somebody says yes
            await self._core.approvals.withdraw(action, reason="a schedule edit is applied at once or not at all")
        told = f"the schedules were not changed ({action.action_id}): {said or action.status}"
        if action.status == "REJECTED" and code not in ("DIGEST_CHANGED", "RULES_CHANGED"):
            raise Trouble(403, code or "DENIED", told, remedy=" ".join(action.decision.recommended_changes))
        raise Trouble(409, code or "NOT_WRITTEN", told, remedy="Resolve what blocks it, then send it again.")

    async def _ended(self, action: "Action") -> "Action":
        """The action when it is over: a worker may have taken it up before us."""
        from coilclaw.store.actions import load_action

        for _ in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
            if action.status != "APPROVED" or self._app.estop.engaged():
                break
            await asyncio.sleep(LOOK_SECONDS)
            action = load_action(self._app.db.reader, action.action_id) or action
        return action


def _must_fit(draft: "Draft") -> None:
    from coilclaw.server.problems import Trouble
    from coilclaw.tools.files import MAX_WRITE

    if len(draft.data) > MAX_WRITE:
        raise Trouble(
            422,
            "REGISTRY_TOO_LARGE",
            f"cron/jobs.json would be {len(draft.data)} bytes; over HTTP at most {MAX_WRITE} are allowed.",
            remedy="Edit it at the terminal with `coilclaw schedule`, or remove some there.",
        )


def _written_by(action: "Action") -> tuple[bytes, str]:
    """What an edit wrote, and the entry it added, which is the last."""
    import msgspec

    from coilclaw.features.schedules.registry import read_registry
    from coilclaw.tools.files import WriteArgs

    data = msgspec.json.decode(action.call.args_bytes, type=WriteArgs).content.encode("utf-8")
    return data, read_registry(data).declared[-1].schedule_id


def is_followup(app: "Runtime", schedule_id: str) -> bool:
    """Whether the agent planned it for itself; the registry knows nothing of these."""
    from coilclaw.features.schedules.store.schedules import origin_of

    return origin_of(app.db.reader, schedule_id) == "followup"


def known_ids(app: "Runtime") -> list[str]:
    """Every id that the table or the file has; both may know something the other does not know yet."""
    from coilclaw.features.schedules.schedule_views import declared_ids
    from coilclaw.features.schedules.store.schedules import schedule_ids

    return sorted({*schedule_ids(app.db.reader), *declared_ids(app)})


async def switch(app: "Runtime", schedule_id: str, *, on: bool, by: str = "cli") -> None:
    """Write into the registry whether it runs; a pause ends with it."""
    from coilclaw.features.schedules.registry_edit import changing
    from coilclaw.features.schedules.scheduler import Scheduler

    await Scheduler(app).edit(changing(schedule_id, {"enabled": on}), awake(app, schedule_id, on=on, by=by), by)


def awake(app: "Runtime", schedule_id: str, *, on: bool, by: str) -> "Write":
    """What belongs to letting a schedule run: its pause, if it has one, is over."""
    from coilclaw.features.schedules.outcomes import end_pause

    def in_transaction(tx: Tx) -> None:
        if on:
            end_pause(tx, app.clock, schedule_id, by)

    return in_transaction


async def forget_followup(app: "Runtime", schedule_id: str, *, by: str = "cli") -> None:
    """Take a follow-up away."""
    from coilclaw.features.schedules.followups import forget

    await app.db.write(lambda tx: forget(tx, app.clock, schedule_id, by))
