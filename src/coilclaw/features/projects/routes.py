"""Projects over HTTP: listed and removed, added and vouched for with owner proof."""

import asyncio
from typing import Annotated

import msgspec
from litestar import Controller, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from coilclaw.features.projects.folder import remove_project
from coilclaw.features.projects.owner_projects import OwnerProjects
from coilclaw.features.projects.views import ProjectView, view_of
from coilclaw.packets.errors import UsageError
from coilclaw.server.call_answer import CallAnswer, call_answer
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.store.projects import Project, load_project, open_projects


class AddProject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder to work in."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    """The whole path of a folder on the machine that CoilClaw runs on; it may begin with `~`."""
    vouch: bool
    """Whether its files count as the owner's; otherwise all of them are untrusted."""
    name: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """What the project is called; otherwise its folder's name."""


class ProjectList(msgspec.Struct, frozen=True, kw_only=True):
    """Projects, by name."""

    items: list[ProjectView]


class ProjectRoutes(Controller):
    """The owner's folders that the agent may work in."""

    path = "/v1/projects"
    tags = ("projects",)

    @get("/", operation_id="listProjects", summary="Projects", sync_to_thread=True)
    def list_all(self, core: NamedDependency[Core]) -> ProjectList:
        """The folders that conversations can work in besides the workspace, by name."""
        db = core.db.reader
        return ProjectList(items=[view_of(db, project, core.said) for project in open_projects(db)])

    @post("/", operation_id="addProject", summary="Add a project", status_code=202, responses=problems(422))
    async def add(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        projects: NamedDependency[OwnerProjects],
        data: JSONBody[AddProject],
        request_key: NamedDependency[str | None],
    ) -> CallAnswer:
        """Propose to let the agent work in a folder. It waits for the owner's passkey."""
        caller.must_be_device()
        adding = projects.add(data.path, data.name, vouch=data.vouch, by=caller.by, key=request_key)
        try:
            action = await asyncio.shield(adding)
        except UsageError as error:
            raise Trouble(422, "NO_PROJECT", core.said(error.message), remedy=core.said(error.remedy)) from error
        return call_answer(core, caller.by, action)

    @post(
        "/{project_id:str}/vouch",
        operation_id="vouchForProject",
        summary="Vouch for a project",
        status_code=202,
        responses=problems(404),
    )
    async def vouch(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        projects: NamedDependency[OwnerProjects],
        project_id: FromPath[str],
        request_key: NamedDependency[str | None],
    ) -> CallAnswer:
        """Propose that the files of a project count as the owner's. It waits for the owner's passkey."""
        caller.must_be_device()
        vouching = projects.vouch(_known(core, project_id), by=caller.by, key=request_key)
        return call_answer(core, caller.by, await asyncio.shield(vouching))

    @delete("/{project_id:str}", operation_id="removeProject", summary="Remove a project", responses=problems(404))
    async def remove(self, core: NamedDependency[Core], project_id: FromPath[str]) -> None:
        """The agent no longer works in that folder, whose files stay as they are. Adding it again restores it."""
        found = _known(core, project_id)
        await core.db.write(lambda tx: remove_project(tx, core.clock, found))


def _known(core: Core, project_id: str) -> Project:
    found = load_project(core.db.reader, project_id)
    if found is None:
        raise NotThere("such project", "See GET /v1/projects.")
    return found
