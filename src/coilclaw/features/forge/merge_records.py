"""What the ledger recorded of merges and actions, and what a commit on main says otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coilclaw.ledger.audit import PAGE, Wanted, events_after
from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.sandbox.clones import BranchCommit

if TYPE_CHECKING:
    from coilclaw.store.tx import Tx

CLAIMS = ("Pull-Request", "Job", "Approved-By")
"""Trailers by which a commit says that the gate merged it."""
BY_MODE = "merge mode"
"""What `Approved-By` begins with where the owner's merge mode answered."""
_ENDS = ("tool_completed", "tool_denied", "tool_failed", "tool_unknown")
KINDS = ("tool_requested", "tool_approved", "pr_merged", "github_accepted", *_ENDS)
"""The audit events that are needed."""
Stated = Mapping[str, Sequence[str]]


class MergeRecords:
    """The events of the ledger that speak of merges: those that main holds, and those of the home if it is there."""

    def __init__(self, *, complete: bool = False) -> None:
        self.complete = complete
        """Whether they are all there are, so that a merge which they do not name was never recorded."""
        self.until = ""
        """The last day that they are known of."""
        self.merges: dict[str, JsonObject] = {}
        """By commit."""
        self._accepted: set[str] = set()
        self._tools: dict[str, str] = {}
        self._approved: dict[str, str] = {}
        self._ends: dict[str, set[str]] = {}
        self._merged_by: dict[str, str] = {}

    def take(self, kind: str, entity: str, payload: Json) -> None:
        """Take in one event; they come in their order."""
        if kind not in KINDS:
            return
        about = as_object(payload)
        if kind == "tool_requested":
            self._tools[entity] = str(about.get("tool"))
        elif kind == "tool_approved":
            self._approved[entity] = str(about.get("by"))
        elif kind == "github_accepted":
            self._accepted.add(entity)
        elif kind == "pr_merged" and about.get("session_id") is None:
            commit = str(about.get("commit"))
            self.merges[commit] = about
            self._merged_by[str(about.get("action"))] = commit
        elif kind in _ENDS:
            self._ends.setdefault(entity, set()).add(kind)

    def gone(self, reachable: set[str]) -> Iterator[str]:
        """Recorded merges that main no longer holds."""
        for commit, about in self.merges.items():
            if commit not in reachable and "action" in about:  # earlier versions did not tell other repositories apart
                yield commit

    def faults(self, commit: BranchCommit, stated: Stated, *, must: bool) -> Iterator[str]:
        """What a commit says that the ledger does not. `must` tells that the ledger had the time to record it."""
        claims = any(name in stated for name in CLAIMS)
        known = self.merges.get(commit.sha)
        if known is not None:
            yield from _differing(commit, stated, known)
        elif claims and must and commit.sha not in self._accepted:
            yield "it says that the gate merged it, but the ledger records no such merge"
        for action in stated.get("Action", ()):
            name = action[:80]
            tool = self._tools.get(action)
            if tool is None:
                if must:
                    yield f"it names {name}, which is no action of the ledger"
            elif claims:
                yield from self._action_faults(commit.sha, name, tool, stated.get("Approved-By", ()))

    def _action_faults(self, sha: str, action: str, tool: str, by: Sequence[str]) -> Iterator[str]:
        merged = self._merged_by.get(action, sha)
        if tool != "pr_merge":
            yield f"it names {action}, which is a call of {tool} and not a merge"
        elif merged != sha:
            yield f"it names {action}, which merged {merged[:12]} instead"
        elif (ends := self._ends.get(action)) and not ends & {"tool_completed", "tool_unknown"}:
            yield f"it names {action}, which was denied or failed"
        approved = self._approved.get(action)
        if approved is None and not all(word.startswith(BY_MODE) for word in by):
            yield f"it says that {action} was approved, but the ledger records no approval"
        elif approved is not None and list(by) != [approved]:
            yield f"it names another approval of {action} than the ledger, which says {approved[:80]}"


def _differing(commit: BranchCommit, stated: Stated, known: JsonObject) -> Iterator[str]:
    number, head, action = known.get("number"), known.get("head"), known.get("action")
    if "Pull-Request" in stated and list(stated["Pull-Request"]) != [str(number)]:
        yield f"it names another pull request than the ledger, which says #{number}"
    if commit.parents[1:] != (head,):
        yield f"it merges another head than the ledger recorded, {str(head)[:12]}"
    # The owner's own merges on GitHub name no action; which commit they are, the ledger says.
    if action is not None and list(stated.get("Action", ())) != [action] and any(name in stated for name in CLAIMS):
        yield f"it names another action than the ledger, which says {action}"


def home_records(db: "Tx") -> MergeRecords:
    """The records of a home. With the days on main they are complete: what was pruned stands there."""
    records = MergeRecords(complete=True)
    for kind in KINDS:
        seq = 0
        while found := events_after(db, Wanted(event_type=kind), seq, PAGE):
            for event in found:
                records.take(event.event_type, event.entity_id, event.payload)
            seq = found[-1].seq
    return records
