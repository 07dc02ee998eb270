"""The agent that works on itself over HTTP: seen, directed, stopped, released, and taken back with owner proof."""

from collections.abc import Awaitable
from typing import Annotated, Literal

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from coilclaw.features.evolve.owner_evolve import EvolveLog, OwnerEvolve
from coilclaw.features.evolve.views import EvolvePage
from coilclaw.packets.action import Status
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.server.call_answer import call_answer
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import Trouble, problems

Which = Annotated[Literal["errors", "boot", "watcher"], QueryParameter(description="Which log.")]


class AgentDirective(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agent should do."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]


class AgentRollback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to go back to."""

    ref: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """A branch, a tag or a commit of the agent's repository."""


class RollbackAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where the rollback stands."""

    action_id: str
    status: Status
    needs: str
    """What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing."""
    message: str


class EvolveRoutes(Controller):
    """The agent that works on its own code."""

    path = "/v1/evolve"
    tags = ("evolve",)

    @get("/", operation_id="getEvolve", summary="The agent", sync_to_thread=True)
    def page(self, owner_evolve: NamedDependency[OwnerEvolve]) -> EvolvePage:
        """What runs, how its starts went, what it was told and reports. `exists` is false before `evolve init`."""
        return owner_evolve.page()

    @get("/logs", operation_id="getEvolveLog", summary="A log", sync_to_thread=True, responses=problems(404))
    def log(self, owner_evolve: NamedDependency[OwnerEvolve], which: Which = "errors") -> EvolveLog:
        """The end of a log: what the agent prints, its starts, or what the watcher did."""
        try:
            return owner_evolve.log(which)
        except UsageError as error:
            raise Trouble(404, "NOT_FOUND", error.message, remedy=error.remedy) from error

    @post("/directives", operation_id="directEvolve", summary="Add a directive", responses=problems(404, 422))
    async def say(
        self,
        core: NamedDependency[Core],
        owner_evolve: NamedDependency[OwnerEvolve],
        data: JSONBody[AgentDirective],
    ) -> EvolvePage:
        """Add a directive to COMMS.md on main."""
        return await _done(core, owner_evolve, owner_evolve.say(data.text))

    @post("/stop", operation_id="stopEvolve", summary="Stop the agent", responses=problems(404, 422))
    async def stop(self, core: NamedDependency[Core], owner_evolve: NamedDependency[OwnerEvolve]) -> EvolvePage:
        """End the agent that runs, and its watcher. It is started at the terminal or by its service."""
        return await _done(core, owner_evolve, owner_evolve.stop())

    @post("/release", operation_id="releaseEvolve", summary="End a hold", responses=problems(404, 422))
    async def release(self, core: NamedDependency[Core], owner_evolve: NamedDependency[OwnerEvolve]) -> EvolvePage:
        """Let the agent go on after the watcher held it."""
        return await _done(core, owner_evolve, owner_evolve.release())

    @post("/rollback", operation_id="rollBackEvolve", summary="Go back", responses=problems(404, 422))
    async def rollback(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        owner_evolve: NamedDependency[OwnerEvolve],
        data: JSONBody[AgentRollback],
        request_key: NamedDependency[str | None],
    ) -> RollbackAnswer:
        """Propose to start the agent from an earlier commit. It waits for the owner's passkey."""
        try:
            action = await owner_evolve.rollback(data.ref, by=caller.by, key=request_key)
        except (UsageError, ToolError) as error:
            raise Trouble(422, "NO_SUCH_REF", core.said(error.message), remedy=error.remedy) from error
        stands = call_answer(core, caller.by, action)
        return RollbackAnswer(
            action_id=stands.action_id, status=stands.status, needs=stands.needs, message=stands.message
        )


async def _done(core: Core, owner: OwnerEvolve, doing: Awaitable[None]) -> EvolvePage:
    try:
        await doing
    except UsageError as error:
        raise Trouble(404, "NOT_FOUND", core.said(error.message), remedy=error.remedy) from error
    except ToolError as error:
        raise Trouble(422, error.code, core.said(error.message), remedy=error.remedy) from error
    return owner.page()
