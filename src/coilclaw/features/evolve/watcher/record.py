"""The record: the owner's repository of the agent's work, and the one place where its branches and main are moved."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import comms, trees
from .git import AGENT, OWNER, WATCHER, Git, RecordError
from .intake import MORE, REFS, AgentDoor, Side

MAIN = "refs/heads/main"
GOOD = "refs/watcher/good"
BRANCH = re.compile(r"agent/[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,62}")
REF = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_/-]|\.(?!\.)){0,180}(?:[~^][0-9]{0,4}){0,3}")
SHA = re.compile(r"[0-9a-f]{40}")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
RESTORING = "agent/rollback-"
TRIES = 8
COMMITS = 1000
BRANCHES = 2000
TOO_MANY = f"the record has {BRANCHES} branches; the owner can delete those that are merged"
FETCHES = 16
FETCH_SECONDS = 60
"""After that the rest waits: the watcher cannot watch while it takes branches in."""
STALE_LOCK = 60
PACKS, LOOSE = 64, 2000
"""So many packs or loose objects, and the record is packed."""


def is_branch(name: str) -> bool:
    """Whether this is main or a branch the agent may have: `agent/` and one plain name."""
    return name == "main" or bool(BRANCH.fullmatch(name) and not name.endswith((".", ".lock")))


@dataclass(frozen=True)
class TakenIn:
    """A branch of the agent's: where it stands in the record now, or why it was refused."""

    branch: str
    sha: str
    refused: str = ""


class Record:
    """`bot.git` and, beside it, what the agent sees of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state"
        self.git = Git(home / "bot.git", self.state)
        self.door = AgentDoor(home / "remote.git", self.git)
        self.unfinished = False
        """Whether more branches wait than are taken in at once."""

    def init(self, source: Path, uid: int = -1, gid: int = -1) -> str:
        """Make both sides; the files below `source` become main's first commit."""
        if self.git.directory.exists():
            raise RecordError(
                f"{self.git.directory} exists already; use it, or remove it with `coilclaw evolve destroy`"
            )
        for folder in (self.home, self.state, self.home / "desk"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        safe = "".join(f'\tdirectory = "{place}"\n' for place in (self.git.directory, self.door.snapshot))
        (self.state / "gitconfig").write_text(f"[safe]\n{safe}", encoding="utf-8")
        self.git.run("init", "--quiet", "--bare", "--initial-branch=main", "--template=", str(self.git.directory))
        index = {"GIT_INDEX_FILE": str(self.state / "index")}
        # Files above the threshold go into one pack, which is synced once: thousands of objects would be one by one.
        one_pack = ("-c", "core.bigFileThreshold=1")
        self.git.run(*one_pack, f"--work-tree={source}", "add", "--all", "--", str(source), also=index)
        tree = self.git.run("write-tree", also=index).decode().strip()
        (self.state / "index").unlink()
        first = self.git.text("commit-tree", tree, "-m", "Begin", who=OWNER)
        trees.check(self.git, first)
        self.git.run("update-ref", MAIN, first, "")
        self.door.make(uid, gid)
        self.show()
        return first

    # Reading

    def main(self) -> str:
        """The commit main stands at."""
        return self.sha(MAIN) or ""

    def sha(self, ref: str) -> str | None:
        """The commit a full ref name or a commit id names; nothing when there is none."""
        code, out = self.git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        found = out.decode("utf-8", "replace").strip()
        return found if code == 0 and SHA.fullmatch(found) else None

    def resolve(self, name: str) -> str | None:
        """The commit an owner or the agent means by a branch, tag, commit id, or one of these with ~N."""
        if not REF.fullmatch(name) or name.endswith((".", ".lock", "/")) or "//" in name:
            return None
        base, mark = re.match(r"([^~^]*)(.*)", name, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]: it always matches
        places = [base] if re.fullmatch(r"[0-9a-f]{7,40}", base) else []
        places += [base] if base.startswith("refs/") else [f"refs/heads/{base}", f"refs/tags/{base}"]
        return next((found for place in places if (found := self.sha(place + mark))), None)

    def descends(self, young: str, old: str) -> bool:
        """Whether `old` is in the history of `young`."""
        return self.git.ask("merge-base", "--is-ancestor", old, young)[0] == 0

    def fingerprint(self) -> tuple[int, ...]:
        """Changes when the agent pushes or anyone moves main; asking git twice a second would cost too much."""
        found: list[int] = []
        for name in ("remote.git/refs/heads/agent", "bot.git/refs/heads/main", "bot.git/packed-refs"):
            try:
                found.append(os.lstat(f"{self.home}/{name}").st_mtime_ns)
            except OSError:
                found.append(0)
        return tuple(found)

    def comms(self, commit: str = MAIN) -> str:
        """COMMS.md of a commit; empty when it has none, or one too large to read."""
        if not 0 < self._comms_size(commit) <= comms.LARGEST:
            return ""
        code, out = self.git.ask("cat-file", "blob", f"{commit}:{comms.NAME}")
        return out.decode("utf-8", "replace") if code == 0 else ""  # on a branch of the agent's it may be a folder

    def proposes(self, branch: str) -> bool:
        """Whether a branch changes what only the owner changes: the directives or spec/."""
        base, tip = self._base(MAIN, f"refs/heads/{branch}"), f"refs/heads/{branch}"
        before, after = (comms.section(self.comms(commit), comms.DIRECTIVES) for commit in (base, tip))
        return before != after or self._entries(base).get("spec") != self._entries(tip).get("spec")

    def last_good(self) -> str | None:
        """The newest main that reached SUCCESS."""
        return self.sha(GOOD)

    def mark_good(self, commit: str) -> None:
        """Remember a main that reached SUCCESS."""
        self.git.run("update-ref", GOOD, commit)

    # What the agent pushed

    def take_in(self, first: str = "") -> list[TakenIn]:
        """Fetch what changed of the agent's branches, each by itself; `first` is looked at even among very many."""
        taken: list[TakenIn] = []
        fetched, end = 0, time.monotonic() + FETCH_SECONDS
        self.unfinished = False
        with self.door.reading() as side:
            known = self._branches()
            for name, pushed in side.branches(first):
                branch, why = f"agent/{name}", str(pushed)
                if isinstance(pushed, str):
                    old = known.get(branch, "")
                    if not is_branch(branch):
                        why = "the name is not allowed; use letters, digits, dots and dashes"
                    elif pushed == old or self._said(branch, pushed):
                        continue
                    elif not old and len(known) >= BRANCHES:
                        why = TOO_MANY
                    elif fetched >= FETCHES or (fetched and time.monotonic() > end):
                        self.unfinished = True
                        break
                    else:
                        fetched += 1
                        taken.append(self._take(side, branch, pushed, old))
                        continue
                if not self._said(branch, why):
                    taken.append(self._refuse(branch, "", why))
        return taken

    def _branches(self, below: str = "refs/heads/") -> dict[str, str]:
        """Where the agent's branches stand in the record; asking for each of them would cost a process each."""
        words = ("for-each-ref", "--format=%(refname) %(objectname)", f"{below}agent/")
        rows = (row.rpartition(" ") for row in self.git.run(*words).decode().splitlines())
        return {ref.removeprefix(below): tip for ref, _, tip in rows}

    def _take(self, side: Side, branch: str, pushed: str, old: str) -> TakenIn:
        try:
            parents: set[str] = set()
            side.fetch(pushed, lambda quarantined: parents.update(self._check(pushed, quarantined)))
            # History is kept, whatever the agent does to its branch.
            if old and old not in parents and not self.descends(pushed, old):
                self.move(f"refs/kept/{branch}/{old[:12]}", old)
            self.move(f"refs/heads/{branch}", pushed, old)
        except RecordError as error:
            return self._refuse(branch, pushed, str(error))
        return TakenIn(branch, pushed)

    def _said(self, branch: str, why: str) -> bool:
        """Whether this was refused before: the same thing is not fetched and reported again and again."""
        with suppress(OSError):
            return self._refusal(branch).read_text(encoding="utf-8") == why
        return False

    def _refuse(self, branch: str, pushed: str, why: str) -> TakenIn:
        place = self._refusal(branch)
        place.parent.mkdir(exist_ok=True)
        if sum(1 for _ in place.parent.iterdir()) > 2 * REFS:
            for old in place.parent.iterdir():
                old.unlink()
        place.write_text(pushed or why, encoding="utf-8")
        return TakenIn(branch, pushed, why)

    def _refusal(self, branch: str) -> Path:
        return self.state / "refused" / branch.encode("utf-8", "surrogateescape").hex()[-200:]

    def _check(self, commit: str, also: dict[str, str]) -> set[str]:
        """Fsck let it pass; refuse odd trees and commits in another's name. Gives the parents of the new commits."""
        trees.check(self.git, commit, also)
        words = ("log", "-z", f"-n{COMMITS + 1}", "--format=%P%n%an%n%ae%n%cn%n%ce%n%B", commit, "--not", "--all")
        told = self.git.run(*words, also=also).decode("utf-8", "replace")
        rows = [each.split("\n", 5) for each in told.split("\0") if each]
        if len(rows) > COMMITS:
            raise RecordError(f"more than {COMMITS} new commits at once")
        if any(tuple(row[1:5]) != AGENT + AGENT for row in rows):
            raise RecordError(f"a commit is not by {AGENT[0]} <{AGENT[1]}>; commit under that name only")
        if CONTROLS.search("".join(row[5] for row in rows)):
            raise RecordError("a commit's message holds a control character, which would reach the owner's terminal")
        return {parent for row in rows for parent in row[0].split(" ")}

    # What the watcher and the owner write

    def say(self, text: str) -> str:
        """Add a directive of the owner's to main."""
        lines = text.split("\n")
        if any(len(line) > comms.DIRECTIVE_LINE for line in lines):
            raise RecordError(f"a line has more than {comms.DIRECTIVE_LINE} characters; break it into several")
        words = [shown for line in lines if (shown := comms.plain(line, 4 * comms.DIRECTIVE_LINE, links=True))]
        if not words:
            raise RecordError("the directive is empty; say what the agent should do")
        lines = [f"- {words[0]}", *(f"  {line}" for line in words[1:])]
        return self.edit(lambda now: comms.add(now, comms.DIRECTIVES, lines), "Add a directive", OWNER)

    def tell(self, text: str) -> str:
        """Add a line of the watcher's to main, where the owner reads it."""
        line = f"- {stamp()} {comms.plain(text)}"
        return self.edit(
            lambda now: comms.add(now, comms.WATCHED, [line], comms.KEPT_WATCHED), "Add a line of the watcher's"
        )

    def fold(self) -> int:
        """Bring new lines of the agent's Reports into main's; gives how many."""
        before = self._branches("refs/folded/")
        waiting = [(branch, tip) for branch, tip in self._branches().items() if before.get(branch) != tip]
        items: list[str] = []

        def folded(now: str) -> str:
            items.clear()
            for branch, tip in waiting:
                past = before.get(branch) or self.git.ask("merge-base", MAIN, tip)[1].decode().strip()
                items.extend(comms.new_reports(branch, self.comms(tip), self.comms(past) if past else "", now))
            return comms.add(now, comms.REPORTS, items, comms.KEPT_REPORTS) if items else now

        if waiting:
            self.edit(folded, "Bring in reports")
        for branch, tip in waiting:  # after main has them: killed in between, they are found there, not added twice
            self.move(f"refs/folded/{branch}", tip)
        return len(items)

    def edit(self, change: Callable[[str], str], why: str, who: tuple[str, str] = WATCHER) -> str:
        """Change main's COMMS.md by a commit of its own, never over an edit made meanwhile."""
        for _ in range(TRIES):
            main = self.main()
            if self._comms_size(main) > comms.LARGEST:
                raise RecordError(f"{comms.NAME} is larger than {comms.LARGEST} bytes; shorten it on main")
            now = self.comms(main)
            then = change(now)
            if then == now:
                return main
            blob = self.git.text("hash-object", "-w", "--stdin", given=then.encode())
            tree = self._tree(main, {comms.NAME: f"100644 blob {blob}"})
            if self._advance(main, commit := self.git.text("commit-tree", tree, "-p", main, "-m", why, who=who)):
                return commit
        raise RecordError("main keeps changing; try again")

    def merge(self, branch: str, old: str, new: str) -> str:
        """Bring `new`, on a branch, into main, which only moves forward and keeps COMMS.md and spec/; idempotent."""
        if branch == "main" or not is_branch(branch) or not SHA.fullmatch(old) or not SHA.fullmatch(new):
            raise RecordError(f"{branch} cannot be merged: name a branch agent/… and whole commit ids")
        if not self.descends(self.sha(f"refs/heads/{branch}") or "", new):
            raise RecordError(f"{new[:12]} is not on {branch} any more; ask for the merge again")
        trees.check(self.git, new)
        for _ in range(TRIES):
            main = self.main()
            tree = self._tree(new, self._owners(main))
            restores = self.descends(main, new)
            if restores and (
                not branch.startswith(RESTORING) or tree == self.git.text("rev-parse", f"{main}^{{tree}}")
            ):
                return main
            moved = not self.descends(main, old) or self.differs(old, main)
            if moved or (not restores and self.differs(self._base(main, new), main)):
                raise RecordError(f"main has moved on; merge main into {branch}, test it, and ask again")
            commit = self._merged(branch, main, new, tree)
            trees.check(self.git, commit)  # each side is right by itself: SPEC/ of the branch, spec/ of main
            if self._advance(main, commit):
                return commit
        raise RecordError("main keeps changing; try again")

    def roll_back(self, ref: str, name: str = "") -> str:
        """A new branch at a ref of the record; main stays what it is."""
        if (commit := self.resolve(ref)) is None:
            raise RecordError(
                f"the record has no {comms.plain(ref)[:60]!r}; `git log --all` in a clone shows what there is"
            )
        trees.check(self.git, commit)
        branch = name or self.rollback_name()
        if self.sha(f"refs/heads/{branch}") != commit:
            self.move(f"refs/heads/{branch}", commit, "")
        self.move(f"refs/folded/{branch}", commit)
        self.door.show(branch.removeprefix("agent/"), commit)
        return branch

    def rollback_name(self) -> str:
        """The next free name for a rollback."""
        number = 1
        while self.sha(f"refs/heads/{RESTORING}{number}"):
            number += 1
        return f"{RESTORING}{number}"

    def pack(self) -> bool:
        """Put the record's many small packs and objects into one pack, if they are many; nothing is thrown away."""
        objects = self.git.directory / "objects"
        packs = sum(1 for _ in (objects / "pack").glob("*.pack"))
        loose = sum(1 for _ in objects.glob("[0-9a-f][0-9a-f]/*"))
        if packs < PACKS and loose < LOOSE:
            return False
        with self.door.reading():  # nobody takes in meanwhile
            for left in (objects / "pack").glob(".tmp-*"):  # of one that was killed
                left.unlink()
            self.git.run("repack", "-a", "-d", "-k", "--quiet", "--window=10", "--threads=1")
        return True

    def sweep_side(self) -> None:
        """Leave of the agent's refs what can be a branch, and what git can read of its objects.

        Only while no agent runs. An empty ref or one to nothing, a pipe, a lock of a killed git would stop later ones.
        """
        self.door.sweep()
        with self.door.reading() as side:
            found = dict(side.branches())
            good = {name for name, held in found.items() if isinstance(held, str) and is_branch(f"agent/{name}")}
            nowhere = self._nowhere(side, {str(found[name]) for name in good})
            good -= {name for name in good if found[name] in nowhere}
            if MORE in found:  # too many to look at all of them
                good |= {branch.removeprefix("agent/") for branch in self._branches()}
            self.door.keep(good)

    def empty_side(self, uid: int = -1, gid: int = -1) -> bool:
        """Remove the agent's own copies of what the record has, if it has all that the agent's branches need.

        Only while no agent runs. Nothing else ever makes its side smaller.
        """
        with self.door.reading() as side:
            tips = [held for _, held in side.branches()]
            if not all(isinstance(held, str) for held in tips) or self._lacked(map(str, tips)):
                return False
            self.door.empty(uid, gid)
            return True

    def _lacked(self, commits: Iterable[str]) -> set[str]:
        """Those that the record does not have."""
        given = "".join(f"{commit}\n" for commit in commits).encode()
        rows = self.git.run("cat-file", "--batch-check", given=given).decode().splitlines()
        return {row.split(" ")[0] for row in rows if " commit " not in row}

    def _nowhere(self, side: Side, commits: set[str]) -> set[str]:
        """Those that are not whole, with all they need, in the record and the agent's side together."""
        if not (lacked := self._lacked(commits)):
            return set()
        side.copy()
        also = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.door.snapshot / "objects")}
        words = ("rev-list", "--objects", "--quiet", "--not", "--all", "--not")
        if self.git.ask(*words, *lacked, also=also)[0] == 0:  # what they share is walked once
            return set()
        end = time.monotonic() + FETCH_SECONDS  # the rest is looked at before the next start
        return {
            each for each in lacked
            if time.monotonic() < end and self.git.ask(*words, each, also=also)[0] == 128  # as git says it
        }  # fmt: skip

    def show(self) -> None:
        """Show main to the agent's side."""
        self.door.show_main(self.main())

    def check_out(self, commit: str, folder: Path, uid: int = -1, gid: int = -1) -> None:
        """Write a commit's files into a new folder."""
        trees.write(self.git, commit, folder, uid, gid)

    # How refs move

    def move(self, ref: str, new: str, old: str | None = None) -> None:
        """Move a ref; with `old` only from there (empty: it must not exist)."""
        self._clear_locks(ref)
        known = () if old is None else (old or "0" * 40,)
        code, out = self.git.ask("update-ref", "-m", "watcher", ref, new, *known)
        if code != 0:
            raise RecordError(f"{ref} could not be moved: {comms.plain(out.decode('utf-8', 'replace'))[:200]}")

    def _advance(self, old: str, new: str) -> bool:
        """Move main from where it was read; false when somebody else was faster."""
        try:
            self.move(MAIN, new, old)
        except RecordError:
            if self.main() == old:
                time.sleep(0.1)
            return False
        self.show()
        return True

    def _clear_locks(self, ref: str) -> None:
        """Remove a lock that a git killed in the middle left behind."""
        for place in (self.git.directory / f"{ref}.lock", self.git.directory / "packed-refs.lock"):
            with suppress(OSError):
                if abs(time.time() - place.lstat().st_mtime) > STALE_LOCK:
                    place.unlink()

    # Trees

    def _merged(self, branch: str, main: str, new: str, tree: str) -> str:
        ahead = self.descends(new, main)
        if ahead and tree == self.git.text("rev-parse", f"{new}^{{tree}}"):
            return new
        parents = [new] if ahead else [main] if self.descends(main, new) else [main, new]
        words = [word for parent in parents for word in ("-p", parent)]
        return self.git.text("commit-tree", tree, *words, "-m", f"Merge {branch}\n\nCOMMS.md and spec/ are main's.")

    def _owners(self, main: str) -> dict[str, str]:
        """The entries of main that no merge changes; an empty value removes one."""
        kept = {comms.NAME: "", "spec": ""}
        return kept | {name: entry for name, entry in self._entries(main).items() if name in kept}

    def _entries(self, commit: str) -> dict[str, str]:
        rows = self.git.run("ls-tree", "-z", commit).decode().split("\0")
        return {name: facts for facts, _, name in (row.partition("\t") for row in rows if row)}

    def _tree(self, commit: str, changed: dict[str, str]) -> str:
        """The tree of a commit with some of its top entries changed."""
        entries = {name: facts for name, facts in (self._entries(commit) | changed).items() if facts}
        rows = "".join(f"{facts}\t{name}\0" for name, facts in entries.items())
        return self.git.text("mktree", "-z", given=rows.encode())

    def _comms_size(self, commit: str) -> int:
        code, size = self.git.ask("cat-file", "-s", f"{commit}:{comms.NAME}")
        return int(size) if code == 0 else 0

    def _base(self, one: str, other: str) -> str:
        code, out = self.git.ask("merge-base", one, other)
        if code != 0:
            raise RecordError("the branch has nothing in common with main; clone main and work from there")
        return out.decode().strip()

    def differs(self, old: str, new: str) -> bool:
        """Whether anything differs but COMMS.md and spec/, which a merge keeps anyway."""
        return self._tree(old, self._owners(new)) != self._tree(new, {})


def stamp() -> str:
    """The time, as the logs have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
