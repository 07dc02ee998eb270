"""Brings a repository's commits into its cache. A box reads the repository; the cache takes over checked packs."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from coilclaw.features.runner.boxed_git import (
    FETCH,
    OBJECTS,
    PACK,
    SOURCE,
    object_format,
    run_script,
    script_spec,
    with_token,
)
from coilclaw.features.runner.sources import RepoSource, git_dir_of
from coilclaw.packets.box import BoxMount
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.hostile_tree import remove_tree
from coilclaw.sandbox.repo_cache import RepoCache, is_sha, read_references

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

FETCH_SECONDS = 1800.0
References: TypeAlias = tuple[dict[str, str], str]
"""Branches and tags by name, and what HEAD names."""
T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do it in a thread, which no cancellation reaches: wait for it, then pass the cancellation on."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


class Fetching:
    """Fetches into one cache, whose lock the caller holds."""

    def __init__(self, app: "Runtime", cache: RepoCache, *, room: int) -> None:
        self._app = app
        self._cache = cache
        self._room = room

    async def local(self, source: RepoSource, seen: References | None) -> References:
        """Bring the cache up to date with a folder of the owner's: what that says now. What was `seen` is there."""
        git_dir = await in_thread(lambda: git_dir_of(source.path))
        references, head = said = await in_thread(lambda: read_references(git_dir))
        if said == seen and await in_thread(lambda: self._cache.mirrors(references)):
            return said
        if not references:
            raise ToolError(
                f"the repository {source.name} has no branch.", remedy="Commit something there first.",
                code="REF_GONE", begun=False,
            )  # fmt: skip
        sha256 = any(len(sha) == 64 for sha in references.values())
        await in_thread(lambda: self._cache.make(sha256=sha256))
        mount = BoxMount(source=str(git_dir / "objects"), at=f"{SOURCE}/objects", writable=False)
        await self.pack(mount, "objects", set(references.values()), what=f"{source.name} cannot be read")
        await in_thread(lambda: self._mirror(references, head))
        return said

    async def pack(self, mount: BoxMount, objects: str, tips: set[str], *, what: str) -> None:
        """Bring commits with all they need from a folder of objects that is not trusted, below a mount at `SOURCE`."""
        there = await in_thread(lambda: self._cache.existing(tips))
        if not (missing := tips - there.keys()):
            return
        known = await in_thread(lambda: self._cache.existing(self._cache.references().values()))
        given = "".join([*(f"{sha}\n" for sha in sorted(missing)), *(f"^{sha}\n" for sha in sorted(known))])
        incoming = await in_thread(self._incoming)
        spec = script_spec(
            PACK, object_format(min(missing)), objects, workspace=incoming, mounts=(self.mount(), mount), writable=True,
            given=given.encode(), written=self._room,
        )  # fmt: skip
        await run_script(self._app, spec, what=what, code="CLONE_FAILED")
        await in_thread(self._take)

    async def github(self, source: RepoSource, address: str, domain: str) -> None:
        """Bring the cache up to date with a repository on GitHub, in a box that reaches that domain alone."""
        from coilclaw.runtime.reachable import listing_of
        from coilclaw.sandbox.box import reaching

        airlock = self._app.airlock.with_listing(listing_of(self._app.config, domain))
        box = reaching(self._app.open_box(), airlock)
        await in_thread(lambda: self._cache.make(sha256=False))
        known = await in_thread(lambda: self._cache.existing(self._cache.references().values()))
        haves = "".join(f"{sha} refs/known/{number}\n" for number, sha in enumerate(sorted(known)))
        incoming = await in_thread(self._incoming)
        token = self._app.keyring.get(source.token_env, "") if source.token_env else ""
        if source.token_env and not token:
            raise ToolError(
                f"{source.token_env} is not set, which {source.name} is read with.",
                remedy=f"Store it with `coilclaw secret set {source.token_env}`.", code="CLONE_FAILED", begun=False,
            )  # fmt: skip
        spec = script_spec(
            FETCH, address, workspace=incoming, mounts=(self.mount(),), writable=True, given=haves.encode(),
            written=self._room, seconds=FETCH_SECONDS, domains=(domain,), environment=with_token(token), output=8 << 20,
        )  # fmt: skip
        told = await run_script(self._app, spec, what=f"{source.name} cannot be fetched", code="CLONE_FAILED", box=box)
        pairs = [line.split(" ", 1) for line in told.decode("utf-8", "surrogateescape").splitlines() if " " in line]
        head = next((name for word, name in pairs if word == "HEAD"), "")
        references = {name: sha for sha, name in pairs if is_sha(sha)}
        await in_thread(self._take)
        await in_thread(lambda: self._mirror(references, head))

    def mount(self) -> BoxMount:
        """The cache's objects."""
        return BoxMount(source=str(self._cache.objects), at=OBJECTS, writable=False)

    def _incoming(self) -> Path:
        remove_tree(self._cache.incoming)
        self._cache.incoming.mkdir(mode=0o700)
        return self._cache.incoming

    def _take(self) -> None:
        self._app.reached("repo_packed")
        self._cache.take()
        self._app.reached("repo_taken")
        remove_tree(self._cache.incoming)

    def _mirror(self, references: dict[str, str], head: str) -> None:
        """Take over the references, all of whose objects must have arrived: branches are commits."""
        kinds = self._cache.existing(references.values())
        if any(kinds.get(sha) != "commit" for name, sha in references.items() if name.startswith("refs/heads/")):
            raise ToolError(
                "the repository is incomplete.", remedy="Run `git fsck` there.", code="CLONE_FAILED", begun=False
            )
        self._cache.mirror({name: sha for name, sha in references.items() if sha in kinds}, head)
