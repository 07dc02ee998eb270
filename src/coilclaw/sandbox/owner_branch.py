"""A branch of the owner's repository, moved forward; a folder that has it checked out follows, or nothing happens.

Nothing that the repository configures is run: no hook, filter or file monitor. The order is objects, files, index,
branch, and each part can be done again: killed anywhere, the same call completes it. Until the branch has moved, git
shows what arrived as changes that are to be committed, so nothing of the owner's is ever undone by what is left.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import FileChange
from coilclaw.packets.text import one_line
from coilclaw.sandbox.commit import check_repository
from coilclaw.sandbox.executed import is_dot_git
from coilclaw.sandbox.fast_import import FILE, PATH_BYTES, PROGRAM, name_fault, object_id
from coilclaw.sandbox.files import put_durably, read_existing
from coilclaw.sandbox.git import blob_id, failed, git_bytes, run_git

LINK = "120000"
FILE_BYTES = 64 << 20
INDEX_BYTES = 256 << 20
_LOCKED = b"CoilClaw is merging\n"
_NEW_INDEX = "index.coilclaw"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ELSEWHERE = "Check out another branch in {folder}, then merge again: your files are not touched then."
_CONVERTED = {"filter": (), "ident": (), "working-tree-encoding": (), "eol": ("lf",)}
"""Attributes by which git writes other bytes than are committed, and the values that do no such thing."""
Entry = tuple[str, str]
"""The mode of a file and the id of what it holds."""


def change_fault(change: FileChange, link: bytes | None) -> str:
    """Why a change cannot be put into a folder of the owner's; empty when it can. `link` is where a new link leads."""
    path = change.path
    if change.new_blob and (fault := name_fault(path)):
        return f"{one_line(path)[:200]}: {fault}"
    if change.new_mode not in (FILE, PROGRAM, LINK, "000000") or change.old_mode == "160000":
        return f"{one_line(path)[:200]} is a submodule"
    if change.new_mode == LINK and link is not None:
        return _link_fault(path, os.fsdecode(link))
    return ""


def _link_fault(path: str, told: str) -> str:
    inside = os.path.normpath(Path(path).parent / told)
    parts = [part for part in told.split("/") if part not in ("", ".")]
    climbs = [part == ".." for part in parts]
    if told.startswith("/") or inside == ".." or inside.startswith("../"):
        fault = "leads out of the repository"
    elif climbs != sorted(climbs, reverse=True):  # what it climbs from may be a link too, and lie elsewhere
        fault = "climbs after it descended, so nobody can say where it leads"
    elif any(map(is_dot_git, parts)):
        fault = "leads to what git keeps"
    elif not told or "\0" in told or len(os.fsencode(told)) >= PATH_BYTES:
        fault = "cannot be made"
    else:
        return ""
    return f"{one_line(path)[:200]} is a link that {fault}"


class OwnerBranch:
    """One branch of one of the owner's repositories. Blocking; the caller must hold the lock."""

    def __init__(self, git_dir: Path, branch: str) -> None:
        self._git_dir = git_dir
        self._name = f"refs/heads/{branch}"
        self._branch = branch
        self.folder = git_dir.parent if git_dir.name == ".git" else None
        """The owner's files; None in a bare repository."""

    def take(self, packs: Path) -> None:
        """Take over packs that were checked and indexed in a box. The index comes last: it makes a pack count."""
        place = self._git_dir / "objects" / "pack"
        if place.is_symlink():
            raise self._refused("objects/pack is a link", "Make it a folder of its own.")
        place.mkdir(exist_ok=True)
        for path in sorted(packs.glob("pack-*"), key=lambda each: each.suffix, reverse=True):
            if path.suffix not in (".pack", ".idx") or path.is_symlink() or (place / path.name).exists():
                continue
            fresh = place / f"tmp_coilclaw_{path.name}"
            fresh.unlink(missing_ok=True)
            shutil.copyfile(path, fresh, follow_symlinks=False)
            fresh.chmod(0o444)
            _sync(fresh)
            fresh.rename(place / path.name)
        _sync(place)

    def advance(
        self,
        tip: str,
        commit: str,
        changes: Sequence[FileChange],
        blobs: Callable[[Iterable[str]], Mapping[str, bytes]],
        reached: Callable[[str], None],
    ) -> None:
        """Move the branch from one commit to another, whose objects are there, with the files that differ."""
        check_repository(self._git_dir)
        if meant := _led_to(self._git_dir, self._name):
            raise self._refused(
                f"{self._branch} is another name of {one_line(meant)}", "Make it a branch of its own, then merge again."
            )
        for each in sorted((self._git_dir / "worktrees").glob("*/HEAD")):
            if _head(each) == self._name:
                raise self._refused(
                    f"{self._branch} is checked out in the worktree {one_line(each.parent.name)}",
                    "Check out another branch there, then merge again.",
                )
        if self.folder is None:
            self._move(tip, commit)
            return
        with self._locked_index():
            if _led_to(self._git_dir, "HEAD") != self._name:
                self._move(tip, commit)
                return
            files = _Folder(self.folder, self._git_dir)
            files.check(commit, changes)
            try:
                files.follow(changes, blobs, reached)
                reached("branch_moving")
                self._move(tip, commit)
            except ToolError as error:  # files are written: the same again completes it
                raise ToolError(error.message, remedy=error.remedy, code=error.code) from error

    def _move(self, tip: str, commit: str) -> None:
        who = ("-c", "user.name=CoilClaw", "-c", "user.email=coilclaw@localhost")
        words = ("update-ref", "--no-deref", "-m", "merge (CoilClaw)", self._name, object_id(commit), object_id(tip))
        _git(self._git_dir, *who, *words)

    @contextmanager
    def _locked_index(self) -> Iterator[None]:
        """While it is held, no git of the owner's commits here or checks out another branch."""
        lock = self._git_dir / "index.lock"
        if read_existing(self._git_dir, "index.lock", 1000) == _LOCKED:  # of a merge of ours that was killed
            lock.unlink(missing_ok=True)
        try:
            fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._refused(
                f"another git is at work there, or was killed ({error.strerror})",
                "Try again; if no git is at work, remove .git/index.lock.",
            ) from error
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(_LOCKED)
            yield
        finally:
            lock.unlink(missing_ok=True)

    def _refused(self, what: str, remedy: str) -> ToolError:
        return _refused(f"{self._git_dir.parent if self.folder else self._git_dir}: {what}.", remedy)


class _Folder:
    """The owner's files, which have the branch checked out."""

    def __init__(self, folder: Path, git_dir: Path) -> None:
        self._folder = folder
        self._git_dir = git_dir

    def check(self, commit: str, changes: Sequence[FileChange]) -> None:
        """Refuse unless all that changes is there as it was committed, or arrived before."""
        self._check_settings()
        self._check_attributes(commit, changes)
        self._check_index(changes)
        root = os.open(self._folder, _DIRECTORY)
        try:
            for each in changes:
                self._is_done(root, each)
        finally:
            os.close(root)

    def follow(
        self,
        changes: Sequence[FileChange],
        blobs: Callable[[Iterable[str]], Mapping[str, bytes]],
        reached: Callable[[str], None],
    ) -> None:
        """Bring files and index to what was checked."""
        root = os.open(self._folder, _DIRECTORY)
        try:
            waiting = [each for each in changes if not self._is_done(root, each)]
            data = blobs(each.new_blob for each in waiting if each.new_blob)
            for each in sorted(waiting, key=lambda one: bool(one.new_blob)):  # removals first
                if self._is_done(root, each):  # asked again: the owner may have edited it since
                    continue
                if each.new_blob:
                    _put(root, each, data[each.new_blob])
                else:
                    _remove(root, each.path)
                reached("owner_file_written")
        finally:
            os.close(root)
        self._put_index(changes)
        reached("owner_index_written")

    # What must hold before anything is written

    def _check_settings(self) -> None:
        for key, fine in (("core.worktree", ""), ("core.sparsecheckout", "false"), ("core.autocrlf", "false")):
            if self._setting(key) not in ("", fine):
                raise self._in_the_way(f"it has the setting {key}")

    def _check_attributes(self, commit: str, changes: Sequence[FileChange]) -> None:
        """Filters and line ends are the business of the owner's git: files that need one are not written here."""
        given = b"".join(os.fsencode(each.path) + b"\0" for each in changes)
        with _own_repository(self._git_dir, commit) as environment:
            _git(self._git_dir, "read-tree", commit, environment=environment)
            words = _git(
                self._git_dir,
                "check-attr",
                "--cached",
                "-z",
                "--stdin",
                *_CONVERTED,
                environment=environment,
                given=given,
            ).split("\0")
        for path, name, value in zip(words[::3], words[1::3], words[2::3], strict=False):
            if value not in ("unspecified", "unset", *_CONVERTED[name]):
                raise self._in_the_way(f"{one_line(path)[:200]} needs {name}={one_line(value)[:80]}")

    def _check_index(self, changes: Sequence[FileChange]) -> None:
        """What is staged for these files must be what was committed; other staged changes stay."""
        staged: dict[str, Entry] = {}
        for record in _git(self._git_dir, "ls-files", "--stage", "-z").split("\0"):
            about, _, path = record.partition("\t")
            if path:
                mode, blob, stage = about.split()
                staged[path] = (mode, blob) if stage == "0" else ("", "")
        changed = {each.path for each in changes}
        others = staged.keys() - changed
        folders = {str(parent) for path in others for parent in Path(path).parents}
        for each in changes:
            if staged.get(each.path) not in (_old(each), _new(each)):
                raise self._in_the_way(f"{one_line(each.path)[:200]} has staged changes", "Commit or unstage them")
            if each.new_blob and (each.path in folders or others & {str(above) for above in Path(each.path).parents}):
                raise self._in_the_way(f"something else is staged at {one_line(each.path)[:200]}")

    def _is_done(self, root: int, change: FileChange) -> bool:
        """Whether a file holds what it shall hold; it must hold that, or what it held before."""
        found = self._found(root, change.path, len(change.new_blob or change.old_blob))
        if found == _new(change):
            return True
        if found != _old(change):
            what = "is changed" if change.old_blob else "is in the way"
            raise self._in_the_way(f"{one_line(change.path)[:200]} {what}", "Commit it, stash it or move it away")
        return False

    def _found(self, root: int, path: str, length: int) -> Entry | None:
        """What is at a path, links not followed; None when there is nothing."""
        blocked = ("", "")
        try:
            parent, name = _parent(root, path)
        except FileNotFoundError:
            return None
        except OSError:
            return blocked
        try:
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                return LINK, blob_id(os.fsencode(os.readlink(name, dir_fd=parent)), "0" * length)
            if not stat.S_ISREG(info.st_mode) or info.st_size > FILE_BYTES:
                return blocked
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            with os.fdopen(fd, "rb") as file:
                return PROGRAM if info.st_mode & 0o100 else FILE, blob_id(file.read(), "0" * length)
        except FileNotFoundError:
            return None
        finally:
            os.close(parent)

    # The index

    def _put_index(self, changes: Sequence[FileChange]) -> None:
        """Give the changed files their new entries. The owner's next git fills in what it knows of each file."""
        fresh = self._git_dir / _NEW_INDEX
        fresh.unlink(missing_ok=True)
        data = read_existing(self._git_dir, "index", INDEX_BYTES)
        if data is None:
            raise self._in_the_way("its index cannot be read")
        fresh.write_bytes(data)
        none = "0" * len(changes[0].new_blob or changes[0].old_blob) if changes else ""
        lines = [f"{each.new_mode if each.new_blob else 0} {each.new_blob or none}\t{each.path}\0" for each in changes]
        given = "".join(lines).encode("utf-8", "surrogateescape")
        words = ("-c", "core.splitIndex=false", "update-index", "-z", "--index-info")
        _git(self._git_dir, *words, environment={"GIT_INDEX_FILE": str(fresh)}, given=given)
        _sync(fresh)
        fresh.replace(self._git_dir / "index")
        _sync(self._git_dir)

    # Parts

    def _setting(self, key: str) -> str:
        found = ""
        for name in ("config", "config.worktree"):  # sparse checkouts are set in the second
            where = ("--no-includes", "--file", str(self._git_dir / name))
            with suppress(ToolError):  # git fails if there is no such key
                found = run_git(self._git_dir, "config", *where, "--get", key).strip().lower()
        return found

    def _in_the_way(self, what: str, remedy: str = "") -> ToolError:
        elsewhere = _ELSEWHERE.format(folder=self._folder)
        return _refused(
            f"{self._folder}: {what}, so nothing was merged.", f"{remedy}, or: {elsewhere}" if remedy else elsewhere
        )


def _old(change: FileChange) -> Entry | None:
    return (change.old_mode, change.old_blob) if change.old_blob else None


def _new(change: FileChange) -> Entry | None:
    return (change.new_mode, change.new_blob) if change.new_blob else None


def _parent(root: int, path: str, *, make: bool = False) -> tuple[int, str]:
    """The open folder that a path is in, without links on the way, and its name there."""
    *parents, name = path.split("/")
    here = os.dup(root)
    try:
        for part in parents:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            below = os.open(part, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here, name


def _put(root: int, change: FileChange, data: bytes) -> None:
    parent, name = _parent(root, change.path, make=True)
    try:
        if change.new_mode != LINK:
            put_durably(parent, name, data, 0o755 if change.new_mode == PROGRAM else 0o644, "coilclaw")
            return
        fresh = f".{name[:80]}.coilclaw.new"
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=parent)
        os.symlink(data, os.fsencode(fresh), dir_fd=parent)
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)
    finally:
        os.close(parent)


def _remove(root: int, path: str) -> None:
    """Remove a file, and the folders that are empty then."""
    while path:
        parent, name = _parent(root, path)
        try:
            try:
                os.unlink(name, dir_fd=parent)
            except IsADirectoryError:
                os.rmdir(name, dir_fd=parent)
            os.fsync(parent)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return
            raise
        finally:
            os.close(parent)
        path = path.rpartition("/")[0]


@contextmanager
def _own_repository(git_dir: Path, like: str) -> Iterator[dict[str, str]]:
    """A repository of ours over the owner's objects, with the owner's `info/attributes` and nothing else of theirs."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="coilclaw-attributes-") as name:
        own = Path(name)
        for part in ("refs", "info"):
            (own / part).mkdir()
        kind = "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n" if len(like) == 64 else ""
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "config").write_text(f"[core]\n{kind}")
        if (data := read_existing(git_dir, "info/attributes", 1 << 20)) is not None:
            (own / "info" / "attributes").write_bytes(data)
        yield {
            "GIT_DIR": name,
            "GIT_INDEX_FILE": str(own / "index"),
            "GIT_WORK_TREE": str(own / "refs"),
            "GIT_OBJECT_DIRECTORY": str(git_dir / "objects"),
        }


def _head(path: Path) -> str:
    data = read_existing(path.parent, path.name, 4096) or b""
    return data.decode("utf-8", "replace").strip().removeprefix("ref: ").strip()


def _led_to(git_dir: Path, name: str) -> str:
    """The branch that a symbolic reference finally resolves to; empty if there is none."""
    code, out, said = git_bytes(git_dir, "symbolic-ref", "--quiet", name, environment={"GIT_DIR": str(git_dir)})
    if code > 1:
        raise _refused(failed("symbolic-ref", code, said).message, "Look at the repository with your own git.")
    return out.decode("utf-8", "replace").strip() if code == 0 else ""


def _git(git_dir: Path, *words: str, environment: Mapping[str, str] | None = None, given: bytes = b"") -> str:
    fixed = {"GIT_DIR": str(git_dir), "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
    try:
        return run_git(git_dir, *words, environment={**fixed, **(environment or {})}, given=given, seconds=120.0)
    except ToolError as error:
        raise _refused(error.message, "Look at the repository with your own git, then merge again.") from error


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refused(text: str, remedy: str) -> ToolError:
    return ToolError(text, remedy=remedy, code="MERGE_REFUSED", begun=False)
