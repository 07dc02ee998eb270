"""What was merged is given to the owner's repository: checked object by object in a box, then the branch moves."""

from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.runner.boxed_git import OBJECTS, PACK, SOURCE, object_format, run_script, script_spec
from coilclaw.features.runner.fetching import in_thread
from coilclaw.features.runner.sources import RepoSource, git_dir_of
from coilclaw.packets.box import BoxMount
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.sandbox.hostile_tree import remove_tree
from coilclaw.sandbox.owner_branch import OwnerBranch

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.sandbox.repo_cache import RepoCache


def cache_repository(cache: "RepoCache") -> BotRepository:
    """The cached copy of a repository, as plumbing reads it."""
    return BotRepository(cache.folder, git_dir=cache.folder, objects=cache.objects)


async def give(app: "Runtime", cache: "RepoCache", source: RepoSource, branch: str, tip: str, commit: str) -> None:
    """Move a branch of a local repository from its tip to a commit of the cache, whose lock the caller holds."""
    if source.provider == "github":
        raise ToolError(
            f"{source.name} is on GitHub, where nothing is merged from here.",
            remedy="Push the branch yourself.",
            code="MERGE_REFUSED",
            begun=False,
        )
    git_dir = await in_thread(lambda: git_dir_of(source.path))
    owners = OwnerBranch(git_dir, branch)
    await in_thread(lambda: _emptied(cache.incoming))
    # The roles of reading a repository are swapped: what the box packs is ours, and the owner's objects are known.
    mounts = (
        BoxMount(source=str(git_dir / "objects"), at=OBJECTS, writable=False),
        BoxMount(source=str(cache.objects), at=f"{SOURCE}/objects", writable=False),
    )
    spec = script_spec(
        PACK, object_format(commit), "objects", workspace=cache.incoming, mounts=mounts, writable=True,
        given=f"{commit}\n^{tip}\n".encode(), written=app.config.runner.disk_bytes,
    )  # fmt: skip
    await run_script(app, spec, what=f"{source.name} cannot take over what was merged", code="MERGE_REFUSED")
    app.reached("merge_packed")

    def moved() -> None:
        owners.take(cache.incoming / "own" / "objects" / "pack")
        app.reached("merge_given")
        remove_tree(cache.incoming)
        repository = cache_repository(cache)
        changes = repository.changes(tip, commit)
        owners.advance(tip, commit, changes, repository.blobs, app.reached)

    await in_thread(moved)


def _emptied(folder: Path) -> None:
    remove_tree(folder)
    folder.mkdir(mode=0o700)
