"""Which repository is meant: by the reference of a request, or by what the owner typed."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.runner.sources import RepoSource, source_called, sources_of
from coilclaw.features.runner.spec import RepoRef
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


def find_source(app: "Runtime", ref: RepoRef) -> RepoSource:
    """The repository of a request; a ToolError if the owner named no such one."""
    for each in sources_of(app).values():
        if repo_ref(each) == ref:
            return each
    return source_called(app, f"{ref.provider}:{ref.text}")  # which says that there is none


def named_repo(app: "Runtime", typed: str) -> RepoRef:
    """What the owner typed: a name, a folder (or one inside), or OWNER/NAME at GitHub."""
    found = _listed(app, typed)
    if found is not None:
        return repo_ref(found)
    folder = unlisted_folder(app, typed)
    if folder is not None:
        raise UsageError(f"{folder} is not one of your repositories yet.", remedy=f"Run `coilclaw repo add {folder}`.")
    return repo_ref(source_called(app, typed))


def unlisted_folder(app: "Runtime", typed: str) -> str | None:
    """The folder that was typed, if it is none of the owner's repositories yet."""
    folder = _folder(typed)
    return None if folder is None or _listed(app, typed) is not None else _top(folder)


def room_in(typed: str) -> str:
    """Where in the repository the folder is that was typed; empty: at its top, or no folder was meant."""
    folder = _folder(typed)
    return "" if folder is None or folder == _top(folder) else os.path.relpath(folder, _top(folder))


def _listed(app: "Runtime", typed: str) -> RepoSource | None:
    folder = _folder(typed)
    path = os.path.realpath(os.path.expanduser(typed)) if folder is None else _top(folder)  # noqa: PTH111
    for each in sources_of(app).values():
        at_github = each.provider == "github" and f"{each.owner}/{each.repository}".lower() == typed.lower()
        if each.name == typed or at_github or (each.path and each.path == path):
            return each
    return None


def _folder(typed: str) -> str | None:
    """The folder that was typed as a path; a bare name means a repository first."""
    path = os.path.realpath(os.path.expanduser(typed))  # noqa: PTH111 - it may be no path at all
    return path if os.path.isdir(path) and ("/" in typed or typed in (".", "..")) else None  # noqa: PTH112


def _top(path: str) -> str:
    """The repository that a folder is in; the folder itself if it is in none."""
    return next((str(each) for each in (Path(path), *Path(path).parents) if (each / ".git").exists()), path)


def repo_ref(source: RepoSource) -> RepoRef:
    """How a repository is named in requests."""
    name = source.repository if source.provider == "github" else source.name
    return RepoRef(provider=source.provider, owner=source.owner, name=name)
