"""The coding programs that sessions can run, and which version new sessions get."""

from typing import Annotated, Literal

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from coilclaw.features.runner.adapter_tool import CHANGE
from coilclaw.features.runner.adapters.contract import Adapter, Provider
from coilclaw.features.runner.adapters.known import CLIS, adapter_of
from coilclaw.features.runner.adapters.versions import Versions
from coilclaw.features.runner.routes.http_runner import HttpRunner
from coilclaw.packets.action import ToolCall
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.store.actions import result_of


class AdapterVersion(msgspec.Struct, frozen=True, kw_only=True):
    """An installed version of a coding program."""

    version: str
    in_use: bool
    """New sessions get it."""
    proof: Literal["passed", "failed", "none"]
    """Whether only that ran which its hook allowed. Versions that did not pass cannot be used."""


class AdapterView(msgspec.Struct, frozen=True, kw_only=True):
    """A coding program that sessions can run."""

    name: Provider
    package: str
    """Its package at npm."""
    tried_version: str
    """The version that this CoilClaw was tried with."""
    versions: list[AdapterVersion]
    """Those that are installed here; without one in use no session can run it."""
    previous: str
    """The version that a rollback gives to new sessions, or empty."""


class AdapterList(msgspec.Struct, frozen=True, kw_only=True):
    """The coding programs."""

    items: list[AdapterView]


class ChangeAdapter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another version for new sessions."""

    change: Literal["use", "rollback"]
    version: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """With `use`: which."""


class AdapterRoutes(Controller):
    """Coding programs and their versions. They are installed at a terminal, where their files are."""

    path = "/runner/v1/adapters"
    tags = ("runner",)

    @get("/", operation_id="listAdapters", summary="Coding programs", sync_to_thread=True)
    def list_all(self, caller: NamedDependency[Caller], http_runner: NamedDependency[HttpRunner]) -> AdapterList:
        """The coding programs that sessions can run, with the versions that are installed."""
        caller.must_be_device()
        versions = Versions(http_runner.app)
        found = [adapter for name in CLIS if (adapter := adapter_of(name)) is not None]
        return AdapterList(items=[_view(versions, each) for each in found])

    @post(
        "/{name:str}",
        operation_id="changeAdapter",
        summary="Choose a version",
        status_code=200,
        responses=problems(404, 409),
    )
    async def change(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        name: FromPath[str],
        data: JSONBody[ChangeAdapter],
        request_key: NamedDependency[str | None],
    ) -> AdapterView:
        """Give another version to new sessions. Running ones keep theirs."""
        caller.must_be_device()
        adapter = next((found for each in CLIS if each == name and (found := adapter_of(each)) is not None), None)
        if adapter is None:
            raise NotThere("such program", "See GET /runner/v1/adapters.")
        call = ToolCall.of(CHANGE, {"name": adapter.name, "change": data.change, "value": data.version})
        action = await OwnerCalls(http_runner.app, core.conveyor).make(call, by=caller.by, key=request_key)
        if action.status != "EXECUTED":
            result = result_of(core.db.reader, action.action_id)
            waits = "it waits for your answer, under Approvals."
            said = waits if result is None or action.status == "PENDING" else result.output
            raise Trouble(409, "NOT_CHANGED", core.said(said), remedy="See `coilclaw adapter list`.")
        return _view(Versions(http_runner.app), adapter)


def _view(versions: Versions, adapter: Adapter) -> AdapterView:
    history = versions.history(adapter)
    return AdapterView(
        name=adapter.name,
        package=adapter.package,
        tried_version=adapter.version,
        versions=[
            AdapterVersion(
                version=each.version,
                in_use=history[:1] == [each.version],
                proof="passed" if each.sound else "failed" if each.proved else "none",
            )
            for each in versions.installed(adapter)
        ],
        previous=history[1] if len(history) > 1 else "",
    )
