"""What sessions can work on: repositories of config.toml, and projects."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.names import did_you_mean
from coilclaw.store.projects import open_projects

if TYPE_CHECKING:
    from coilclaw.config.runner import Repo
    from coilclaw.runtime.runtime import Runtime


class RepoSource(msgspec.Struct, frozen=True, kw_only=True):
    """A repository to make checkouts of. It is only read."""

    provider: Literal["local", "project", "github"]
    owner: str
    """The account on GitHub; otherwise empty."""
    name: str
    """What it is called: its table in config.toml, or the project."""
    repository: str
    """Its name at its provider: on GitHub, or the name of its folder."""
    path: str
    """The folder, for local repositories and projects."""
    token_env: str = ""
    copy: tuple[str, ...] = ()
    setup: str = ""
    setup_seconds: float = 600.0

    @property
    def key(self) -> str:
        """The name of its cache: readable, and different for different repositories."""
        place = f"github:{self.owner}/{self.repository}".lower() if self.provider == "github" else self.path
        plain = re.sub(r"[^A-Za-z0-9_-]", "-", self.repository)
        return f"{plain[:40]}-{sha256_hex(place.encode('utf-8', 'surrogateescape'))[:16]}"


def sources_of(app: "Runtime") -> dict[str, RepoSource]:
    """Every repository by name. A table of config.toml comes before a project of the same name."""
    found = {
        project.name: RepoSource(
            provider="project", owner="", name=project.name, repository=Path(project.path).name, path=project.path
        )
        for project in open_projects(app.db.reader)
    }
    return found | {name: _configured(name, repo) for name, repo in app.config.repos.items()}


def _configured(name: str, repo: "Repo") -> RepoSource:
    owner, _, repository = repo.github.partition("/")
    path = "" if repo.path is None else os.path.realpath(repo.path)
    return RepoSource(
        provider="github" if repo.github else "local",
        owner=owner,
        name=name,
        repository=repository or Path(path).name,
        path=path,
        token_env=repo.token_env,
        copy=repo.copy,
        setup=repo.setup,
        setup_seconds=repo.setup_timeout_seconds,
    )


class RepoView(msgspec.Struct, frozen=True, kw_only=True):
    """A repository as it is shown."""

    name: str
    provider: Literal["local", "project", "github"]
    owner: str
    repository: str
    place: str
    """Its folder, or its name on GitHub."""
    checkouts: int
    """How many sessions have a checkout of it."""
    fault: str
    """Why no session can start from it now; empty when all is well, so far as can be seen without the network."""


def repo_views(app: "Runtime", borrowers: Mapping[str, int]) -> list[RepoView]:
    """Every repository, by name; `borrowers` counts the checkouts of each cache."""
    return [
        RepoView(
            name=source.name,
            provider=source.provider,
            owner=source.owner,
            repository=source.repository,
            place=app.redact(source.path or f"{source.owner}/{source.repository}"),
            checkouts=borrowers.get(source.key, 0),
            fault=app.redact(_fault(app, source)),
        )
        for _, source in sorted(sources_of(app).items())
    ]


def _fault(app: "Runtime", source: RepoSource) -> str:
    if source.provider == "github":
        missing = source.token_env and not app.keyring.holds(source.token_env)
        return f"{source.token_env} is not set" if missing else ""
    try:
        git_dir_of(source.path)
    except ToolError as error:
        return error.message
    return ""


def source_called(app: "Runtime", name: str) -> RepoSource:
    """The repository with that name."""
    known = sources_of(app)
    if name not in known:
        raise ToolError(
            f"there is no repository {name[:80]!r}.",
            remedy=did_you_mean(name, list(known)) or "Add it with `coilclaw repo add`.",
            code="REPO_UNKNOWN",
            begun=False,
        )
    return known[name]


def git_dir_of(folder: str) -> Path:
    """The repository in a folder of the owner's, bare or not, that stands alone; a ToolError says what is wrong."""
    place = Path(folder)
    for git_dir in (place / ".git", place):
        parts = [git_dir / name for name in ("objects", "refs")]
        if (git_dir / "HEAD").is_file() and all(part.is_dir() for part in parts):
            if any(part.is_symlink() for part in (git_dir, *parts)):
                raise _unusable(folder, "is reached by a symbolic link", "Name the folder that holds it.")
            if (git_dir / "shallow").exists():
                raise _unusable(folder, "has a shallow history", "Run `git fetch --unshallow` there.")
            if (git_dir / "objects" / "info" / "alternates").exists():
                raise _unusable(folder, "borrows objects of another one", "Run `git repack -a -d` there, then remove"
                                " objects/info/alternates.")  # fmt: skip
            return git_dir
    if (place / ".git").is_file():
        raise _unusable(folder, "is a linked worktree or a submodule", "Name the main repository's folder.")
    raise ToolError(
        f"{folder} is not a git repository.", remedy="Name the folder of one, or run `git init` there and commit.",
        code="REPO_UNKNOWN", begun=False,
    )  # fmt: skip


def _unusable(folder: str, why: str, remedy: str) -> ToolError:
    return ToolError(f"the repository in {folder} {why}.", remedy=remedy, code="CLONE_FAILED", begun=False)
