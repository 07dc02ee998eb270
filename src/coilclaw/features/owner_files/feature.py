"""Owner files: the routes of the system prompt and of workspace files as they are shown."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def owner_files_part(serving: "Serving") -> "Part":
    """The routes of the owner's files."""
    from coilclaw.features.owner_files.owner_files import OwnerFiles
    from coilclaw.features.owner_files.routes import ShownFiles, SystemPromptController, WorkspaceFileRoutes
    from coilclaw.server.part import Part
    from coilclaw.server.redacting import Redacting

    return Part(
        controllers=(SystemPromptController, ShownFiles, WorkspaceFileRoutes),
        given={"owner_files": OwnerFiles(serving), "file_redacting": Redacting(serving.core)},
    )


FEATURE = Feature(part=owner_files_part)
