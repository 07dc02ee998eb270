"""Cached repositories that checkouts borrow objects from. No box can write one, and nothing in one is ever pruned.

The references are one file, `packed-refs`, which is replaced as a whole: a kill or a power cut leaves the old ones or
the new ones. Packs arrive indexed and checked (`git index-pack --strict`), and one counts only when its index is there.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.files import put_durably
from coilclaw.sandbox.git import run_git
from coilclaw.sandbox.hostile_tree import remove_tree

MOST_REFERENCES = 20_000
_REFERENCE_BYTES = 8 << 20
_PACK = re.compile(r"pack-([0-9a-f]{40}|[0-9a-f]{64})\.(?:pack|idx)")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_UNFIT = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[./]$")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BORROWED, _RETURNED = "refs/borrowed/", "refs/sessions/"


def is_sha(text: str) -> bool:
    """Whether a text is the whole name of an object."""
    return _SHA.fullmatch(text) is not None


def is_reference(name: str) -> bool:
    """Whether git takes this for the name of a branch or tag, or of one of ours."""
    parts = name.split("/", 2)
    return (
        len(parts) == 3
        and parts[0] == "refs"
        and len(name) <= 1000
        and not parts[2].startswith((".", "/", "-"))
        and not _UNFIT.search(name)
    )


class RepoCache:
    """One cached repository. Blocking, and for one caller at a time: hold its lock to change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def objects(self) -> Path:
        """What checkouts borrow."""
        return self.folder / "objects"

    @property
    def incoming(self) -> Path:
        """The folder that a box writes packs into."""
        return self.folder.with_name(f"{self.folder.name}.incoming")

    def make(self, *, sha256: bool) -> None:
        """Create it, or repair what a kill or a power cut left; no pack that counts is touched."""
        remove_tree(self.incoming)
        if any((len(sha) == 64) != sha256 for sha in self.references().values()):
            if self.is_needed():
                raise ToolError(
                    "the repository is another one than before: its object format changed.",
                    remedy="Remove its sessions first.", code="CLONE_FAILED", begun=False,
                )  # fmt: skip
            remove_tree(self.folder)
        for part in ("objects/info", "objects/pack", "refs"):
            (self.folder / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._put("config", _config(sha256=sha256))
        if not _small(self.folder / "HEAD").startswith("ref: refs/heads/"):
            self._put("HEAD", "ref: refs/heads/main\n")
        packs = self.objects / "pack"
        names = {path.name for path in packs.iterdir()}
        for name in names:
            if not _PACK.fullmatch(name) or (name.endswith(".pack") and f"{name[:-5]}.idx" not in names):
                (packs / name).unlink(missing_ok=True)

    def is_made(self) -> bool:
        """Whether there is one."""
        return (self.folder / "config").is_file()

    # References

    def references(self, prefix: str = "refs/") -> dict[str, str]:
        """The references below a prefix, by name."""
        found: dict[str, str] = {}
        for line in _small(self.folder / "packed-refs", _REFERENCE_BYTES).splitlines():
            sha, _, name = line.partition(" ")
            if is_sha(sha) and name.startswith(prefix) and is_reference(name):
                found[name] = sha
        return found

    def default_branch(self) -> str:
        """The branch that the repository's HEAD names; empty when it has none."""
        name = _small(self.folder / "HEAD").strip().removeprefix("ref: ")
        return name.removeprefix("refs/heads/") if name in self.references("refs/heads/") else ""

    def mirrors(self, references: Mapping[str, str]) -> bool:
        """Whether it has exactly these branches and tags."""
        return {**self.references("refs/heads/"), **self.references("refs/tags/")} == references

    def mirror(self, references: Mapping[str, str], head: str) -> None:
        """Take over a repository's branches and tags; others of that kind go, our own stay."""
        own = {name: sha for name, sha in self.references().items() if name.startswith((_BORROWED, _RETURNED))}
        wanted = {name: sha for name, sha in references.items() if is_reference(name) and is_sha(sha)}
        self._put_references({**wanted, **own})
        if is_reference(head) and head.startswith("refs/heads/"):
            self._put("HEAD", f"ref: {head}\n")

    def borrow(self, session_id: str, sha: str) -> None:
        """Note that a session's checkout borrows this commit."""
        self._put_references({**self.references(), _BORROWED + session_id: sha})

    def put_back(self, session_id: str, sha: str) -> str:
        """Keep what a session committed; the name it has here."""
        self._put_references({**self.references(), _RETURNED + session_id: sha})
        return _RETURNED + session_id

    def give_up(self, session_id: str) -> None:
        """A session's checkout is gone."""
        known = self.references()
        if known.pop(_BORROWED + session_id, None) is not None:
            self._put_references(known)

    def borrowers(self) -> list[str]:
        """The sessions whose checkouts borrow from it."""
        return [name.removeprefix(_BORROWED) for name in self.references(_BORROWED)]

    def is_needed(self) -> bool:
        """Whether a checkout borrows from it, or it holds what a session committed."""
        return any(name.startswith((_BORROWED, _RETURNED)) for name in self.references())

    # Objects

    def take(self) -> None:
        """Move packs that were indexed in a box into it. The index comes last: it makes a pack count."""
        packs = self.incoming / "own" / "objects" / "pack"
        found = [path for path in packs.iterdir() if _PACK.fullmatch(path.name)]
        place = self.objects / "pack"
        for path in sorted(found, key=lambda each: each.suffix, reverse=True):
            info = path.lstat()
            if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
                raise _damaged(f"{path.name} is not a file")
            _sync(path)
            path.chmod(0o444)
            path.rename(place / path.name)
        _sync(place)

    def existing(self, shas: Iterable[str]) -> dict[str, str]:
        """The kinds of those objects that are there."""
        asked = "".join(f"{sha}\n" for sha in dict.fromkeys(shas) if is_sha(sha))
        told = self._git("cat-file", "--batch-check=%(objectname) %(objecttype)", given=asked.encode()) if asked else ""
        words = (line.split(" ") for line in told.splitlines())
        return {each[0]: each[1] for each in words if len(each) == 2 and each[1] in _KINDS}

    def commit(self, text: str) -> str:
        """The commit with that name, which may be shortened; empty if there is none."""
        if not re.fullmatch(r"[0-9a-f]{7,64}", text):
            return ""
        try:
            return self._git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{text}^{{commit}}").strip()
        except ToolError:
            return ""

    def tree_bytes(self, commit: str) -> int:
        """How much room the files of a commit need, roughly."""
        told = self._git("ls-tree", "-r", "-z", "--format=%(objectsize)", commit, seconds=120.0)
        sizes = [int(size) for size in told.split("\0") if size.isdigit()]
        return sum(-(-size // 4096) * 4096 for size in sizes)

    def _git(self, *args: str, given: bytes = b"", seconds: float = 60.0) -> str:
        environment = {"GIT_DIR": str(self.folder), "GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": "/dev/null"}
        return run_git(self.folder, *args, environment=environment, given=given, seconds=seconds)

    def _put_references(self, references: Mapping[str, str]) -> None:
        if len(references) > MOST_REFERENCES:
            raise ToolError(
                f"the repository has more than {MOST_REFERENCES} branches and tags.",
                remedy="Delete those that nobody needs.", code="CLONE_FAILED", begun=False,
            )  # fmt: skip
        lines = [f"{sha} {name}\n" for name, sha in sorted(references.items(), key=lambda each: each[0].encode())]
        self._put("packed-refs", "# pack-refs with: sorted \n" + "".join(lines))

    def _put(self, name: str, text: str) -> None:
        if _small(self.folder / name, _REFERENCE_BYTES) == text:
            return
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            put_durably(folder, name, text.encode("utf-8", "surrogateescape"), 0o600)
        finally:
            os.close(folder)


_KINDS = frozenset({"commit", "tree", "blob", "tag"})


def read_references(git_dir: Path) -> tuple[dict[str, str], str]:
    """The branches and tags of anybody's repository and what its HEAD names, read as data: no git, no links."""
    found: dict[str, str] = {}
    for line in _small(git_dir / "packed-refs", _REFERENCE_BYTES).splitlines():
        sha, _, name = line.partition(" ")
        if is_sha(sha) and name.startswith(("refs/heads/", "refs/tags/")) and is_reference(name):
            found[name] = sha
    for top in ("heads", "tags"):
        waiting = [f"refs/{top}"]
        while waiting and len(found) <= MOST_REFERENCES:
            folder = waiting.pop()
            try:
                entries = list(os.scandir(git_dir / folder))
            except OSError:
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                elif is_reference(name) and is_sha(sha := _small(git_dir / name, 200).strip()):
                    found[name] = sha
    return found, _small(git_dir / "HEAD").strip().removeprefix("ref: ")


def _small(path: Path, most: int = 4096) -> str:
    """The beginning of a regular file; empty when there is none. A link or a pipe in its place is not read."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return file.read(most).decode("utf-8", "surrogateescape")


def _config(*, sha256: bool) -> str:
    """Precious objects: git itself refuses to prune or repack here, whoever calls it."""
    kind = "\tobjectformat = sha256\n" if sha256 else ""
    return (
        "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
        f"[extensions]\n\tpreciousObjects = true\n{kind}"
        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    )


def _damaged(what: str) -> ToolError:
    return ToolError(f"the repository could not be taken over: {what}.", code="CLONE_FAILED", begun=False)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
