"""Projects as they are shown."""

from collections.abc import Callable

import msgspec

from coilclaw.gate.root import folder_fault
from coilclaw.store.projects import Project, conversations_in
from coilclaw.store.tx import Tx


class ProjectView(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the owner's that the agent may work in."""

    project_id: str
    name: str
    path: str
    vouched: bool
    """Its files count as the owner's, unless they are labelled one by one; otherwise all are untrusted."""
    added_at: str
    conversations: int
    """How many conversations have worked there."""
    fault: str
    """Why nothing works there now; empty when all is well."""


def view_of(db: Tx, project: Project, said: Callable[[str], str]) -> ProjectView:
    """A project as it is shown, without secrets."""
    return ProjectView(
        project_id=project.project_id,
        name=project.name,
        path=said(project.path),
        vouched=project.vouched,
        added_at=project.added_at,
        conversations=conversations_in(db, project.project_id),
        fault=said(folder_fault(project)),
    )
