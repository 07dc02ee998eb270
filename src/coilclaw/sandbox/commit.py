"""Commits to the owner's repository without obeying anything in it.

What a repository configures can run programs: hooks, filters, file monitors, text converters, signing, remotes that
fetch missing objects. So git examines the files from a separate repository in the home: it has our configuration, the
owner's objects to read, and nothing else. Only the branch is updated in the owner's repository, by a command that runs
nothing of it. The result is a tree, whose id an approval binds.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.files import read_existing
from coilclaw.sandbox.git import run_git

MOST_FILES = 1000
MOST_BYTES = 64 << 20
DIFF_BYTES = 1 << 20
"""A larger diff does not fit on a card, so we do not commit it."""
INDEX_BYTES = 256 << 20
GIT_BYTES = 1 << 20
COMMIT_SECONDS = 120.0
SLOW = "COMMIT_SLOW"
_BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")
_OURS = ("HEAD", "index", "objects", "objects/info", "refs", "refs/heads", "packed-refs", "logs", "logs/HEAD", "config")
_BY_HAND = "Commit it yourself."
NOBODY = ("CoilClaw", "coilclaw@localhost")


class CommitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A planned commit."""

    tree: str
    parent: str
    """Empty for the first commit of a repository."""
    branch: str
    """The full name of the reference that moves; `HEAD` when no branch is checked out."""
    author: tuple[str, str]
    """The owner's name and address from the owner's own git configuration."""
    paths: tuple[str, ...]
    diff: bytes

    @property
    def binding(self) -> bytes:
        """Identifies everything but the message."""
        return "\0".join((self.tree, self.parent, self.branch, *self.author)).encode("utf-8", "surrogateescape")


def plan_commit(
    folder: Path, scratch: Path, user_home: Path, paths: Sequence[str], *, seconds: float, vouched: bool
) -> CommitPlan:
    """Plan a commit of these paths, or of every change if there are none, without touching the folder."""
    author = _owner(user_home, folder if vouched else None)
    with _Shadow.made(folder, scratch, seconds) as shadow:
        return shadow.plan(paths, author)


def make_commit(folder: Path, scratch: Path, plan: CommitPlan, message: str) -> str:
    """Commit exactly what was planned, or raise; returns the new commit's id."""
    with _Shadow.made(folder, scratch, COMMIT_SECONDS) as shadow:
        return shadow.commit(plan, message)


class _Shadow:
    """A separate repository over the owner's files and objects."""

    def __init__(self, folder: Path, own: Path, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._folder = folder
        self._git = folder / ".git"
        self._own = own
        check_repository(self._git)
        self._branch, self._parent = self._head()
        self._set_up()

    @classmethod
    @contextmanager
    def made(cls, folder: Path, scratch: Path, seconds: float) -> "Iterator[_Shadow]":
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        own = Path(tempfile.mkdtemp(prefix="commit-", dir=scratch))
        try:
            yield cls(folder, own, seconds)
        finally:
            shutil.rmtree(own, ignore_errors=True)

    def _set_up(self) -> None:
        lines = ["[core]", "\tbare = false", "\tsparseCheckout = false", "\tuntrackedCache = false"]
        for key in ("autocrlf", "eol", "filemode", "ignorecase", "symlinks", "precomposeunicode"):
            value = self._setting(f"core.{key}")
            if value in ("true", "false", "input", "lf", "crlf", "native"):
                lines.append(f"\t{key} = {value}")
        if self._setting("core.sparsecheckout") == "true":
            raise _refused("this repository has a sparse checkout.", _BY_HAND)
        objects = self._setting("extensions.objectformat")
        if objects in ("sha1", "sha256"):
            lines += ["\trepositoryformatversion = 1", "[extensions]", f"\tobjectformat = {objects}"]
        else:
            lines.append("\trepositoryformatversion = 0")
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (self._own / name).mkdir(parents=True)
        (self._own / "HEAD").write_text("ref: refs/heads/main\n")
        (self._own / "config").write_text("\n".join(lines) + "\n")
        for name in ("info/exclude", "info/attributes"):
            data = read_existing(self._git, name, GIT_BYTES)
            if data is not None:
                (self._own / name).write_bytes(data)
        with suppress(OSError):
            # It saves reading every file again. Its time is kept: git compares files of that time by content.
            written = os.lstat(self._git / "index").st_mtime_ns
            index = read_existing(self._git, "index", INDEX_BYTES)
            if index is not None:
                _write(self._own / "index", index, written)

    # git

    def _run(self, *args: str, given: bytes = b"", keep: bool = False, files: Path | None = None) -> str:
        """git in the separate repository; with `keep` new objects go to the owner's. `files` replaces the folder."""
        objects = str(self._git / "objects")
        own = {"GIT_OBJECT_DIRECTORY": objects} if keep else {
            "GIT_OBJECT_DIRECTORY": str(self._own / "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(objects)
        }  # fmt: skip
        files = files or self._folder
        environment = {"GIT_DIR": str(self._own), "GIT_WORK_TREE": str(files), "GIT_LITERAL_PATHSPECS": "1"}
        return self._timed(files, *args, environment={**environment, **own}, given=given)

    def _theirs(self, *args: str) -> str:
        """git in the owner's repository, for commands that run nothing configured there."""
        return self._timed(self._folder, *args, environment={"GIT_DIR": str(self._git), "GIT_NO_LAZY_FETCH": "1"})

    def _setting(self, key: str) -> str:
        """One setting of the owner's repository, read only from its file, without includes."""
        where = ("--no-includes", "--file", str(self._git / "config"))
        try:
            return self._timed(self._git, "config", *where, "--get", key, environment={}).strip().lower()
        except ToolError as error:
            if error.code == SLOW:
                raise
            return ""  # git fails if there is no such key

    def _timed(self, folder: Path, *args: str, environment: Mapping[str, str], given: bytes = b"") -> str:
        """git within the remaining time of the whole operation."""
        left = max(self._until - time.monotonic(), 0.001)
        try:
            return run_git(folder, *args, seconds=left, environment=environment, given=given)
        except ToolError:
            if time.monotonic() < self._until:
                raise
            raise _refused("git takes too long in this repository.", _BY_HAND, SLOW) from None

    def _head(self) -> tuple[str, str]:
        head = read_existing(self._git, "HEAD", 4096)
        text = "" if head is None else head.decode("utf-8", "replace").strip()
        branch = text.removeprefix("ref: ").strip() if text.startswith("ref: refs/heads/") else "HEAD"
        try:
            parent = self._theirs("rev-parse", "--verify", "--quiet", "HEAD").strip()
        except ToolError as error:
            if error.code == SLOW:
                raise
            if branch == "HEAD":
                raise _refused("the repository's HEAD cannot be read.", _BY_HAND) from None
            parent = ""
        return branch, parent

    # Planning

    def plan(self, paths: Sequence[str], author: tuple[str, str]) -> CommitPlan:
        """Plan the commit."""
        self._start_at_parent()
        changed = self._changed(paths)
        if not changed:
            raise _refused("there is nothing to commit.", "Only changed files are committed.", "NOTHING_TO_COMMIT")
        tree = self._tree(changed)
        before = f"{self._parent}^{{tree}}" if self._parent else self._run("hash-object", "-t", "tree", "/dev/null")
        diff = self._difference(before.strip(), tree).encode("utf-8", "surrogateescape")
        if not diff:
            raise _refused("there is nothing to commit.", "Only changed files are committed.", "NOTHING_TO_COMMIT")
        if len(diff) > DIFF_BYTES:
            raise _refused(f"the change is {len(diff)} bytes long, too much to show.", "Name fewer `paths`.")
        return CommitPlan(
            tree=tree,
            parent=self._parent,
            branch=self._branch,
            author=author,
            paths=tuple(os.fsdecode(path) for path in changed),
            diff=diff,
        )

    def _difference(self, before: str, tree: str) -> str:
        """The diff for the card. Attributes could hide text from it, so git sees none: no file, no index."""
        for name in ("info/attributes", "index"):
            (self._own / name).unlink(missing_ok=True)
        compare = ("diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        return self._run(*compare, before, tree, files=self._own / "refs")

    def _start_at_parent(self) -> None:
        """The index of the last commit; staged changes are found in the files, like everything else."""
        if not self._parent:
            (self._own / "index").unlink(missing_ok=True)
            return
        try:
            self._run("read-tree", "--reset", self._parent)
        except ToolError as error:  # an index that depends on other files: rebuild it
            if error.code == SLOW:
                raise
            (self._own / "index").unlink(missing_ok=True)
            self._run("read-tree", self._parent)

    def _changed(self, paths: Sequence[str]) -> list[bytes]:
        """Files that changed since the last commit, are new or are gone; folders are nested repositories."""
        listed = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--", *paths)
        found = {name for name in self._run(*listed).split("\0") if name}
        changed: list[bytes] = []
        weight = 0
        for name in sorted(found):
            place = self._folder / name
            if name.endswith("/") or (place.is_dir() and not place.is_symlink()):
                continue
            with suppress(OSError):
                weight += place.lstat().st_size
            changed.append(os.fsencode(name))
        if len(changed) > MOST_FILES or weight > MOST_BYTES:
            raise _refused(
                f"{len(changed)} files of {weight} bytes changed, more than one commit may hold.",
                "Name fewer `paths`, or add what does not belong to the project to .gitignore.",
            )
        self._check_filters(changed)
        return changed

    def _check_filters(self, changed: list[bytes]) -> None:
        given = b"".join(name + b"\0" for name in changed)
        words = self._run("check-attr", "-z", "--stdin", "filter", given=given).split("\0")
        for name, _, value in zip(words[::3], words[1::3], words[2::3], strict=False):
            if value not in ("unspecified", "unset"):
                raise _refused(f"{name} needs the filter {value!r}, which only your own git runs.", _BY_HAND)

    def _tree(self, changed: list[bytes], *, keep: bool = False) -> str:
        given = b"".join(name + b"\0" for name in changed)
        self._run("update-index", "-z", "--add", "--remove", "--stdin", given=given, keep=keep)
        return self._run("write-tree", keep=keep).strip()

    # Committing

    def commit(self, plan: CommitPlan, message: str) -> str:
        """Commit what was planned; any change meanwhile is an error."""
        if (self._branch, self._parent) != (plan.branch, plan.parent):
            raise _refused("the branch has moved meanwhile.", "Propose the commit again.", "CHANGED_MEANWHILE")
        changed = [os.fsencode(path) for path in plan.paths]
        staged = self._staged(changed)
        self._start_at_parent()
        if self._tree(changed, keep=True) != plan.tree:
            raise _refused("the files have changed meanwhile.", "Propose the commit again.", "CHANGED_MEANWHILE")
        name, address = plan.author
        parents = ("-p", plan.parent) if plan.parent else ()
        who = ("-c", f"user.name={name}", "-c", f"user.email={address}")
        commit = self._run(*who, "commit-tree", *parents, plan.tree, given=_message(message), keep=True).strip()
        with self._locked_index() as put:
            old = plan.parent or "0" * len(commit)
            self._theirs(*who, "update-ref", "-m", "commit (CoilClaw)", "HEAD", commit, old)
            put(*staged)
        return commit

    def _staged(self, changed: list[bytes]) -> tuple[bytes, int]:
        """Update these files in the owner's index; other staged changes stay."""
        given = b"".join(name + b"\0" for name in changed)
        self._run("update-index", "-z", "--add", "--remove", "--stdin", given=given, keep=True)
        index = self._own / "index"
        return index.read_bytes(), index.stat().st_mtime_ns

    @contextmanager
    def _locked_index(self) -> "Iterator[Callable[[bytes, int], None]]":
        lock = self._git / "index.lock"
        try:
            fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _refused(f"another git is working in this repository ({error.strerror}).", "Try again.") from error

        def put(data: bytes, written: int) -> None:
            _write(fd, data, written)
            lock.replace(self._git / "index")

        try:
            yield put
        finally:
            os.close(fd)
            lock.unlink(missing_ok=True)


def _refused(text: str, remedy: str = "", code: str = "COMMIT_REFUSED") -> ToolError:
    return ToolError(text, remedy=remedy, code=code, begun=False)


def check_repository(git: Path) -> None:
    """Refuse anything but an ordinary repository without an operation in progress."""
    if not os.path.lexists(git):
        raise _refused("this project is not a git repository.", "The owner can make one with `git init`.", "NO_GIT")
    if git.is_symlink() or not git.is_dir():
        raise _refused("this project's repository is kept elsewhere (a worktree or a submodule).", _BY_HAND)
    for name in _OURS:
        if (git / name).is_symlink():
            raise _refused(f".git/{name} is a link.", _BY_HAND)
    head = read_existing(git, "HEAD", 4096) or b""
    branch = head.decode("utf-8", "replace").strip().removeprefix("ref: ")
    for base in ("", "logs/"):
        at = git
        for part in f"{base}{branch}".split("/"):
            at = at / part
            if part == ".." or at.is_symlink():
                raise _refused(f".git/{base}{branch} is a link.", _BY_HAND)
    busy = next((name for name in _BUSY if os.path.lexists(git / name)), "")
    if busy:
        raise _refused(f"a merge, rebase or bisection is in progress (.git/{busy}).", "Finish it yourself first.")


def _owner(user_home: Path, vouched: Path | None) -> tuple[str, str]:
    """The owner's name and address: as the repository has them where the owner vouches for it, else from the owner's
    own configuration."""
    found: list[str] = []
    own = read_existing(vouched, ".git/config", 1 << 20) if vouched is not None else None
    for key, default in zip(("user.name", "user.email"), NOBODY, strict=True):
        value = ""
        with suppress(ToolError):
            value = run_git(Path("/"), "config", "--file", "-", "--get", key, given=own).strip() if own else ""
        for place in (user_home / ".gitconfig", user_home / ".config" / "git" / "config"):
            with suppress(ToolError):
                value = value or run_git(Path("/"), "config", "--file", str(place), "--get", key).strip()
        clean = "".join(char for char in value if char.isprintable() and char not in "<>")
        found.append(clean or default)
    return found[0], found[1]


def _quoted(path: str) -> str:
    """A path in a colon-separated list of object directories."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write(file: Path | int, data: bytes, written: int) -> None:
    with open(file, "wb", closefd=not isinstance(file, int)) as out:
        out.write(data)
    os.utime(file, ns=(written, written))


def _message(text: str) -> bytes:
    return (text.strip() + "\n").encode("utf-8", "surrogateescape")
