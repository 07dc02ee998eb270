"""Where a repository that a packet names is worked in: a project that is a clone of it, or the workspace itself."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.sandbox.files import read_existing
from coilclaw.store.projects import open_projects

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

CONFIG_BYTES = 256 << 10
_ADDRESS = re.compile(
    r"""\s*url\s*=\s*"?(?:https://(?:[^@/\s]*@)?github\.com/|(?:ssh://)?git@github\.com[:/])"""
    r"""([\w.-]+/[\w.-]+?)(?:\.git)?/?"?\s*\Z""",
    re.IGNORECASE,
)


def place_of(app: "Runtime", repository: str) -> str | None:
    """The id of the project, empty for the workspace; None when it is neither."""
    wanted, forge = repository.casefold(), app.config.forge
    if forge.enabled and forge.kind == "github" and forge.github.repository.casefold() == wanted:
        return ""
    projects = open_projects(app.db.reader)
    return next((each.project_id for each in projects if wanted in _clone_of(Path(each.path))), None)


def _clone_of(folder: Path) -> Iterator[str]:
    """The repositories on GitHub that the remotes of a folder name. Its settings are read as text; no git runs."""
    in_remote = False
    for line in (read_existing(folder, ".git/config", CONFIG_BYTES) or b"").decode("utf-8", "replace").splitlines():
        if line.lstrip().startswith("["):
            in_remote = line.lstrip()[1:].lower().startswith("remote ")
        elif in_remote and (found := _ADDRESS.match(line)):
            yield found[1].casefold()
