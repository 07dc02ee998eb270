"""The gateway: the few short addresses that scripts and monitors use."""

from typing import Literal

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency

from coilclaw import __version__
from coilclaw.features.records.chain import ChainWatch, Checked
from coilclaw.features.records.chain_rounds import ChainRounds
from coilclaw.features.status.routes.estop import EstopNow, engage, estop_now
from coilclaw.features.status.server_status import ServerStatus, ToolListed
from coilclaw.ledger.chain import last_link
from coilclaw.packets.decision import Autonomy
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.store.sizes import Sizes, sizes_of


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody is there. Says little else, because anybody may ask."""

    status: Literal["ok"] = "ok"
    database: Literal["ok", "waiting"]
    """`waiting` while another program keeps this one from writing; `/status` says which."""
    config: Literal["ok", "rejected"]
    """`rejected` while config.toml as it is now is invalid and the last valid one stays in force."""


class ChainNow(msgspec.Struct, frozen=True, kw_only=True):
    """The receipts as they stand."""

    receipts: int
    hash: str
    """The hash of the newest receipt."""
    valid: bool | None
    """Whether the chain held when it was last verified; null when that has not been done yet."""
    verified_at: str | None


class StatusNow(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand."""

    version: str
    started_at: str
    uptime_seconds: int
    worker: bool
    """Whether some process works on jobs and carries out what is approved."""
    queue: Sizes
    estop: EstopNow
    chain: ChainNow
    autonomy: Autonomy
    policy_broken: bool
    """A policy file is broken, so only reads run."""
    provider: str
    model: str
    """The model that is asked for."""
    config_fault: str
    """Why config.toml as it is now is not in force; empty when it is."""
    waiting_for: str
    """Who keeps the database from being written, and what to do about it; empty when nobody does."""


class ToolList(msgspec.Struct, frozen=True, kw_only=True):
    """Every tool there is."""

    items: list[ToolListed]


class GatewayController(Controller):
    """Short addresses."""

    path = "/"
    tags = ("gateway",)

    @get("/health", operation_id="getHealth")
    async def health(self, core: NamedDependency[Core], server_status: NamedDependency[ServerStatus]) -> Health:
        """Whether somebody is there. Needs no token and nothing of the database."""
        return Health(
            database="waiting" if core.db.held_by else "ok", config="ok" if server_status.holds() else "rejected"
        )

    @get("/status", operation_id="getStatus")
    async def status(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        server_status: NamedDependency[ServerStatus],
        chain_watch: NamedDependency[ChainWatch],
        chain_rounds: NamedDependency[ChainRounds],
    ) -> StatusNow:
        """How things stand, in one look."""
        now = server_status.standing()
        return StatusNow(
            version=__version__,
            started_at=now.started_at,
            uptime_seconds=now.uptime_seconds,
            worker=now.worker,
            queue=sizes_of(core.db.reader),
            estop=estop_now(core, caller),
            chain=_chain(core, await chain_rounds.last(chain_watch)),
            autonomy=now.autonomy,
            policy_broken=now.policy_broken,
            provider=core.said(now.provider),
            model=core.said(now.model),
            config_fault=core.said(now.config_fault),
            waiting_for=core.said(core.db.held_by),
        )

    @get("/tools", operation_id="listTools")
    async def tools(self, core: NamedDependency[Core], server_status: NamedDependency[ServerStatus]) -> ToolList:
        """Every tool, and what the gate says to a plain call of it now."""
        return ToolList(
            items=[
                msgspec.structs.replace(each, reasons=[core.said(reason) for reason in each.reasons])
                for each in server_status.tools()
            ]
        )

    @post("/estop", operation_id="engageEstopShort", status_code=200)
    async def estop(self, core: NamedDependency[Core], caller: NamedDependency[Caller]) -> EstopNow:
        """Stop every effect at once, whatever is sent along. POST /v1/estop does the same and takes a reason."""
        return await engage(core, caller, "")


def _chain(core: Core, checked: Checked | None) -> ChainNow:
    size, newest = last_link(core.db.reader)
    if checked is None:
        return ChainNow(receipts=size, hash=newest, valid=None, verified_at=None)
    return ChainNow(receipts=size, hash=newest, valid=checked.report.valid, verified_at=checked.at)
