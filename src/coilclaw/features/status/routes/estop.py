"""ESTOP over HTTP: any paired device stops everything at once; going on takes the owner's passkey."""

import asyncio
import sqlite3
from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from coilclaw.gate.estop import LONGEST_REASON, known_estop, note_estop
from coilclaw.packets.errors import StorageError
from coilclaw.packets.ids import stamp
from coilclaw.packets.proof import Assertion
from coilclaw.packets.text import one_line
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.store.tx import Tx

NOTE_SECONDS = 1.0
"""A stop is answered whatever the database does; so long it may take to tell the audit first."""


class EstopNow(msgspec.Struct, frozen=True, kw_only=True):
    """Whether everything is stopped."""

    engaged: bool
    since: str | None
    """When it was engaged; null when it is not, or when nobody wrote it down."""
    reason: str
    recorded: bool
    """Whether the audit has been told; otherwise it is as soon as the database can be written. The state holds now."""
    clear_needs: str
    """What clearing it takes from this device: `passkey`, or `passkey_missing` while none is registered."""


class EngageEstop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop everything."""

    reason: Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)] = ""
    """The reason, for the audit."""


class ClearEstop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let things go on."""

    proof: Assertion | None = None
    """A passkey's answer to a challenge of purpose `estop.clear`, subject `estop`."""


NO_PROOF = ClearEstop()


def estop_now(core: Core, caller: Caller) -> EstopNow:
    """The state as this device sees it."""
    state = core.estop.state()
    return EstopNow(
        engaged=state.engaged,
        since=state.since,
        reason=core.said(state.reason),
        recorded=_recorded(core, state.engaged),
        clear_needs=_clear_needs(core, caller),
    )


def _recorded(core: Core, engaged: bool) -> bool:
    try:
        return known_estop(core.db.reader) == engaged
    except sqlite3.Error:
        return False


def _clear_needs(core: Core, caller: Caller) -> str:
    try:
        return core.approvals.owner.needed(core.db.reader, "C", caller.by)
    except sqlite3.Error:
        return "passkey"


async def engage(core: Core, caller: Caller, reason: str) -> EstopNow:
    """Stop everything; the file first, since a database in trouble must not keep it from being set."""
    why = one_line(core.said(reason)).strip() or f"by {caller.by}"
    try:
        core.estop.engage(why, stamp(core.clock()))
    except OSError as error:
        raise StorageError(f"ESTOP cannot be set ({error.strerror}).", remedy="Stop the process instead.") from error
    noted = asyncio.ensure_future(
        core.db.write(lambda tx: note_estop(tx, core.clock, engaged=True, by=caller.by, reason=why))
    )
    noted.add_done_callback(_heard)
    await asyncio.wait((noted,), timeout=NOTE_SECONDS)
    return estop_now(core, caller)


def _heard(noted: "asyncio.Future[bool]") -> None:
    """A note that failed is made later, by whoever watches the file."""
    if not noted.cancelled():
        noted.exception()


class EstopController(Controller):
    """The emergency stop."""

    path = "/v1/estop"
    tags = ("estop",)

    @get(operation_id="getEstop")
    async def show(self, core: NamedDependency[Core], caller: NamedDependency[Caller]) -> EstopNow:
        """Whether everything is stopped, since when and why."""
        return estop_now(core, caller)

    @post(operation_id="engageEstop", status_code=200)
    async def engage(
        self, core: NamedDependency[Core], caller: NamedDependency[Caller], data: JSONBody[EngageEstop | None] = None
    ) -> EstopNow:
        """Stop every effect at once: no tool starts, what runs is ended. Twice is fine; so is an empty body."""
        return await engage(core, caller, data.reason if data is not None else "")

    @post("/clear", operation_id="clearEstop", status_code=200)
    async def clear(
        self, core: NamedDependency[Core], caller: NamedDependency[Caller], data: JSONBody[ClearEstop] = NO_PROOF
    ) -> EstopNow:
        """Let things go on. Needs the owner's passkey; what was held goes on by itself."""
        mark = core.estop.mark()
        if mark:

            def proved(tx: Tx) -> None:
                core.approvals.owner.demand(
                    tx, purpose="estop.clear", subject="estop", by=caller.by, assertion=data.proof, digest=mark
                )
                note_estop(tx, core.clock, engaged=True)  # it may have been set a moment ago by a process of its own
                note_estop(tx, core.clock, engaged=False, by=caller.by)

            await core.db.write(proved)
            try:
                cleared = core.estop.clear(mark)
            except OSError as error:
                raise StorageError(
                    f"ESTOP cannot be cleared ({error.strerror}).", remedy="Remove the file by hand."
                ) from error
            if not cleared:  # somebody has pressed it anew: the yes was not to that
                await core.db.write(lambda tx: note_estop(tx, core.clock, engaged=True))
        return estop_now(core, caller)
