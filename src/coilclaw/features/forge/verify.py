"""A clone checked by itself, without the home: every change and job on main, the audit, and the signed heads.

Everything in it may be anybody's work. Nothing of it is run or obeyed; what cannot be read is a finding.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from coilclaw.features.forge.deployment import TAKES_BACK
from coilclaw.features.forge.merge_records import CLAIMS, MergeRecords
from coilclaw.features.forge.paths import events_path, evidence_path, highest, is_runtime_file
from coilclaw.features.forge.record_formats import (
    FILE_BYTES,
    frontmatter,
    listed_files,
    read_entry,
    read_lines,
    read_object,
    trailers,
)
from coilclaw.features.jobs.evidence import holds
from coilclaw.ledger.anchors import HEADS, anchored, size_limit
from coilclaw.ledger.audit_days import day_of
from coilclaw.packets.canonical import JsonObject, NotCanonical, sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import COPIED, LEDGER, MAIN, FileChange
from coilclaw.packets.ids import stamp
from coilclaw.packets.receipt import Head
from coilclaw.packets.text import one_line
from coilclaw.sandbox.bot_repository import TreeEntry
from coilclaw.sandbox.clones import BranchCommit, Clone, borrows, files_of, message_of, opened_clone
from coilclaw.sandbox.fast_import import name_fault

CloneKind: TypeAlias = Literal[
    "damaged", "missing", "edited", "dropped", "disagrees", "unexplained", "reordered", "forged", "forked", "rewritten",
    "unsigned", "name",
]  # fmt: skip
MOST_FINDINGS = 200
GRACE_SECONDS = 2 * 86400
"""Heads follow daily: a commit that main has left behind for longer must be covered by one."""
_JOB = re.compile(r"job_[0-9A-Za-z_-]{1,80}")
_HEAD = re.compile(r"(\d{1,15}):([0-9a-f]{64})")
_HASH = re.compile(r"[0-9a-f]{64}")
_REDACTED = b"[redacted:"


class CloneFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that does not hold."""

    kind: CloneKind
    commit: str
    """Where it was found; empty when it is about no single commit."""
    path: str
    words: str


class CloneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a clone shows by itself."""

    valid: bool
    commits: int
    jobs: int
    heads: int
    days: int
    events: int
    keys: tuple[str, ...]
    """The keys that signed its heads: compare them with the one that you know to be the bot's."""
    findings: tuple[CloneFinding, ...]
    more: int
    """How many further findings there are."""
    notes: tuple[str, ...]


class _Event(NamedTuple):
    name: str
    kind: str
    time: str
    path: str


_Stated: TypeAlias = tuple[BranchCommit, dict[str, list[str]]]
"""A commit and its trailers."""


def verify_clone(folder: Path, records: MergeRecords | None = None) -> CloneReport:
    """Check a clone, bare or not, also against the records of a home if they are given.

    Blocking, and as long as its history; a folder that is none is a UsageError.
    """
    check = _Check(records or MergeRecords())
    with opened_clone(folder, ("main", "ledger")) as clone:
        check.part("", "", lambda: check.objects(clone))
        check.part("", HEADS, lambda: check.ledger(clone))
        tips: list[str] = []
        check.part("", "main", lambda: tips.append(clone.tip(MAIN)))
        if tips and tips[0]:
            check.part(tips[0], "audit", lambda: check.audit(clone, tips[0]))
            check.part(tips[0], "", lambda: check.main(clone, tips[0]))
        elif tips:
            check.add("missing", "", "main", "there is no branch main")
        check.signed()
    if borrows(folder):
        check.notes.append("some of its objects are in another repository; clone it with --no-local to have them all")
    return check.report()


def _is_pull(message: str, head: str) -> bool:
    return any(map(trailers(message).get, CLAIMS)) or "Job" in trailers(head)


class _Check:
    """One check of one clone."""

    def __init__(self, records: MergeRecords) -> None:
        self.notes: list[str] = []
        self._records = records
        self._found: list[CloneFinding] = []
        self._more = 0
        self._commits = self._jobs = self._days = self._events = 0
        self._heads: dict[int, Head] = {}
        self._keys: tuple[str, ...] = ()
        self._between = 0
        self._silent = 0
        self._unsigned: list[tuple[str, int, int]] = []
        """Commits whose Ledger-Head is beyond the last signed head, with its size and their time."""

    def add(self, kind: CloneKind, commit: str, path: str, words: str) -> None:
        """Record a finding."""
        found = CloneFinding(kind=kind, commit=commit, path=one_line(path)[:300], words=one_line(words)[:300])
        if len(self._found) < MOST_FINDINGS:
            self._found.append(found)
        else:
            self._more += 1

    def part(self, commit: str, path: str, work: Callable[[], None]) -> None:
        """Do a part of the check; what keeps it from being done is a finding."""
        try:
            work()
        except (ToolError, NotCanonical, ValueError, StopIteration, KeyError, IndexError) as error:
            said = error.message if isinstance(error, ToolError) else f"it cannot be read ({error})"
            self.add("damaged", commit, path, said.rstrip("."))

    def report(self) -> CloneReport:
        """All of it."""
        if self._between:
            self.notes.append(
                f"{self._between} Ledger-Head trailers are between two signed heads: no signature names them"
            )
        if self._silent:
            self.notes.append(f"{self._silent} commits on main carry no trailer: they were made by hand")
        return CloneReport(
            valid=not self._found,
            commits=self._commits,
            jobs=self._jobs,
            heads=len(self._heads),
            days=self._days,
            events=self._events,
            keys=self._keys,
            findings=tuple(self._found),
            more=self._more,
            notes=tuple(self.notes),
        )

    # Objects and heads

    def objects(self, clone: Clone) -> None:
        """Every object must be sound, and hold no name that git would take for its own."""
        for line in clone.faults():
            self.add("damaged", "", "", f"git fsck: {line}")

    def ledger(self, clone: Clone) -> None:
        """The heads must be signed, in order, and continue each other."""
        tip = clone.tip(LEDGER)
        if not tip:
            return
        found = anchored(files_of(clone, tip, size_limit))
        self._keys = found.keys
        self._heads = {head.size: head for head in found.heads}
        for fault in found.faults:
            self.add(fault.kind, tip, HEADS, fault.detail)

    def signed(self) -> None:
        """Without heads nothing is signed: right for a new bot, and for none that claims to have done something."""
        if self._heads:
            return
        if self._jobs or self._days or self._unsigned:
            self.add("missing", "", HEADS, "there is no signed head on a branch ledger, so nothing is signed")
        else:
            self.notes.append("nothing is signed yet: the bot has not done anything that main would show")

    # Main

    def main(self, clone: Clone, tip: str) -> None:
        """Every commit on main, parents first."""
        for path, mode in clone.modes(tip).items():
            fault = name_fault(path)
            if fault:
                self.add("name", tip, path, fault)
            elif mode not in ("100644", "100755") and path.partition("/")[0] in ("audit", "jobs"):
                self.add("name", tip, path, f"it has the mode {mode}, which is not that of a regular file")
        newest = 0
        commits: list[_Stated] = []
        reachable = clone.reachable(tip)
        signed = [head.main for head in self._heads.values()]
        for commit in self._own(clone, tip, clone.history(tip, (*signed, *self._records.merges), _is_pull)):
            self._commits += 1
            newest = commit.time
            self.part(commit.sha, "", lambda commit=commit: self._commit(clone, commit))
            commits.append((commit, trailers(commit.message)))
        self.part(tip, "", lambda: self._recorded(clone, commits, reachable))
        self.part(tip, "", lambda: self._trees(clone, commits))
        last, late = max(self._heads, default=0), 0
        for sha, size, time in self._unsigned:
            if time < newest - GRACE_SECONDS:
                self.add("dropped", sha, HEADS, f"the chain was at receipt {size}, but signed heads end at {last}")
            else:
                late += 1
        if late:
            self.notes.append(f"{late} Ledger-Head trailers are newer than the last signed head")

    def _own(self, clone: Clone, tip: str, history: Iterable[BranchCommit]) -> list[BranchCommit]:
        """The commits since the bot was made of a copy: what came before is another bot's, with another ledger."""
        everything = {commit.sha: commit for commit in history}
        line = list[BranchCommit]()  # a bot begins on it: all of main was one line then
        while tip in everything:
            line.append(everything[tip])
            tip = next(iter(line[-1].parents), "")
        line.reverse()
        claims = [
            place
            for place, commit in enumerate(line)
            if commit.parents and trailers(commit.message).get(COPIED) == [commit.parents[0]]
        ]
        heads = self._heads.values()
        oldest, mains = min((head.time for head in heads), default="9"), {head.main for head in heads}

        def is_late(place: int) -> bool:
            return bool(mains) and not mains.isdisjoint(clone.reachable(line[place].parents[0]))

        late = bisect_left(claims, True, key=is_late)  # what is before a claim is before all later ones
        begins = 0
        for number, place in enumerate(claims):
            commit = line[place]
            begun = stamp(datetime.fromtimestamp(commit.time, UTC))
            if number >= late or oldest < begun:
                self.add("rewritten", commit.sha, HEADS, "it says that the bot begins here, but heads are older")
            else:
                begins = place + 1
        if not begins:
            return [*everything.values()]
        first = line[begins - 1]
        self.notes.append(
            f"this bot was made of a copy: the {begins - 1} commits up to {first.parents[0][:12]} are another bot's;"
            " verify them in a clone of that one"
        )
        others = clone.reachable(first.sha)
        return [commit for commit in everything.values() if commit.sha not in others]

    def _commit(self, clone: Clone, commit: BranchCommit) -> None:
        stated = trailers(commit.message)
        if not stated and commit.parents:
            self._silent += 1
            if highest(change.path for change in commit.changes) == "R3":
                self.notes.append(f"the commit {commit.sha[:12]}, made by hand, changes what governs the agent")
        joined = () if any(map(stated.get, CLAIMS)) else commit.beside  # what claims to be a merge must be just that
        for change in (*commit.changes, *joined):
            if change.path.startswith(("audit/", "jobs/")) and change.old_blob:
                self.part(commit.sha, change.path, lambda change=change: self._kept(clone, commit.sha, change))
        self._ledger_heads(commit.sha, commit.time, stated)
        jobs = stated.get("Job") or trailers(commit.head).get("Job", [])  # the owner's merges on GitHub say nothing
        for job_id in jobs:
            if len(jobs) > 1 or not _JOB.fullmatch(job_id):
                self.add("damaged", commit.sha, "", f"the trailer Job is not the id of one job: {job_id[:80]}")
                return
            self._jobs += 1
            self.part(commit.sha, "", lambda job_id=job_id: self._job(clone, commit, job_id, stated))

    def _kept(self, clone: Clone, sha: str, change: FileChange) -> None:
        """What the runtime recorded may grow; it is never taken back, and changes only where a secret was taken out."""
        if not change.new_blob:
            self.add("dropped", sha, change.path, "a record was removed")
            return
        if not change.path.endswith(".jsonl"):
            return
        if max(clone.sizes((change.old_blob, change.new_blob))) > FILE_BYTES:
            self.add("damaged", sha, change.path, "it is too large to be read")
            return
        old, new = (clone.blobs([blob])[blob].splitlines() for blob in (change.old_blob, change.new_blob))
        kept = set(new)
        lost = [line for line in old if line not in kept]
        redacted = sum(_REDACTED in line for line in kept.difference(old))
        if len(new) < len(old):
            self.add("dropped", sha, change.path, f"{len(old) - len(new)} lines were removed")
        elif len(lost) > redacted:
            self.add("edited", sha, change.path, f"{len(lost)} lines were changed")

    def _ledger_heads(self, sha: str, time: int, stated: Mapping[str, list[str]]) -> None:
        for word in stated.get("Ledger-Head", []):
            match = _HEAD.fullmatch(word)
            if match is None:
                self.add("damaged", sha, "", f"the trailer Ledger-Head is not a size and a hash: {word[:80]}")
                continue
            size, last = int(match[1]), max(self._heads, default=0)
            if size in self._heads:
                if self._heads[size].hash != match[2]:
                    self.add("disagrees", sha, HEADS, f"the signed head at receipt {size} has another hash")
            elif size > last:
                self._unsigned.append((sha, size, time))
            elif size >= min(self._heads, default=0):
                self._between += 1

    # Merges

    def _recorded(self, clone: Clone, commits: list[_Stated], reachable: set[str]) -> None:
        """What the ledger recorded and signed must all be there, and what says that it was merged be recorded."""
        for sha in self._records.gone(reachable):
            self.add("rewritten", sha, "main", "the ledger recorded this merge, but main does not hold it any more")
        signed = ""
        for head in self._heads.values():
            if head.main in reachable:
                signed = head.main
            elif head.main:
                words = f"main was there when the head at receipt {head.size} was signed, and does not hold it any more"
                self.add("rewritten", head.main, "main", words)
        covered = clone.reachable(signed) if signed else set[str]()
        if signed and not self._records.complete:
            self._uncovered([commit for commit, _ in commits if commit.sha not in covered])
        recorded = [place for place, (commit, _) in enumerate(commits) if commit.sha in self._records.merges]
        for place, (commit, stated) in enumerate(commits):
            day = stamp(datetime.fromtimestamp(commit.time, UTC))[:10]
            must = self._records.complete or place < max(recorded, default=0) or day < self._records.until
            for words in self._records.faults(commit, stated, must=must):
                self.add("unexplained", commit.sha, "", words)
            if signed and not self._records.complete and commit.sha not in covered and any(map(stated.get, CLAIMS)):
                words = "no signed head covers this merge; if it is a minute old, fetch again"
                self.add("unsigned", commit.sha, "", words)
        if self._heads and not signed:
            self.notes.append("no signed head names a commit of main: they are of an earlier version")

    def _uncovered(self, commits: list[BranchCommit]) -> None:
        """Whatever these say of themselves, anybody who can write to the repository could have made them."""
        if commits:
            named = f"{len(commits)} from {commits[0].sha[:12]} on" if len(commits) > 1 else commits[0].sha[:12]
            self.notes.append(f"no signed head covers the newest commits yet, so nothing proves who made them: {named}")
        for commit in commits:
            if highest(change.path for change in commit.changes) == "R3":
                self.notes.append(f"{commit.sha[:12]}, which no signed head covers, changes what governs the agent")

    def _trees(self, clone: Clone, commits: list[_Stated]) -> None:
        """A merge must hold what merging its parents gives, and nothing else; what takes one back only what was."""
        named = {*CLAIMS, TAKES_BACK}
        claimed = [each for each in commits if named & {*each[1]} or each[0].sha in self._records.merges]
        joined = [commit for commit, _ in claimed if len(commit.parents) == 2]
        trees = clone.merge_trees([(commit.parents[0], commit.parents[1]) for commit in joined])
        for commit, tree in zip(joined, trees, strict=True):
            if tree != commit.tree:
                self.add("unexplained", commit.sha, "", "its files are not what merging its parents gives")
        merges = {commit.sha: {each.path: each.old_blob for each in commit.changes} for commit, _ in commits}
        for commit, stated in claimed:
            for merge in stated.get(TAKES_BACK, []):
                own = commit.parents[1] if len(commit.parents) == 2 else commit.sha
                before = merges.get(merge)
                changes = clone.changes(merge, own) if before is not None else ()
                if before is None or any(before.get(each.path) != each.new_blob for each in changes):
                    self.add("unexplained", commit.sha, "", "it does not only take back the merge that it names")

    # A job

    def _job(self, clone: Clone, commit: BranchCommit, job_id: str, stated: Mapping[str, list[str]]) -> None:
        sha = commit.sha
        head = commit.parents[1] if len(commit.parents) > 1 else sha
        raw = clone.blobs([head])[head]
        if head != sha:
            own = trailers(message_of(raw))
            self._ledger_heads(sha, commit.time, own)
            stated = {**own, **stated}
        base = raw.partition(b"\n\n")[0].partition(b"\nparent ")[2][: len(head)].decode()
        for name in ("Evidence", "Policy-Hash"):
            if [bool(_HASH.fullmatch(word)) for word in stated.get(name, [])] != [True]:
                self.add("missing", sha, "", f"the merge of {job_id} has no trailer {name}")
        entries = clone.entries(sha)
        self._job_file(clone, sha, job_id, entries)
        self._trail(clone, sha, entries.get(events_path(job_id)), events_path(job_id))
        evidence = self._evidence(clone, sha, job_id, entries, stated.get("Evidence", [""])[0])
        if evidence is not None:
            self._files(clone, sha, job_id, evidence, base, head)

    def _job_file(self, clone: Clone, sha: str, job_id: str, entries: Mapping[str, TreeEntry]) -> None:
        own = (events_path(job_id), evidence_path(job_id))
        paths = [path for path in entries if path not in own and is_runtime_file(path, job_id)]
        if len(paths) != 1:
            self.add("missing", sha, f"jobs/…/{job_id}.md", f"there are {len(paths)} files of that name, not one")
            return
        about = frontmatter(read_entry(clone, entries[paths[0]]))
        if about.get("job_id") != job_id:
            self.add("disagrees", sha, paths[0], "it is the file of another job, or of none")
        evidence, there = about.get("evidence"), entries.get(evidence_path(job_id))
        named = evidence.get("manifest_hash") if isinstance(evidence, Mapping) else None
        if there is not None and read_object(read_entry(clone, there)).get("manifest_hash") != named:
            self.add("disagrees", sha, paths[0], "it names other evidence than there is")

    def _trail(self, clone: Clone, sha: str, entry: TreeEntry | None, path: str) -> dict[int, _Event]:
        if entry is None:
            self.add("missing", sha, path, "the audit trail of the job is missing")
            return {}
        found: dict[int, _Event] = {}
        for event in read_lines(read_entry(clone, entry)):
            number = event.get("seq")
            if not isinstance(number, int) or number <= max(found, default=0):
                self.add("reordered", sha, path, "its events are not in their order")
                break
            name, kind, time = (str(event.get(field)) for field in ("id", "type", "time"))
            found[number] = _Event(name, kind, time, path)
        return found

    def _evidence(
        self, clone: Clone, sha: str, job_id: str, entries: Mapping[str, TreeEntry], stated: str
    ) -> JsonObject | None:
        path = evidence_path(job_id)
        if path not in entries:
            self.add("missing", sha, path, "the evidence of the job is missing")
            return None
        fields = read_object(read_entry(clone, entries[path]))
        if not holds(fields):
            self.add("edited", sha, path, "the evidence does not match its own hash")
        elif fields.get("job_id") != job_id:
            self.add("disagrees", sha, path, "it is the evidence of another job")
        elif stated and fields.get("manifest_hash") != stated:
            self.add("disagrees", sha, path, "the trailer Evidence names another hash")
        return fields

    def _files(self, clone: Clone, sha: str, job_id: str, evidence: JsonObject, base: str, head: str) -> None:
        """The files of a job must be what its evidence says, and no others."""
        listed = listed_files(evidence)
        entries = clone.entries(head)
        for path, wanted in listed.items():
            entry = entries.get(path)
            real = None if entry is None else sha256_hex(read_entry(clone, entry))
            if real != wanted:
                self.add("disagrees", sha, path, f"it is not the file that the evidence of {job_id} names")
        if evidence.get("files_left_out") is True:
            return
        for change in clone.changes(base, head) if base else ():
            if change.path not in listed and not is_runtime_file(change.path, job_id):
                self.add("unexplained", sha, change.path, f"{job_id} changed it, but its evidence does not name it")

    # The audit

    def audit(self, clone: Clone, tip: str) -> None:
        """Day files must be in order and without a hole, and say of jobs what the jobs' own trails say."""
        entries = clone.entries(tip)
        trails: dict[int, _Event] = {}
        for path, entry in entries.items():
            if path.startswith("audit/jobs/"):
                self.part(tip, path, lambda path=path, entry=entry: trails.update(self._trail(clone, tip, entry, path)))
            elif path.startswith("audit/evidence/"):
                self.part(tip, path, lambda path=path, entry=entry: self._at_rest(clone, tip, path, entry))
        numbers: list[int] = []
        for path in sorted(path for path in entries if day_of(path)):
            self._days += 1
            self._records.until = day_of(path)
            self.part(tip, path, lambda path=path: self._day(clone, tip, path, entries[path], trails, numbers))
        self._events = len(numbers)
        numbers.sort()
        for one, other in pairwise(numbers):
            if one == other:
                self.add("forked", tip, "audit", f"event {one} stands in two places")
            elif other != one + 1:
                self.add("dropped", tip, "audit", f"events {one + 1} to {other - 1} are missing")

    def _at_rest(self, clone: Clone, tip: str, path: str, entry: TreeEntry) -> None:
        if not holds(read_object(read_entry(clone, entry))):
            self.add("edited", tip, path, "the evidence does not match its own hash")

    def _day(
        self, clone: Clone, tip: str, path: str, entry: TreeEntry, trails: Mapping[int, _Event], numbers: list[int]
    ) -> None:
        last = 0
        for event in read_lines(read_entry(clone, entry)):
            number, time = event.get("seq"), str(event.get("created_at"))
            if not isinstance(number, int) or number <= last:
                self.add("reordered", tip, path, f"event {number} does not follow event {last}")
                return
            last = number
            numbers.append(number)
            self._records.take(str(event.get("event_type")), str(event.get("entity_id")), event.get("payload"))
            if time[:10] < day_of(path):
                self.add("disagrees", tip, path, f"event {number} is of an earlier day")
            told = trails.get(number)
            if told is not None and told[:3] != (event.get("entry_id"), event.get("event_type"), time):
                self.add("disagrees", tip, path, f"{told.path} says something else of event {number}")
