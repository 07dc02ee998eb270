"""A repository of anybody's, read without obeying it: its objects and branches alone, through a `.git` of our own.

Configuration can name programs to run, and grafts, replaced objects and a shallow history can show another past than
the one that is there. None of them is seen from here.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from coilclaw.packets.errors import UsageError
from coilclaw.packets.forge import LEDGER, MAIN, FileChange
from coilclaw.sandbox.bot_repository import FILE, PROGRAM, BotRepository, ForgeRefused, file_change
from coilclaw.sandbox.executed import Shape, folded, is_git_shaped
from coilclaw.sandbox.fast_import import name_fault
from coilclaw.sandbox.git import run_git

MOST_REFERENCES = 8 << 20
"""Bytes of packed references that are read."""
PAGE = 500
"""Commits that are read at once."""
MOST_FILES = 100
"""Files that are read at once."""
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_COMMITTED = re.compile(rb"\ncommitter [^\n]*> (\d{1,12}) [+-]\d{4}(?:\n|$)")
_PLACES = ("refs/heads/", "refs/remotes/origin/")
"""Where a clone has a branch: as its own, or as it came."""


class BranchCommit(NamedTuple):
    """A commit of a branch, and what it changed."""

    sha: str
    parents: tuple[str, ...]
    message: str
    time: int
    """When it was committed, in seconds; 0 when it does not say."""
    tree: str
    changes: tuple[FileChange, ...]
    """Against its first parent; all of its files for the first commit."""
    beside: tuple[FileChange, ...]
    """Against its second parent, if it has one."""
    head: str
    """The message of its second parent, if it has one."""


class Clone(BotRepository):
    """A repository whose history is read as a whole."""

    def faults(self) -> list[str]:
        """What `git fsck --strict` says of its objects; empty when they are sound."""
        code, out, said = self._git("fsck", "--strict", "--full", "--no-dangling", "--no-reflogs", "--no-progress")
        lines = [line for line in (out + said).decode("utf-8", "replace").splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("notice:", "warning in"))]
        return lines or ([f"git fsck ended with {code}"] if code else [])

    def history(self, tip: str, also: Iterable[str], is_pull: Callable[[str, str], bool]) -> Iterator[BranchCommit]:
        """The commits of a branch, parents first.

        Its first parents alone would not do: whoever joins two lines of commits decides which of them comes first. So
        the lines of `also` belong to it, and every line that a merge brought, unless `is_pull` says of its message and
        that of its other side that it merged a pull request.
        """
        lines = self._run("rev-list", "--topo-order", "--reverse", "--parents", tip).decode().splitlines()
        parents = {sha: tuple(rest) for sha, *rest in (line.split() for line in lines)}
        merges = [(sha, each[1]) for sha, each in parents.items() if len(each) > 1]
        pulls = set[str]()
        for start in range(0, len(merges), PAGE):
            page = merges[start : start + PAGE]
            raw = self.blobs(sha for pair in page for sha in pair)
            pulls.update(sha for sha, head in page if is_pull(message_of(raw[sha]), message_of(raw[head])))
        own, todo = set[str](), [tip, *also]
        while todo:
            sha = todo.pop()
            while sha in parents and sha not in own:
                own.add(sha)
                todo += parents[sha][2 if sha in pulls else 1 :]
                sha = next(iter(parents[sha]), "")
        yield from self._read([(sha, each) for sha, each in parents.items() if sha in own])

    def _read(self, commits: list[tuple[str, tuple[str, ...]]]) -> Iterator[BranchCommit]:
        for start in range(0, len(commits), PAGE):
            page = commits[start : start + PAGE]
            raw = self.blobs(sha for own, parents in page for sha in (own, *parents[1:2]))
            changes = self._changes_of([(sha, *parents[:1]) for sha, parents in page])
            beside = self._changes_of([(sha, parents[1]) for sha, parents in page if len(parents) > 1])
            for sha, parents in page:
                yield BranchCommit(
                    sha, parents, message_of(raw[sha]), _time_of(raw[sha]),
                    raw[sha].partition(b"\n")[0].removeprefix(b"tree ").decode(),
                    changes.get(sha, ()), beside.get(sha, ()), message_of(raw[parents[1]]) if parents[1:] else "",
                )  # fmt: skip

    def pack(self, tips: Iterable[str], place: Path) -> None:
        """Write the whole history of these commits as one pack into a folder, and nothing else."""
        self._run(
            "pack-objects", "--quiet", "--revs", str(place / "pack"), given="".join(f"{tip}\n" for tip in tips).encode()
        )

    def reachable(self, tip: str) -> set[str]:
        """Every commit that leads to this one, and itself."""
        return set(self._run("rev-list", tip).decode().split())

    def merge_trees(self, pairs: Iterable[tuple[str, str]]) -> list[str]:
        """The tree that merging each pair of commits gives; empty where they conflict. One process for all of them."""
        given = "".join(f"{ours} {theirs}\n" for ours, theirs in pairs).encode()
        own = self._git_dir / "objects"  # what a merge writes stays out of the clone
        place = {"GIT_OBJECT_DIRECTORY": str(own), "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self._objects)}
        arguments = ("--write-tree", "--stdin", "-z", "--name-only", "--no-messages")
        words = iter(
            self._run("merge-tree", *arguments, given=given, environment=place)
            .decode("utf-8", "surrogateescape")
            .split("\0")
        )
        found: list[str] = []
        for clean in words:
            if not clean:
                break
            tree = next(words)
            found.append(tree if clean == "1" else "")
            while next(words):
                pass  # names of files that conflict
        return found

    def sizes(self, blobs: Iterable[str]) -> list[int]:
        """How large these blobs are; 0 for one that is missing."""
        out = self._run("cat-file", "--batch-check", given="".join(f"{blob}\n" for blob in blobs).encode())
        words = (line.split() for line in out.decode().splitlines())
        return [int(each[2]) if len(each) == 3 else 0 for each in words]

    def _changes_of(self, pairs: list[tuple[str, ...]]) -> dict[str, tuple[FileChange, ...]]:
        given = "".join(f"{' '.join(pair)}\n" for pair in pairs).encode()
        arguments = ("--stdin", "-r", "-z", "--root", "-m", "--no-renames", "--raw", "--no-abbrev")
        words = iter(self._run("diff-tree", *arguments, given=given).decode("utf-8", "surrogateescape").split("\0"))
        found: dict[str, list[FileChange]] = {}
        sha = ""
        for word in words:
            if not word.startswith(":"):
                sha = word.strip()
                continue
            found.setdefault(sha, []).append(file_change(word, next(words)))
        return {name: tuple(changes) for name, changes in found.items()}


def _quoted(path: Path) -> str:
    """A path as git reads it in a list of folders: there a colon would end it."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def message_of(commit: bytes) -> str:
    """The message of a commit as its object holds it."""
    return commit.partition(b"\n\n")[2].decode("utf-8", "replace")


def _time_of(commit: bytes) -> int:
    found = _COMMITTED.search(commit.partition(b"\n\n")[0])
    return 0 if found is None else int(found[1])


@contextmanager
def opened_clone(folder: Path, branches: tuple[str, ...]) -> Iterator["Clone"]:
    """The repository in a folder, bare or not, with these of its branches as `refs/heads/NAME`."""
    theirs = git_folder(folder)
    with tempfile.TemporaryDirectory(prefix="coilclaw-clone-") as name:
        own = Path(name)
        found = {branch: _tip(theirs, branch) for branch in branches}
        for part in ("objects", "refs/heads"):
            (own / part).mkdir(parents=True)
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "config").write_text(_config(sha256=any(len(tip) == 64 for tip in found.values())))
        for branch, tip in found.items():
            if tip:
                (own / "refs" / "heads" / branch).write_text(f"{tip}\n")
        yield Clone(folder, git_dir=own, objects=theirs / "objects")


def git_folder(folder: Path) -> Path:
    """The `.git` of a repository, or the folder itself of a bare one."""
    whole = folder.absolute()  # git is run in another folder, from where a relative path leads elsewhere
    for place in (whole / ".git", whole):
        parts = (place / "objects", place / "refs")
        if (place / "HEAD").is_file() and all(part.is_dir() and not part.is_symlink() for part in parts):
            return place
    raise UsageError(f"{folder} is not a git repository of its own.", remedy="Name the folder of a clone.")


def borrows(folder: Path) -> bool:
    """Whether some of its objects are in another repository: then it does not stand alone."""
    info = git_folder(folder) / "objects" / "info"
    return any((info / name).exists() for name in ("alternates", "http-alternates"))


def copy_history(folder: Path, fresh: Path, old_ledger: str) -> Clone:
    """Make the new folder `fresh` a repository with the history of a clone: its main, and its `ledger` by another name.

    Objects alone are copied, through git's own packing: no configuration, hook, attribute, index or link of the clone
    has a part in it. A history that is incomplete or damaged, or whose files could not be ours, is refused.
    """
    if borrows(folder):
        raise ForgeRefused(
            "some of the clone's objects are in another repository.", remedy="Clone it with `git clone --no-local`."
        )
    with opened_clone(folder, ("main", "ledger")) as clone:
        tips = {name: tip for name in (MAIN, LEDGER) if (tip := clone.tip(name))}
        if MAIN not in tips:
            raise ForgeRefused(f"{folder} has no branch main, so it is not a clone of a bot.")
        kind = "sha256" if len(tips[MAIN]) == 64 else "sha1"
        run_git(fresh, "init", "--quiet", "--template=", f"--object-format={kind}", "--initial-branch=main")
        clone.pack(tips.values(), fresh / ".git" / "objects" / "pack")
    copy = Clone(fresh)
    copy.move(MAIN, tips[MAIN], "")
    if LEDGER in tips:
        copy.move(old_ledger, tips[LEDGER], "")
    if faults := (copy.faults() or list(tree_faults(copy.modes(tips[MAIN])))):
        raise ForgeRefused(f"the clone is refused: {'; '.join(faults[:3])}.", remedy="Run `git fsck --strict` there.")
    return copy


def tree_faults(modes: Mapping[str, str]) -> Iterator[str]:
    """What must not be in a workspace: links, submodules, names of git's own, nested repositories."""
    inside: dict[str, Shape] = {}
    for path, mode in modes.items():
        if fault := name_fault(path) or {"120000": "it is a symbolic link", "160000": "it is a submodule"}.get(
            mode, ""
        ):
            yield f"{path[:200]!r}: {fault}"
        elif mode not in (FILE, PROGRAM):
            yield f"{path[:200]!r}: it has the mode {mode}"
        parts = path.split("/")
        for depth, part in enumerate(parts):
            listed = inside.setdefault("/".join(parts[:depth]), set())
            listed.add((folded(part), "file" if depth == len(parts) - 1 else "folder"))
    for place, listed in inside.items():
        if is_git_shaped(listed):
            yield f"{place[:200] or '.'!r}: git would take it for a repository"


def files_of(repository: BotRepository, commit: str, most: Callable[[str], int]) -> dict[str, bytes]:
    """The files of a commit that are wanted, by path: `most` says how large each may be, 0 that it is not wanted."""
    wanted = {path: entry for path, entry in repository.entries(commit).items() if most(path)}
    for path, entry in list(wanted.items()):
        if entry.size > most(path):
            raise ForgeRefused(f"{path[:80]!r} is too large: {entry.size} bytes.")
    if len(wanted) > MOST_FILES:
        raise ForgeRefused(f"there are {len(wanted)} files where a few are expected.")
    blobs = repository.blobs(entry.blob for entry in wanted.values())
    return {path: blobs[entry.blob] for path, entry in wanted.items()}


def main_of(folder: Path) -> str:
    """The commit on main of a repository of ours, told without git; empty without one, or if it is damaged."""
    try:
        return _tip(folder / ".git", "main", _PLACES[:1])
    except ForgeRefused:
        return ""


def _tip(theirs: Path, branch: str, places: Iterable[str] = _PLACES) -> str:
    packed = _packed(theirs)
    for place in places:
        name = place + branch
        try:
            with (theirs / name).open("rb") as file:
                tip = file.read(200).decode("ascii", "replace").strip()
        except OSError:
            tip = packed.get(name, "")
        if tip:
            if not _SHA.fullmatch(tip):
                raise ForgeRefused(f"{name} is damaged: it names no commit.", remedy="Run `git fsck` there.")
            return tip
    return ""


def _packed(theirs: Path) -> dict[str, str]:
    try:
        with (theirs / "packed-refs").open("rb") as file:
            text = file.read(MOST_REFERENCES).decode("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition(" ") for line in text.splitlines() if line[:1] not in ("#", "^"))
    return {name: tip for tip, _, name in pairs}


def _config(*, sha256: bool) -> str:
    version = "[core]\n\tbare = true\n\trepositoryformatversion = "
    return f"{version}1\n[extensions]\n\tobjectformat = sha256\n" if sha256 else f"{version}0\n"
