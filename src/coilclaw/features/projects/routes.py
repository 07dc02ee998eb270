"""Projects over HTTP: listed. They are added and removed at the terminal."""

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency

from coilclaw.features.projects.views import ProjectView, view_of
from coilclaw.server.core import Core
from coilclaw.store.projects import open_projects


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
        return ProjectList(items=[view_of(project, core.said) for project in open_projects(core.db.reader)])
