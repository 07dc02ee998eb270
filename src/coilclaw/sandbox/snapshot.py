"""Snapshots of the workspace: cheap copies by git plumbing, in a store of their own in the home.

The workspace's own repository is not touched. What its .gitignore leaves out, and repositories nested in it, are not
part of a snapshot. Attributes are switched off, so bytes come back as they were.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.sandbox.git import run_git

SECONDS = 20.0
_HEAD = "refs/snapshots/last"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of the workspace."""

    id: str
    time: str
    note: str


class Snapshots:
    """The moments of one workspace, newest first."""

    def __init__(self, workspace: Path, store: Path) -> None:
        self._workspace = workspace
        self._store = store

    def _git(self, *args: str, stdin: bytes = b"") -> str:
        places = (f"--git-dir={self._store}", f"--work-tree={self._workspace}")
        return run_git(self._workspace, *places, *args, seconds=SECONDS, stdin=stdin)

    def _make(self) -> None:
        if (self._store / "HEAD").exists():
            return
        self._store.mkdir(parents=True, exist_ok=True, mode=0o700)
        run_git(self._store, "init", "--quiet", "--bare", str(self._store), seconds=SECONDS)
        (self._store / "info").mkdir(exist_ok=True)
        (self._store / "info" / "attributes").write_text("* -text -filter -ident -working-tree-encoding -merge\n")

    def take(self, note: str) -> str:
        """Keep the workspace as it is now; the same state is kept once. Returns the snapshot's id."""
        self._make()
        self._git("add", "--all", "--", ".")
        tree = self._git("write-tree").strip()
        last = self._last()
        if last and self._git("rev-parse", f"{last}^{{tree}}").strip() == tree:
            return last[:12]
        parents = ("-p", last) if last else ()
        commit = self._git("commit-tree", tree, *parents, "-m", note[:200]).strip()
        self._git("update-ref", _HEAD, commit)
        return commit[:12]

    def _last(self) -> str:
        try:
            return self._git("rev-parse", "--verify", "--quiet", _HEAD).strip()
        except ToolError:
            return ""

    def recent(self, limit: int = 20) -> list[Snapshot]:
        """Snapshots, newest first."""
        if not (self._store / "HEAD").exists() or not self._last():
            return []
        text = self._git("log", f"--max-count={limit}", "--format=%h%x1f%cI%x1f%s", "--abbrev=12", _HEAD)
        rows = [line.split("\x1f") for line in text.splitlines()]
        return [Snapshot(id=row[0], time=row[1], note=row[2]) for row in rows]

    def _find(self, snapshot_id: str) -> str:
        last = self._last() if (self._store / "HEAD").exists() else ""
        if not last:
            raise UsageError("there is no snapshot yet.", remedy="One is made before a turn's first writing command.")
        if not snapshot_id:
            return last
        if not snapshot_id.isalnum() or len(snapshot_id) < 4:
            raise UsageError(f"{snapshot_id!r} is no snapshot id.", remedy="See `coilclaw undo --list`.")
        known = self._git("rev-list", _HEAD).split()
        found = next((commit for commit in known if commit.startswith(snapshot_id)), None)
        if found is None:
            raise UsageError(f"there is no snapshot {snapshot_id}.", remedy="See `coilclaw undo --list`.")
        return found

    def changes(self, snapshot_id: str, may_restore: Callable[[str], bool]) -> list[str]:
        """The paths that are gone or different now and would be brought back."""
        commit = self._find(snapshot_id)
        self._git("read-tree", commit)
        with suppress(ToolError):  # it says 1 when something differs, which is what is asked next
            self._git("update-index", "-q", "--refresh")
        changed = self._git("diff-files", "-z", "--name-only").split("\0")
        return [path for path in changed if path and may_restore(path)]

    def restore(self, snapshot_id: str, may_restore: Callable[[str], bool]) -> list[str]:
        """Bring back what is gone or different since; what was made since stays. Returns the paths brought back."""
        commit = self._find(snapshot_id)
        self.take("before an undo")
        paths = self.changes(commit, may_restore)
        if paths:
            self._git("checkout-index", "--force", "-z", "--stdin", stdin="\0".join(paths).encode() + b"\0")
        return paths
