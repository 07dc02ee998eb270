"""Checkouts: the folder a session works in, a git clone of its own that borrows the objects of its repository's cache.

On disk, below `[runner] sessions_dir`: `.repos/<key>.git` are the caches, `<session_id>/<name>` is a checkout, beside
it `checkout.json` and `index`, its index as it was made. A box sees the checkout and the objects, nothing else of it.
See docs/decisions/0037.
"""

import asyncio
import fcntl
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.features.runner.boxed_git import (
    CHANGES,
    CHECKOUT,
    COPY,
    DIFF,
    INDEX,
    LEAST_WRITTEN,
    MORE_ROOM,
    OBJECTS,
    SOURCE,
    object_format,
    run_script,
    script_spec,
)
from coilclaw.features.runner.fetching import Fetching, References, in_thread
from coilclaw.features.runner.sources import RepoSource
from coilclaw.packets.box import BoxLimits, BoxMount, BoxSpec
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.sandbox.files import read_existing
from coilclaw.sandbox.hostile_tree import disk_bytes, remove_tree
from coilclaw.sandbox.repo_cache import RepoCache, is_reference, read_references
from coilclaw.store.durable import write_durably
from coilclaw.store.lock import open_lock_file

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

RefKind: TypeAlias = Literal["branch", "commit"]
CheckoutMode: TypeAlias = Literal["read", "write"]
ChangeStatus: TypeAlias = Literal["added", "changed", "deleted", "renamed"]
MOST_CHANGES = 10_000
CHANGE_BYTES = 4 << 20
DIFF_BYTES = 1 << 20
COPY_BYTES = 1 << 20
REPOS = ".repos"
NEW = ".new-"
_SESSION = re.compile(r"[a-z]{1,10}_[0-9a-z]{1,60}")
_USAGE_SECONDS = 60.0
_LOCK_SECONDS = 0.02


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of a session."""

    session_id: str
    path: str
    branch: str
    base: str
    """The commit it was made from."""
    cache: str
    """The folder of the objects it borrows."""
    mode: CheckoutMode


class CheckoutChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs from the commit a checkout was made from. Its name may hold any character."""

    path: str
    status: ChangeStatus
    added: int
    removed: int
    old_path: str = ""
    """For a renamed file."""
    binary: bool = False


class PruneResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    repositories: int
    freed_bytes: int


class Checkouts:
    """Makes, reads and removes the checkouts of a home."""

    def __init__(self, app: "Runtime", *, github: str = "https://github.com") -> None:
        """`github` is the origin of repositories on GitHub."""
        self._app = app
        self._github = github
        self._measured: tuple[float, int] | None = None
        self._seen: dict[str, References] = {}
        """What each local repository said when it was last read, so that a hundred sessions check it once."""
        self._sizes: dict[str, int] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    # Making

    async def prepare(
        self, session_id: str, source: RepoSource, ref: str, kind: RefKind, mode: CheckoutMode
    ) -> Checkout:
        """A new checkout of a branch (empty: the repository's default one) or a commit."""
        folder = self._place(session_id)
        if kind == "branch" and ref and not is_reference(f"refs/heads/{ref}"):
            raise _ref_gone(source, ref)
        await in_thread(self._make_folder)
        if folder.exists():
            raise UsageError(f"the session {session_id} has a checkout already.")
        if (room := await in_thread(self._room)) <= 0:
            raise _disk_full(0, room)
        cache = self.cache_of(source)
        try:
            async with self.locked(cache):
                base = await self._fetched(cache, source, ref, kind, room)
                need = await self._fitting(cache, base, room)
                await in_thread(lambda: cache.borrow(session_id, base))
                remotes = await in_thread(lambda: _remotes(cache))
            checkout = Checkout(
                session_id=session_id,
                path=str(folder / _folder_name(source)),
                branch=f"coil/{session_id}",
                base=base,
                cache=str(cache.objects),
                mode=mode,
            )
            await self._clone(checkout, source, remotes, room)
        except BaseException:
            await self.remove(session_id)
            raise
        if self._measured is not None:
            self._measured = self._measured[0], self._measured[1] + need
        return checkout

    async def _fitting(self, cache: RepoCache, commit: str, room: int) -> int:
        """How much room the files of a commit need, which must be there."""
        if commit not in self._sizes:
            self._sizes[commit] = await in_thread(lambda: cache.tree_bytes(commit))
        if self._sizes[commit] > room:
            raise _disk_full(self._sizes[commit], room)
        return self._sizes[commit]

    async def _fetched(self, cache: RepoCache, source: RepoSource, ref: str, kind: RefKind, room: int) -> str:
        """The commit that is asked for, fetched where the cache lacks it."""
        if kind == "commit" and cache.is_made() and (found := await in_thread(lambda: cache.commit(ref))):
            return found
        fetching = Fetching(self._app, cache, room=room)
        if source.provider == "github":
            await fetching.github(source, self._address(source), self._github.removeprefix("https://"))
        else:
            self._seen[source.key] = await fetching.local(source, self._seen.pop(source.key, None))
        if kind == "commit":
            found = await in_thread(lambda: cache.commit(ref))
        else:
            branch = ref or await in_thread(cache.default_branch)
            found = (await in_thread(lambda: cache.references("refs/heads/"))).get(f"refs/heads/{branch}", "")
        if not found:
            raise _ref_gone(source, ref)
        return found

    async def _clone(self, checkout: Checkout, source: RepoSource, remotes: bytes, room: int) -> None:
        """Make the folder under another name, and give it its own when it is complete."""
        fresh = self._folder / f"{NEW}{checkout.session_id}"
        tree = fresh / Path(checkout.path).name
        await in_thread(lambda: (remove_tree(fresh), fresh.mkdir(mode=0o700), tree.mkdir(mode=0o700)))
        remote = self._address(source) if source.provider == "github" else ""
        spec = script_spec(
            CHECKOUT, object_format(checkout.base), checkout.branch, checkout.base, remote, workspace=tree,
            mounts=self.box_mounts(checkout), writable=True, given=remotes, written=room,
        )  # fmt: skip
        await run_script(self._app, spec, what=f"{source.name} cannot be checked out", code="CLONE_FAILED")

        def settle() -> None:
            index = read_existing(tree, ".git/index", 1 << 30)
            write_durably(fresh / "index", index or b"", replace=True)
            write_durably(fresh / "checkout.json", msgspec.json.encode(checkout), replace=True)
            self._app.reached("checkout_made")
            fresh.rename(self._place(checkout.session_id))

        await in_thread(settle)

    async def set_up(self, checkout: Checkout, source: RepoSource) -> None:
        """Copy the files that the repository's table names, and run its set-up command in a box without network."""
        for name in source.copy:
            data = await in_thread(lambda name=name: read_existing(Path(source.path), name, COPY_BYTES))
            if data is None:
                raise ToolError(
                    f"{name} cannot be copied from {source.path}.",
                    remedy=f"It must be a file of at most {COPY_BYTES >> 20} MiB, without links on the way.",
                    code="SETUP_FAILED", begun=False,
                )  # fmt: skip
            spec = script_spec(
                COPY, name, workspace=Path(checkout.path), mounts=self.box_mounts(checkout), writable=True, given=data
            )
            await run_script(self._app, spec, what=f"{name} cannot be copied", code="SETUP_FAILED")
        if source.setup:
            await self._run_setup(checkout, source)

    async def _run_setup(self, checkout: Checkout, source: RepoSource) -> None:
        runner, room = self._app.config.runner, await in_thread(self._room)
        spec = BoxSpec(
            command=source.setup,
            workspace=checkout.path,
            cwd=checkout.path,
            mounts=self.box_mounts(checkout),
            forbidden_binaries=tuple(sorted(self._app.policy().forbidden_commands)),
            environment=(("LANG", "C.UTF-8"),),
            limits=BoxLimits(
                wall_seconds=source.setup_seconds,
                cpu_seconds=int(source.setup_seconds) * (os.cpu_count() or 1) + 1,
                memory_bytes=runner.memory_bytes,
                processes=runner.processes,
                open_files=runner.open_files,
                file_bytes=1 << 30,
                write_bytes=max(room, LEAST_WRITTEN),
                output_bytes=8 << 20,
                kept_bytes=64 << 10,
                address_space=False,
            ),
        )
        await run_script(self._app, spec, what="the set-up command failed", code="SETUP_FAILED")

    # Reading

    async def changes(self, checkout: Checkout) -> tuple[CheckoutChange, ...]:
        """What differs from the commit it was made from, at most `MOST_CHANGES` files; ignored ones are left out."""
        told = await self._compared(checkout, CHANGES, CHANGE_BYTES)
        return tuple(sorted(_changed(told), key=lambda each: each.path)[:MOST_CHANGES])

    async def diff(self, checkout: Checkout, path: str | None = None) -> bytes:
        """The same as a patch, at most `DIFF_BYTES` of it."""
        return await self._compared(checkout, DIFF, DIFF_BYTES, *([] if path is None else [path]))

    async def _compared(self, checkout: Checkout, script: str, most: int, *paths: str) -> bytes:
        index = str(Path(checkout.path).with_name("index"))
        mounts = (*self.box_mounts(checkout), BoxMount(source=index, at=INDEX, writable=False))
        words = object_format(checkout.base), checkout.base, str(most), *paths
        spec = script_spec(
            script, *words, workspace=Path(checkout.path), mounts=mounts, writable=False, seconds=120.0,
            output=most + (1 << 20),
        )  # fmt: skip
        return await run_script(self._app, spec, what="the changes cannot be read", code="DIFF_FAILED")

    async def exported_tip(self, checkout: Checkout) -> str:
        """The same as `export`; the commit that its branch ends with."""
        return (await self._exported(checkout))[1]

    async def export(self, checkout: Checkout) -> str:
        """Bring what was committed on its branch into the cache, object by object; the reference it has there."""
        return (await self._exported(checkout))[0]

    async def _exported(self, checkout: Checkout) -> tuple[str, str]:
        cache = RepoCache(Path(checkout.cache).parent)
        tip = (await in_thread(lambda: read_references(Path(checkout.path, ".git"))))[0].get(
            f"refs/heads/{checkout.branch}", ""
        )
        if not tip or len(tip) != len(checkout.base):
            raise ToolError(
                f"the checkout has no branch {checkout.branch}.", remedy="Commit on that branch.", code="REF_GONE",
                begun=False,
            )  # fmt: skip
        room = await in_thread(self._room)
        async with self.locked(cache):
            fetching = Fetching(self._app, cache, room=room)
            # The whole checkout: a session that still runs could swap a folder on the way for a link, and a link is
            # followed in the box alone.
            mount = BoxMount(source=checkout.path, at=SOURCE, writable=False)
            await fetching.pack(mount, ".git/objects", {tip}, what="what was committed cannot be taken over")
            if (await in_thread(lambda: cache.existing([tip]))).get(tip) != "commit":
                raise ToolError(f"{checkout.branch} is not a commit.", code="CLONE_FAILED", begun=False)
            return await in_thread(lambda: cache.put_back(checkout.session_id, tip)), tip

    def box_mounts(self, checkout: Checkout) -> tuple[BoxMount, ...]:
        """What a box that works in the checkout needs besides it: the objects it borrows."""
        return (BoxMount(source=checkout.cache, at=OBJECTS, writable=False),)

    def open_checkout(self, session_id: str) -> Checkout | None:
        """The checkout of a session; None if there is none."""
        data = read_existing(self._place(session_id), "checkout.json", 1 << 16)
        return None if data is None else msgspec.json.decode(data, type=Checkout)

    def borrowers(self) -> dict[str, int]:
        """How many checkouts borrow from each cache, by its key."""
        return {cache.folder.name.removesuffix(".git"): len(cache.borrowers()) for cache in self._caches()}

    async def current(self, cache: RepoCache, source: RepoSource, branch: str) -> str:
        """The last commit of a branch as the repository has it now, brought into the cache, whose lock is held."""
        return await self._fetched(cache, source, branch, "branch", await in_thread(self._room))

    # Room

    def usage(self) -> int:
        """How many bytes all checkouts and caches occupy."""
        used = disk_bytes(self._folder)
        self._measured = time.monotonic(), used
        return used

    def size_of(self, session_id: str) -> int:
        """How many bytes the folder of a session occupies."""
        return disk_bytes(self._place(session_id))

    def _room(self) -> int:
        """What is left of the cap; measured once a minute, because it looks at every file."""
        measured = self._measured
        fresh = measured is not None and time.monotonic() - measured[0] < _USAGE_SECONDS
        used = measured[1] if measured is not None and fresh else self.usage()
        return self._app.config.runner.disk_bytes - used

    async def remove(self, session_id: str) -> None:
        """Remove the checkout of a session, whatever a command made of it; its cache stays."""
        place = self._place(session_id)
        fresh = self._folder / f"{NEW}{session_id}"
        if not self._folder.is_dir():
            return
        await in_thread(lambda: (remove_tree(place), remove_tree(fresh)))
        for cache in await in_thread(self._caches):
            if session_id in await in_thread(cache.borrowers):
                async with self.locked(cache):
                    await in_thread(lambda cache=cache: cache.give_up(session_id))
        self._measured = None

    async def prune(self) -> PruneResult:
        """Remove caches that no checkout borrows from and that hold no session's work; others come back when needed."""
        before = await in_thread(self.usage) if self._folder.is_dir() else 0
        removed = 0
        for cache in await in_thread(self._caches):
            async with self.locked(cache):
                if await in_thread(cache.is_needed):
                    continue
                await in_thread(lambda cache=cache: (remove_tree(cache.folder), remove_tree(cache.incoming)))
                removed += 1
        return PruneResult(repositories=removed, freed_bytes=max(0, before - await in_thread(self.usage)))

    # Places

    @property
    def _folder(self) -> Path:
        return Path(os.path.realpath(self._app.config.sessions_dir))

    def _place(self, session_id: str) -> Path:
        if not _SESSION.fullmatch(session_id):
            raise UsageError(f"{session_id[:80]!r} is not the id of a session.")
        return self._folder / session_id

    def _address(self, source: RepoSource) -> str:
        return f"{self._github}/{source.owner}/{source.repository}.git"

    def _make_folder(self) -> None:
        (self._folder / REPOS).mkdir(parents=True, exist_ok=True, mode=0o700)

    def cache_of(self, source: RepoSource) -> RepoCache:
        """The cached copy of a repository."""
        return RepoCache(self._folder / REPOS / f"{source.key}.git")

    def _caches(self) -> list[RepoCache]:
        folder = self._folder / REPOS
        if not folder.is_dir():
            return []
        return [RepoCache(path) for path in sorted(folder.iterdir()) if path.name.endswith(".git")]

    @asynccontextmanager
    async def locked(self, cache: RepoCache) -> AsyncIterator[None]:
        """One process at a time changes a cache; the lock is free the instant its holder dies."""
        async with self._turns.setdefault(cache.folder.name, asyncio.Lock()):  # within this process, in order
            descriptor = open_lock_file(self._app.home.locks_dir / f"repo-{cache.folder.name}.lock")
            try:
                while True:
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        await asyncio.sleep(_LOCK_SECONDS)
                yield
            finally:
                os.close(descriptor)


def _remotes(cache: RepoCache) -> bytes:
    """The repository's branches and tags as a checkout has them, in the form of packed references."""
    lines = {
        name.replace("refs/heads/", "refs/remotes/origin/", 1): sha
        for name, sha in cache.references().items()
        if name.startswith(("refs/heads/", "refs/tags/"))
    }
    text = "".join(f"{lines[name]} {name}\n" for name in sorted(lines, key=str.encode))
    return text.encode()


def _folder_name(source: RepoSource) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", source.repository).lstrip(".-")[:64]
    return plain or "checkout"


def _changed(told: bytes) -> Iterator[CheckoutChange]:
    """Read `git diff --raw --numstat -z`: first every file's status, then every file's lines; the end may be cut."""
    words = iter(told.split(b"\0")[:-1])
    raw: dict[bytes, tuple[ChangeStatus, bytes]] = {}
    for word in words:
        if word.startswith(b":"):
            letter = word.rpartition(b" ")[2][:1]
            first = next(words, b"")
            path = next(words, b"") if letter in b"RC" else first
            raw[path] = _STATUS.get(letter, "changed"), first if letter == b"R" else b""
            continue
        added, _, rest = word.partition(b"\t")
        removed, _, path = rest.partition(b"\t")
        if not path:  # renamed: both names follow
            next(words, b"")
            path = next(words, b"")
        status, old = raw.pop(path, ("changed", b""))
        yield _file(path, status, old, added, removed)
    for path, (status, old) in raw.items():
        yield _file(path, status, old, b"-", b"-")


def _file(path: bytes, status: ChangeStatus, old: bytes, added: bytes, removed: bytes) -> CheckoutChange:
    return CheckoutChange(
        path=path.decode("utf-8", "replace"),
        status=status,
        added=int(added) if added.isdigit() else 0,
        removed=int(removed) if removed.isdigit() else 0,
        old_path=old.decode("utf-8", "replace"),
        binary=added == b"-",
    )


_STATUS: dict[bytes, ChangeStatus] = {b"A": "added", b"C": "added", b"D": "deleted", b"R": "renamed"}


def _ref_gone(source: RepoSource, ref: str) -> ToolError:
    return ToolError(
        f"the repository {source.name} has no branch or commit {ref[:80]!r}."
        if ref
        else f"the repository {source.name} names no default branch.",
        remedy="Name a branch of it, or the whole name of a commit.", code="REF_GONE", begun=False,
    )  # fmt: skip


def _disk_full(need: int, room: int) -> ToolError:
    what = f"it needs {need >> 20} MiB, and {max(0, room) >> 20} MiB are left" if need else "nothing is left"
    return ToolError(f"runner.disk_bytes is reached: {what}.", remedy=MORE_ROOM, code="DISK_FULL", begun=False)
