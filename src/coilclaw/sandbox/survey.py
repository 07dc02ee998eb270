# ruff: noqa: PTH118 - text in, text out, for every name of a large workspace
"""A survey of the workspace: its repositories, names that other programs execute, and files with hard links elsewhere.

Links are never followed. It reads only names and, for some, their stat.
"""

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.executed import (
    GIT_PARTS,
    Kind,
    Shape,
    folded,
    is_dot_git,
    is_executed,
    is_git_shaped,
)

MOST_ENTRIES = 2_000_000
MOST_REPOSITORIES = 300
"""Each of them is a mount in every box."""
LONGEST = 3500
"""Maximum bytes of a path; deeper entries are not inspected, and are moved away if a command made them."""


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """A stat fingerprint: equal facts mean the same, unchanged entry."""

    device: int
    inode: int
    mode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, info: os.stat_result) -> "Facts":
        """From what stat says."""
        return cls(info.st_dev, info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


class Linked(msgspec.Struct, frozen=True, array_like=True):
    """A file with more links than the workspace contains."""

    path: str
    size: int


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The entries, by path relative to the workspace."""

    repositories: dict[str, tuple[int, int]] = {}
    """Every `.git` but the workspace's own, and every folder that git treats as a repository; device and inode."""
    parts: dict[str, list[str]] = {}
    """Folders with some of the names of a repository, and which, with their kinds."""
    names: dict[str, Facts] = {}
    """Files and links that other programs execute."""
    unseen: list[str] = []
    """Inaccessible folders."""
    linked: list[Linked] = []
    """Files with hard links outside the workspace; only if requested."""
    entries: int = 0


class _Walk:
    """One breadth-first walk over the workspace."""

    def __init__(self, root: Path, *, links: bool, closed: Collection[str] | None) -> None:
        self.root = root
        self.links = links
        self.closed = closed
        self.survey = Survey(repositories={}, parts={}, names={}, unseen=[], linked=[])
        self.count = 0
        self._linked: dict[tuple[int, int], list[Linked]] = {}
        self._links: dict[tuple[int, int], int] = {}

    def run(self) -> Survey:
        folders: list[tuple[str, bool]] = [("", False)]
        while folders:
            folders = [below for folder, executed in folders for below in self._look(folder, executed)]
        linked = [each for key, found in self._linked.items() if len(found) < self._links[key] for each in found]
        linked.sort(key=lambda each: each.path)
        return msgspec.structs.replace(self.survey, linked=linked, entries=self.count)

    def _entries(self, folder: str) -> "list[os.DirEntry[str]]":
        if len(folder) <= LONGEST:
            with suppress(OSError):
                return self._scanned(folder)
            if self.closed is not None and folder not in self.closed:  # a run closed it: its owner may open it
                from coilclaw.sandbox.moving import open_up

                with suppress(OSError):
                    open_up(self.root, folder)
                    return self._scanned(folder)
        if os.path.lexists(self.root / folder):  # otherwise it has just disappeared
            self.survey.unseen.append(folder)
        return []

    def _scanned(self, folder: str) -> "list[os.DirEntry[str]]":
        with os.scandir(os.path.join(self.root, folder) if folder else self.root) as found:
            return list(found)

    def _look(self, folder: str, executed: bool) -> list[tuple[str, bool]]:
        """Record a folder's content; returns its folders, and whether everything below them is executed."""
        entries = self._entries(folder)
        self.count += len(entries)
        if self.count > MOST_ENTRIES:
            raise ToolError(
                f"the workspace has more than {MOST_ENTRIES:,} files and folders.",
                remedy="Remove what you do not need there, then try again.",
                code="WORKSPACE_TOO_LARGE",
                begun=False,
            )
        shape: Shape = set()
        folders: list[tuple[str, bool]] = []
        parent = folded(folder.rpartition("/")[2])
        for entry in entries:
            name = entry.name
            path = f"{folder}/{name}" if folder else name
            plain = folded(name)
            if plain in GIT_PARTS:
                shape.add((plain, kind_of(entry)))
            if (plain.startswith((".git", "git~")) or not name.isascii()) and is_dot_git(name):
                self._note(path)
                continue
            runs = executed or is_executed(plain, parent, link=entry.is_symlink())
            if entry.is_dir(follow_symlinks=False):
                folders.append((path, runs))
            elif runs or self.links:
                self._stat(entry, path, runs)
        if shape:
            self.survey.parts[folder] = sorted(part_of(*each) for each in shape)
            if is_git_shaped(shape):
                self._note(folder)
                return folders if not folder else []  # whatever is in it belongs to the repository
        return folders

    def _note(self, path: str) -> None:
        """Record a repository, except the workspace's own."""
        with suppress(FileNotFoundError):
            if path != ".git":
                info = os.lstat(self.root / path)
                self.survey.repositories[path] = (info.st_dev, info.st_ino)

    def _stat(self, entry: "os.DirEntry[str]", path: str, runs: bool) -> None:
        with suppress(FileNotFoundError):
            info = entry.stat(follow_symlinks=False)
            if runs:
                self.survey.names[path] = Facts.of(info)
            if info.st_nlink > 1 and stat.S_ISREG(info.st_mode):
                key = (info.st_dev, info.st_ino)
                self._linked.setdefault(key, []).append(Linked(path, info.st_size))
                self._links[key] = info.st_nlink


def part_of(plain: str, kind: Kind) -> str:
    """A (folded) name and its kind as `Survey.parts` has them: a folder that becomes a file is something new."""
    return f"{plain}:{kind}"


def kind_of(entry: "os.DirEntry[str]") -> Kind:
    """The kind of an entry; no link is followed."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def survey(workspace: Path, *, links: bool = False, closed: Collection[str] | None = None) -> Survey:
    """Survey the whole workspace; with `links` also files with hard links outside it.

    With `closed`, folders that lock out their own owner are made accessible, except those.
    """
    return _Walk(workspace, links=links, closed=closed).run()


def completes_repository(workspace: Path, relative: str) -> str:
    """The folder that would be a repository if that path existed, or already is one; or empty."""
    parts = relative.split("/")
    for depth in range(len(parts)):
        folder = "/".join(parts[:depth])
        is_leaf = depth == len(parts) - 1
        shape: Shape = set()
        try:
            with os.scandir(workspace / folder) as found:
                for entry in found:
                    plain = folded(entry.name)
                    if plain in GIT_PARTS:
                        shape.add((plain, kind_of(entry)))
        except OSError:
            return ""  # there is nothing below it yet
        if folder or not is_git_shaped(shape):  # one at the top is the owner's, or is found by its last part
            kinds: tuple[Kind, ...] = ("file", "link") if is_leaf else ("folder",)  # what is moved there may be a link
            shape.update((folded(parts[depth]), kind) for kind in kinds)
            if is_git_shaped(shape):
                return folder or "."
    return ""
