"""The bot's repository, by plumbing alone: no hook, filter, attribute, work tree or index of the owner's has a part.

Commits are written by fast-import from bytes the caller read, names checked first. References move by compare-and-set.
See docs/decisions/0030.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import ChangeKind, FileChange
from coilclaw.sandbox.fast_import import (
    BESIDE,
    BOT,
    FILE,
    PROGRAM,
    ForgeRefused,
    Person,
    Written,
    check_name,
    commit_stream,
    object_id,
)
from coilclaw.sandbox.files import read_existing
from coilclaw.sandbox.git import failed, git_bytes, git_version
from coilclaw.sandbox.git_objects import Answers, commit_bytes, object_name, read_loose, write_loose

OLDEST_GIT = (2, 38)
"""`merge-tree --write-tree`, which merges without a work tree, came with this version."""
SECONDS = 120.0
FEW = 100
"""So many blobs are looked for as files of their own before git is asked; fast-import packs what is more."""
_ANSWERS = Answers()


class TreeEntry(msgspec.Struct, frozen=True):
    """A file of a commit."""

    mode: str
    blob: str
    size: int


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

    def main_in_force(self) -> str:
        """The commit on main, asked for once; empty unless main is checked out and everything else is in order."""
        have = git_version()
        if have is None or have < OLDEST_GIT or not self.is_there():
            return ""
        if found := self._loose_main():
            return found
        code, out, _ = self._git("for-each-ref", "--format=%(HEAD)%(objecttype) %(objectname)", "refs/heads/main")
        kind, _, sha = out.decode("utf-8", "replace").strip().partition(" ")
        return "" if code or kind != "*commit" else sha

    def _loose_main(self) -> str:
        """The same without a process, where both references are plain files; empty where only git can tell."""
        head, main = self._git_dir / "HEAD", self._git_dir / "refs" / "heads" / "main"
        try:
            if head.is_symlink() or main.is_symlink() or head.read_bytes() != b"ref: refs/heads/main\n":
                return ""
            return object_id(main.read_text("ascii").removesuffix("\n"))
        except (OSError, ValueError, ForgeRefused):
            return ""

    def tip(self, name: str) -> str:
        """The same, but a damaged reference is an error instead of empty."""
        if found := self.resolve(name):
            return found
        code, out, _ = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        # Asked again by its hash: somebody may have made the reference since.
        found = "" if code else self.resolve(out.decode().strip())
        if not found and code == 0:
            raise ForgeRefused(f"{name} leads to no commit in {self.folder}.", remedy="Run `git fsck` there.")
        return found

    def references(self, prefix: str) -> dict[str, str]:
        """References below a prefix, and the commits they lead to."""
        out = self._run("for-each-ref", "--format=%(refname) %(objectname)", prefix).decode("utf-8", "surrogateescape")
        return {name: sha for name, _, sha in (line.partition(" ") for line in out.splitlines())}

    def leads_to(self, older: str, newer: str) -> bool:
        """Whether one commit is an ancestor of another; False for a commit that does not exist."""
        code, _, said = self._git("merge-base", "--is-ancestor", object_id(older), object_id(newer))
        if code > 1 and self.resolve(older):
            raise failed("merge-base", code, said)
        return code == 0

    def merged_as(self, head: str, main: str) -> str:
        """The commit on main's first-parent line that merged `head`; empty when none did."""
        out = self._run("rev-list", "--first-parent", "--parents", "-n", "10000", object_id(main)).decode()
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
        said = self._known("ls-tree", "-r", "-z", "-l", "--full-tree", self._files(commit))
        out = said.decode("utf-8", "surrogateescape")
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
        out = self._run("ls-tree", "-r", "-z", "--full-tree", object_id(commit)).decode("utf-8", "surrogateescape")
        found = (record.partition("\t") for record in out.split("\0") if record)
        return {path: about.split()[0] for about, _, path in found}

    def blob_sizes(self, wanted: Iterable[str]) -> dict[str, int]:
        """How many bytes these blobs have."""
        asked = list(dict.fromkeys(wanted))
        given = "".join(f"{object_id(blob)}\n" for blob in asked).encode()
        said = self._run("cat-file", "--batch-check=%(objectsize)", given=given).split(b"\n") if asked else []
        for blob, size in zip(asked, said, strict=False):
            if not size.isdigit():
                raise self._damaged(blob)
        return {blob: int(size) for blob, size in zip(asked, said, strict=False)}

    def blobs(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """The contents of these blobs, or of other objects."""
        asked = [object_id(blob) for blob in dict.fromkeys(wanted)]
        found: dict[str, bytes] = {}
        if len(asked) <= FEW:
            loose = ((blob, read_loose(self._objects, "blob", blob)) for blob in asked)
            found = {blob: data for blob, data in loose if data is not None}
            asked = [blob for blob in asked if blob not in found]
        out = self._run("cat-file", "--batch", given="".join(f"{blob}\n" for blob in asked).encode()) if asked else b""
        place = 0
        for blob in asked:
            end = out.index(b"\n", place)
            words = out[place:end].split()
            if len(words) != 3:
                raise self._damaged(blob)
            size = int(words[2])
            found[blob] = out[end + 1 : end + 1 + size]
            if object_name(words[1].decode(), found[blob], blob) != blob:  # git does not look
                raise self._damaged(blob)
            place = end + 1 + size + 1
        return found

    def read(self, commit: str, path: str) -> bytes | None:
        """What a file holds in a commit; None when it is not there."""
        entry = self.entry(commit, path)
        return None if entry is None else self.blobs([entry.blob])[entry.blob]

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """One file of a commit; None when it is not a regular file there."""
        place = path.encode("utf-8", "surrogateescape")
        out = self._run("ls-tree", "-z", "-l", "--full-tree", object_id(commit), "--", os.fsdecode(place))
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

    def has(self, sha: str) -> bool:
        """Whether an object is here."""
        return self._git("cat-file", "-e", object_id(sha))[0] == 0

    def raw(self, commit: str) -> bytes:
        """The bytes of a commit."""
        return self._run("cat-file", "commit", object_id(commit))

    def commits_since(self, head: str, known: Sequence[str], most: int, *, first_parent: bool = False) -> list[str]:
        """The commits that lead to `head` and to none of the known ones, the oldest first."""
        without = [f"^{object_id(each)}" for each in known if self.has(each)]
        line = ("--first-parent",) if first_parent else ()
        found = self._run("rev-list", "--topo-order", *line, "-n", str(most), object_id(head), *without)
        return found.decode().split()[::-1]

    # Comparing

    def changes(self, old: str, new: str) -> list[FileChange]:
        """What differs between two commits or trees, by path."""
        shape = ("-r", "-z", "--no-renames", "--raw", "--no-abbrev")
        out = self._known("diff-tree", *shape, self._files(old), self._files(new))
        words = out.decode("utf-8", "surrogateescape").split("\0")
        return [file_change(about, path) for about, path in zip(words[::2], words[1::2], strict=False)]

    def change_sizes(self, changes: Sequence[FileChange]) -> list[tuple[int, int]]:
        """How many bytes each of these files has, before and after; links and submodules have none."""
        files = (FILE, PROGRAM)
        sides = [
            (each.old_blob if each.old_mode in files else "", each.new_blob if each.new_mode in files else "")
            for each in changes
        ]
        known = self.blob_sizes(blob for both in sides for blob in both if blob)
        return [(known.get(old, 0), known.get(new, 0)) for old, new in sides]

    def patch(self, old: str, new: str, paths: Sequence[str] = (), most: int = 0) -> bytes:
        """The difference as text; files of more than `most` bytes are named alone.

        No attribute can hide a file: git finds none from where it looks.
        """
        plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--full-index")
        large = ("-c", f"core.bigFileThreshold={most}") if most else ()
        return self._run(*large, "diff-tree", "-r", "-p", *plain, object_id(old), object_id(new), "--", *paths)

    def patch_hash(self, old: str, new: str) -> str:
        """SHA-256 of that text."""
        question = (*self._where(), "patch", old, new)
        return _ANSWERS.of(question, lambda: sha256_hex(self.patch(old, new)).encode()).decode()

    def merge(self, ours: str, theirs: str) -> Merged:
        """Merge two commits without touching any file."""
        question = (*self._where(), "merge", object_id(ours), object_id(theirs))
        tree, names = (_ANSWERS.get(question) or b"").decode(), list[str]()
        if any(read_loose(self._objects, *each) is None for each in (("commit", theirs), ("tree", tree))):
            # Not known, or somebody removed what was known since.
            code, out, said = self._git(
                "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs
            )
            if code > 1 or not out:
                raise failed("merge-tree", code, said)
            tree, *names = out.decode("utf-8", "surrogateescape").split("\0")
            if code == 0:
                names = []
                _ANSWERS.keep(question, tree.encode())
        return Merged(tree, tuple(dict.fromkeys(name for name in names if name)))

    # Writing

    def commit(
        self,
        parent: str,
        changes: Sequence[Written],
        message: str,
        author: Person,
        when: int,
        *,
        base: str = "",
        onto: Sequence[str] = (),
    ) -> str:
        """Write a commit on a parent; its files are the parent's, or those of `base`, with these changes.

        References of the runtime's own that `onto` names lead to it afterwards, wherever they led before. Without them
        none does yet: `move` one to it.
        """
        for change in changes:
            check_name(change.path)
            if change.data is not None and change.mode not in (FILE, PROGRAM):
                raise ForgeRefused(f"{change.path} has the mode {change.mode}, which is not that of a regular file.")
        files = self.tree_of(base) if base else ""
        stream = commit_stream(onto, parent, files, changes, message, author, when)
        options = ("--quiet", "--done", "--date-format=raw", *(("--force",) if onto else ()))
        return self._run("fast-import", *options, given=stream).decode().strip()

    def store(self, kind: Literal["commit", "tree", "blob"], data: bytes) -> str:
        """Keep an object that was made elsewhere; nothing leads to it yet. git refuses one that is malformed."""
        return self._run("hash-object", "-t", kind, "-w", "--stdin", given=data).decode().strip()

    def tree_of(self, commit: str) -> str:
        """The id of the tree that a commit has; of a tree its own."""
        return self._known("rev-parse", "--verify", f"{object_id(commit)}^{{tree}}").decode().strip()

    def _files(self, commit: str) -> str:
        """The tree of a commit where that can be told without git; else the id itself."""
        found = read_loose(self._objects, "commit", object_id(commit))
        return commit if found is None else object_id(found.partition(b"\n")[0].removeprefix(b"tree ").decode())

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, author: Person, when: int) -> str:
        """Write a commit of a tree that is there already."""
        data = commit_bytes(tree, parents, message, author, BOT, when)
        return write_loose(self._objects, "commit", data, tree)

    def move(self, name: str, new: str, old: str) -> None:
        """Move a reference if it still points to `old`; an empty `old` means that it must not exist yet."""
        code, _, said = self._git("update-ref", name, object_id(new), old or "0" * len(new))
        if code:
            if self.resolve(name) != old:
                raise RefMoved(f"{name} has moved meanwhile.", begun=False)
            if (lock := self._git_dir / f"{name}.lock").exists():
                remedy = f"Another git may be at work. If none is, remove {lock}."
                raise ForgeRefused(f"{name} is locked.", remedy=remedy, begun=False)
            raise failed("update-ref", code, said)

    def put(self, name: str, new: str) -> None:
        """Have a reference of the runtime's own lead to a commit, wherever it led before."""
        self._run("update-ref", name, object_id(new))

    def remove(self, name: str) -> None:
        """Remove a reference, wherever it leads."""
        self._run("update-ref", "-d", name)

    def export(self, commit: str, folder: Path) -> None:
        """Write the files of a commit into an empty folder, as plain files: no `.git`, no links, no filters."""
        own = folder.with_name(f"{folder.name}{BESIDE}")
        shutil.rmtree(own, ignore_errors=True)
        try:
            environment = self._plain_environment(own, commit, links=False)
            self._run("read-tree", object_id(commit), environment=environment)
            written = {**environment, "GIT_WORK_TREE": str(folder)}
            self._run("checkout-index", "--all", "--quiet", f"--prefix={folder}/", environment=written)
        finally:
            shutil.rmtree(own, ignore_errors=True)

    def differing(self, commit: str, kept: Path) -> list[str]:
        """Paths of the workspace that differ from a commit, are new or are gone; ignored ones are left out.

        `kept` is a folder of ours whose index remembers unchanged files, so that they are not read each time.
        """
        environment = self._plain_environment(kept, commit, links=True)
        environment["GIT_WORK_TREE"] = str(self.folder)
        hidden = read_existing(self._git_dir, "info/exclude", 1 << 20)  # what the owner's own git leaves out
        (kept / "info" / "exclude").write_bytes(hidden or b"")
        read = kept / "read"  # the commit that the index was read from last
        if not read.exists() or read.read_text() != commit or not (kept / "index").exists():
            read.unlink(missing_ok=True)
            self._run("read-tree", "--reset", object_id(commit), environment=environment)
            self._git("update-index", "-q", "--refresh", environment=environment)  # it fails when anything differs
            read.write_text(commit)
        listed = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard")
        found = self._run(*listed, environment=environment).decode("utf-8", "surrogateescape").split("\0")
        return sorted({path for path in found if path and not path.endswith("/")})  # the rest are nested repositories

    def checked_out(self) -> str:
        """The branch that the workspace has checked out; empty if HEAD is detached."""
        code, out, _ = self._git("symbolic-ref", "--quiet", "HEAD")
        return "" if code else out.decode("utf-8", "replace").strip()

    def refresh_index(self, commit: str) -> None:
        """Let the owner's own git see the workspace as it is: nothing staged, compared with this commit."""
        index = {"GIT_INDEX_FILE": str(self._git_dir / "index")}
        self._run("read-tree", "--reset", object_id(commit), environment=index)

    def _plain_environment(self, own: Path, like: str, *, links: bool) -> dict[str, str]:
        """A repository of our own over the same objects, in which no file is converted on its way in or out.

        Attributes of the commit would choose filters and line ends; those of `info/attributes` come first.
        """
        for part in ("", "refs", "info"):
            (own / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "config").write_text(f"[core]\n\tsymlinks = {str(links).lower()}\n{_object_format(like)}")
        (own / "info" / "attributes").write_text("* -text -filter -ident -working-tree-encoding -eol\n")
        return {
            "GIT_DIR": str(own),
            "GIT_INDEX_FILE": str(own / "index"),
            "GIT_WORK_TREE": str(own / "refs"),
            "GIT_OBJECT_DIRECTORY": str(self._objects),
        }

    # git

    def _run(self, *args: str, given: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        code, out, said = self._git(*args, given=given, environment=environment)
        if code:
            words = [word for word in args if not word.startswith("-") and "=" not in word]
            raise failed(words[0] if words else args[0], code, said)
        return out

    def _known(self, *args: str) -> bytes:
        """The same for a question about objects that it names by their ids: asked once, the answer stays true."""
        return _ANSWERS.of((*self._where(), *args), lambda: self._run(*args))

    def _where(self) -> tuple[str, str]:
        return str(self._git_dir), str(self._objects)

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


def _object_format(like: str) -> str:
    version = "\trepositoryformatversion = "
    return f"{version}1\n[extensions]\n\tobjectformat = sha256\n" if len(like) == 64 else f"{version}0\n"
