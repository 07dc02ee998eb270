"""The bot's repository, by plumbing alone: no hook, filter, attribute, work tree or index of the owner's has a part.

Commits are written by fast-import from bytes the caller read; git accepts any name there (`.git/config`, `..`), so
names and modes are checked here first. References move by compare-and-set. See docs/decisions/0030.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import ChangeKind, FileChange
from coilclaw.sandbox.executed import is_dot_git
from coilclaw.sandbox.git import failed, git_bytes

OLDEST_GIT = (2, 38)
"""`merge-tree --write-tree`, which merges without a work tree, came with this version."""
SECONDS = 120.0
FILE, PROGRAM = "100644", "100755"
NAME_BYTES = 255
PATH_BYTES = 4096
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NEW = "refs/coilclaw/new"


class Person(msgspec.Struct, frozen=True):
    """Who a commit is by."""

    name: str
    address: str


OWNER = Person("Owner", "owner@localhost")
BOT = Person("CoilClaw", "coilclaw@localhost")


class TreeEntry(msgspec.Struct, frozen=True):
    """A file of a commit."""

    mode: str
    blob: str
    size: int


class Written(msgspec.Struct, frozen=True):
    """What a path shall hold in a new commit; None as data removes it."""

    path: str
    data: bytes | None
    mode: str = FILE


class Merged(msgspec.Struct, frozen=True):
    """What merging two commits gives."""

    tree: str
    """With conflicts the files in it hold conflict markers."""
    conflicts: tuple[str, ...]


class LoggedCommit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit as a log shows it."""

    sha: str
    parents: tuple[str, ...]
    author: str
    time: str
    subject: str
    body: str


class RefMoved(ToolError):
    """A reference is no longer where it was when the work began; nothing was changed."""

    code = "REF_MOVED"


class ForgeRefused(ToolError):
    """The repository cannot be worked with as it is."""

    code = "FORGE_REFUSED"


class BotRepository:
    """One repository, seen from inside its `.git`. Blocking: call it in a thread."""

    def __init__(self, workspace: Path, *, git_dir: Path | None = None, objects: Path | None = None) -> None:
        self.folder = workspace
        self._git_dir = git_dir or workspace / ".git"
        self._objects = objects or self._git_dir / "objects"

    # What it is

    def is_there(self) -> bool:
        """Whether there is a repository at all."""
        return self._git_dir.is_dir() and not self._git_dir.is_symlink()

    def fault(self) -> str:
        """Why the forge cannot work here, with the remedy; empty when it can."""
        version = git_version()
        if version is None:
            return "git is not installed. Install the package `git`."
        if version < OLDEST_GIT:
            have, need = (".".join(map(str, each)) for each in (version, OLDEST_GIT))
            return (
                f"git {have} is too old for pull requests; install git {need} or newer, or set forge.enabled = false."
            )
        if not self.is_there():
            return f"{self.folder} is not a git repository of its own. Run `coilclaw init`."
        if not self.resolve("refs/heads/main"):
            return f"{self.folder} has no branch `main`. Make one: git branch -M main"
        return ""

    def resolve(self, name: str) -> str:
        """The commit a reference leads to; empty when there is none."""
        code, out, _ = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return "" if code else out.decode().strip()

    def tip(self, name: str) -> str:
        """The same for whoever must not take a damaged reference for none."""
        found = self.resolve(name)
        if not found and self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name)[0] == 0:
            raise ForgeRefused(f"{name} leads to no commit in {self.folder}.", remedy="Run `git fsck` there.")
        return found

    def references(self, prefix: str) -> dict[str, str]:
        """References below a prefix, and the commits they lead to."""
        out = self._run("for-each-ref", "--format=%(refname) %(objectname)", prefix).decode("utf-8", "surrogateescape")
        return {name: sha for name, _, sha in (line.partition(" ") for line in out.splitlines())}

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether one commit is part of the history of another."""
        code, _, said = self._git("merge-base", "--is-ancestor", _sha(older), _sha(newer))
        if code > 1:
            raise failed("merge-base", code, said)
        return code == 0

    def merged_as(self, head: str, main: str) -> str:
        """The commit on main's first-parent line that merged `head`; empty when none did."""
        out = self._run("rev-list", "--first-parent", "--parents", "-n", "10000", _sha(main)).decode()
        for line in out.splitlines():
            commit, *parents = line.split()
            if head in parents[1:]:
                return commit
        return ""

    def log(self, name: str, limit: int) -> list[LoggedCommit]:
        """The newest commits on a branch, by first parents."""
        shape = "%H%x00%P%x00%an <%ae>%x00%cI%x00%s%x00%b%x01"
        out = self._run("log", "--first-parent", f"--format={shape}", "-n", str(limit), "--end-of-options", name)
        found: list[LoggedCommit] = []
        for record in out.decode("utf-8", "replace").split("\x01"):
            fields = record.lstrip("\n").split("\0")
            if len(fields) == 6:
                sha, parents, author, time, subject, body = fields
                found.append(
                    LoggedCommit(
                        sha=sha, parents=tuple(parents.split()), author=author, time=time, subject=subject, body=body
                    )
                )
        return found

    # Reading

    def entries(self, commit: str) -> dict[str, TreeEntry]:
        """Every regular file of a commit or tree by path; links and submodules are left out."""
        out = self._run("ls-tree", "-r", "-z", "-l", "--full-tree", _sha(commit)).decode("utf-8", "surrogateescape")
        found: dict[str, TreeEntry] = {}
        for record in out.split("\0"):
            about, _, path = record.partition("\t")
            if not path:
                continue
            mode, kind, blob, size = about.split()
            if kind == "blob" and mode in (FILE, PROGRAM):
                found[path] = self._entry(mode, blob, size)
        return found

    def modes(self, commit: str) -> dict[str, str]:
        """The mode of everything in a commit or tree by path, links and submodules too."""
        out = self._run("ls-tree", "-r", "-z", "--full-tree", _sha(commit)).decode("utf-8", "surrogateescape")
        found = (record.partition("\t") for record in out.split("\0") if record)
        return {path: about.split()[0] for about, _, path in found}

    def blobs(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """The contents of these blobs."""
        asked = list(dict.fromkeys(wanted))
        if not asked:
            return {}
        out = self._run("cat-file", "--batch", given="".join(f"{_sha(blob)}\n" for blob in asked).encode())
        found: dict[str, bytes] = {}
        place = 0
        for blob in asked:
            end = out.index(b"\n", place)
            words = out[place:end].split()
            if len(words) != 3:
                raise self._damaged(blob)
            size = int(words[2])
            found[blob] = out[end + 1 : end + 1 + size]
            place = end + 1 + size + 1
        return found

    def read(self, commit: str, path: str) -> bytes | None:
        """What a file holds in a commit; None when it is not there."""
        entry = self.entry(commit, path)
        return None if entry is None else self.blobs([entry.blob])[entry.blob]

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """One file of a commit; None when it is not a regular file there."""
        place = path.encode("utf-8", "surrogateescape")
        out = self._run("ls-tree", "-z", "-l", "--full-tree", _sha(commit), "--", os.fsdecode(place))
        about, _, found = out.rstrip(b"\0").partition(b"\t")
        if found != place:
            return None
        mode, kind, blob, size = about.decode().split()
        return self._entry(mode, blob, size) if kind == "blob" and mode in (FILE, PROGRAM) else None

    def _entry(self, mode: str, blob: str, size: str) -> TreeEntry:
        if not size.isdigit():
            raise self._damaged(blob)
        return TreeEntry(mode, blob, int(size))

    def _damaged(self, blob: str) -> ForgeRefused:
        return ForgeRefused(
            f"the object {blob} is missing or damaged in {self.folder}.", remedy="Run `git fsck` there."
        )

    # Comparing

    def changes(self, old: str, new: str) -> list[FileChange]:
        """What differs between two commits or trees, by path."""
        out = self._run("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", _sha(old), _sha(new))
        words = out.decode("utf-8", "surrogateescape").split("\0")
        return [file_change(about, path) for about, path in zip(words[::2], words[1::2], strict=False)]

    def patch(self, old: str, new: str, paths: Sequence[str] = ()) -> bytes:
        """The difference as text. No attribute can hide a file: git finds none from where it looks."""
        compare = (
            "diff-tree",
            "-r",
            "-p",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-renames",
            "--full-index",
        )
        return self._run(*compare, _sha(old), _sha(new), "--", *paths)

    def merge(self, ours: str, theirs: str) -> Merged:
        """Merge two commits without touching any file."""
        arguments = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", _sha(ours), _sha(theirs))
        code, out, said = self._git(*arguments)
        if code > 1 or not out:
            raise failed("merge-tree", code, said)
        tree, *names = out.decode("utf-8", "surrogateescape").split("\0")
        return Merged(tree, tuple(dict.fromkeys(name for name in names if name)) if code else ())

    # Writing

    def commit(
        self, parent: str, changes: Sequence[Written], message: str, author: Person, when: int, *, base: str = ""
    ) -> str:
        """Write a commit on a parent; its files are the parent's, or those of `base`, with these changes.

        No reference leads to it yet: `move` one to it.
        """
        for change in changes:
            check_name(change.path)
            if change.data is not None and change.mode not in (FILE, PROGRAM):
                raise ForgeRefused(f"{change.path} has the mode {change.mode}, which is no regular file's.")
        name = f"{_NEW}/{os.urandom(8).hex()}"
        files = self.tree_of(base) if base else ""
        stream = _fast_import(name, parent, files, changes, message, author, when)
        return self._run("fast-import", "--quiet", "--done", "--date-format=raw", given=stream).decode().strip()

    def tree_of(self, commit: str) -> str:
        """The id of the tree that a commit has; of a tree its own."""
        return self._run("rev-parse", "--verify", f"{_sha(commit)}^{{tree}}").decode().strip()

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, author: Person, when: int) -> str:
        """Write a commit of a tree that is there already."""
        given = tuple(word for parent in parents for word in ("-p", _sha(parent)))
        who = {"AUTHOR": author, "COMMITTER": BOT}
        environment = {f"GIT_{role}_NAME": person.name for role, person in who.items()}
        environment |= {f"GIT_{role}_EMAIL": person.address for role, person in who.items()}
        environment |= {f"GIT_{role}_DATE": f"{when} +0000" for role in who}
        out = self._run("commit-tree", *given, _sha(tree), given=_message(message), environment=environment)
        return out.decode().strip()

    def move(self, name: str, new: str, old: str) -> None:
        """Move a reference, if it still stands where it did; an empty `old` means that there is none yet."""
        code, _, said = self._git("update-ref", name, _sha(new), old or "0" * len(new))
        if code:
            if self.resolve(name) != old or b"cannot lock ref" in said:
                raise RefMoved(f"{name} has moved meanwhile.", begun=False)
            raise failed("update-ref", code, said)

    def put(self, name: str, new: str) -> None:
        """Have a reference of the runtime's own lead to a commit, wherever it led before."""
        self._run("update-ref", name, _sha(new))

    def remove(self, name: str) -> None:
        """Remove a reference, wherever it leads."""
        self._run("update-ref", "-d", name)

    def export(self, commit: str, folder: Path) -> None:
        """Write the files of a commit into an empty folder, as plain files: no `.git`, no links, no filters."""
        with self._plain() as environment:
            self._run("read-tree", _sha(commit), environment=environment)
            written = {**environment, "GIT_WORK_TREE": str(folder)}
            self._run("checkout-index", "--all", "--quiet", f"--prefix={folder}/", environment=written)

    def differing(self, commit: str, kept: Path) -> list[str]:
        """Paths of the workspace that differ from a commit, are new or are gone; ignored ones are left out.

        `kept` is a folder of ours whose index remembers unchanged files, so that they are not read each time.
        """
        environment = self._plain_environment(kept, links=True)
        environment["GIT_WORK_TREE"] = str(self.folder)
        read = kept / "read"  # the commit that the index was read from last
        if not read.exists() or read.read_text() != commit or not (kept / "index").exists():
            read.unlink(missing_ok=True)
            self._run("read-tree", "--reset", _sha(commit), environment=environment)
            read.write_text(commit)
        self._git("update-index", "-q", "--refresh", environment=environment)  # it fails when anything differs
        listed = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard")
        found = self._run(*listed, environment=environment).decode("utf-8", "surrogateescape").split("\0")
        return sorted({path for path in found if path and not path.endswith("/")})  # the rest are nested repositories

    def checked_out(self) -> str:
        """The branch that the workspace has checked out; empty when it is none."""
        code, out, _ = self._git("symbolic-ref", "--quiet", "HEAD")
        return "" if code else out.decode("utf-8", "replace").strip()

    def refresh_index(self, commit: str) -> None:
        """Let the owner's own git see the workspace as it is: nothing staged, compared with this commit."""
        index = {"GIT_INDEX_FILE": str(self._git_dir / "index")}
        self._run("read-tree", "--reset", _sha(commit), environment=index)

    @contextmanager
    def _plain(self) -> Iterator[dict[str, str]]:
        with tempfile.TemporaryDirectory(prefix="coilclaw-export-") as name:
            yield self._plain_environment(Path(name), links=False)

    def _plain_environment(self, own: Path, *, links: bool) -> dict[str, str]:
        """A repository of our own over the same objects, in which no file is converted on its way in or out.

        Attributes of the commit would choose filters and line ends; those of `info/attributes` come first.
        """
        for part in ("refs", "info"):
            (own / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "config").write_text(f"[core]\n\tsymlinks = {str(links).lower()}\n{self._object_format()}")
        (own / "info" / "attributes").write_text("* -text -filter -ident -working-tree-encoding -eol\n")
        return {
            "GIT_DIR": str(own),
            "GIT_INDEX_FILE": str(own / "index"),
            "GIT_WORK_TREE": str(own / "refs"),
            "GIT_OBJECT_DIRECTORY": str(self._objects),
        }

    def _object_format(self) -> str:
        sha256 = len(self.resolve("refs/heads/main")) == 64
        version = "\trepositoryformatversion = "
        return f"{version}1\n[extensions]\n\tobjectformat = sha256\n" if sha256 else f"{version}0\n"

    # git

    def _run(self, *args: str, given: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        code, out, said = self._git(*args, given=given, environment=environment)
        if code:
            words = [word for word in args if not word.startswith("-") and "=" not in word]
            raise failed(words[0] if words else args[0], code, said)
        return out

    def _git(
        self, *args: str, given: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, bytes]:
        # The work tree is a folder without files, so that no attributes are found; there is no index either.
        fixed = {
            "GIT_DIR": str(self._git_dir),
            "GIT_OBJECT_DIRECTORY": str(self._objects),
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_WORK_TREE": str(self._git_dir / "refs"),
            "GIT_INDEX_FILE": str(self._git_dir / "refs" / "none"),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        merged = {**fixed, **(environment or {})}
        # Two processes may move references at once: git waits for the other's lock instead of giving up at once.
        patient = ("-c", "core.filesRefLockTimeout=10000", "-c", "core.packedRefsTimeout=10000")
        folder = Path(merged["GIT_WORK_TREE"])
        return git_bytes(folder, *patient, *args, seconds=SECONDS, environment=merged, given=given)


def git_version() -> tuple[int, int] | None:
    """The version of git that is installed; None when there is none."""
    return _version_on(os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _version_on(_path: str) -> tuple[int, int] | None:
    try:
        _, out, _ = git_bytes(Path("/"), "--version")
    except ToolError:
        return None
    found = re.search(rb"(\d+)\.(\d+)", out)
    return None if found is None else (int(found[1]), int(found[2]))


def file_change(about: str, path: str) -> FileChange:
    """A change from what git's raw format says of a path."""
    kinds: dict[str, ChangeKind] = {"A": "added", "D": "removed"}
    old_mode, new_mode, old_blob, new_blob, status = about.removeprefix(":").split()
    gone = "0" * len(old_blob)
    return FileChange(
        path=path,
        kind=kinds.get(status[0], "changed"),
        old_blob="" if old_blob == gone else old_blob,
        new_blob="" if new_blob == gone else new_blob,
        old_mode=old_mode,
        new_mode=new_mode,
    )


def name_fault(path: str) -> str:
    """Why a path cannot be in a commit of ours; empty when it can."""
    parts = path.split("/")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"
    if not path or size > PATH_BYTES or any(len(part.encode()) > NAME_BYTES for part in parts):
        return "its name is empty or too long"
    if any(part in ("", ".", "..") for part in parts):
        return "its name has an empty part, `.` or `..`"
    if any(is_dot_git(part) for part in parts):
        return "git would take it for its own folder"
    if "\\" in path or ":" in path or any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "its name has a control character, a backslash or a colon"
    return ""


def check_name(path: str) -> None:
    """Refuse a path that must not be in a commit."""
    fault = name_fault(path)
    if fault:
        raise ForgeRefused(f"{path[:200]!r} cannot be committed: {fault}.", remedy="Rename the file.", begun=False)


def _sha(text: str) -> str:
    """An object's id, so that nothing else can be taken for an option or a reference."""
    if not _SHA.fullmatch(text):
        raise ForgeRefused(f"{text[:80]!r} is not the id of an object.", begun=False)
    return text


def _fast_import(
    name: str, parent: str, files: str, changes: Sequence[Written], message: str, author: Person, when: int
) -> bytes:
    lines = [f"commit {name}\nmark :1\n".encode()]
    for role, person in (("author", author), ("committer", BOT)):
        lines.append(f"{role} {person.name} <{person.address}> {when} +0000\n".encode())
    text = _message(message)
    lines += [f"data {len(text)}\n".encode(), text, b"\n"]
    if parent:
        lines.append(f"from {_sha(parent)}\n".encode())
    if files:
        lines += [b"deleteall\n", f'M 040000 {_sha(files)} ""\n'.encode()]
    for change in changes:
        path = _quoted(change.path)
        if change.data is None:
            lines.append(f"D {path}\n".encode())
        else:
            lines += [f"M {change.mode} inline {path}\ndata {len(change.data)}\n".encode(), change.data, b"\n"]
    nothing = "0" * len(parent or files or "0" * 40)
    lines.append(f"reset {name}\nfrom {nothing}\n\nget-mark :1\ndone\n".encode())  # no reference stays behind
    return b"".join(lines)


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _message(text: str) -> bytes:
    return (text.strip() + "\n").encode("utf-8", "surrogateescape")
