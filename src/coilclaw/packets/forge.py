"""Pull requests: a change of the bot's repository that waits, was merged or was closed."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.action import Label
from coilclaw.packets.decision import Risk

MergeMode: TypeAlias = Literal["strict", "whitelist", "yolo"]
PullState: TypeAlias = Literal["OPEN", "MERGED", "CLOSED"]
ChangeKind: TypeAlias = Literal["added", "changed", "removed"]

MAIN = "refs/heads/main"
LEDGER = "refs/heads/ledger"
COPIED = "Copied-From"
"""The trailer of the commit with which a new bot goes on from a copy; what came before is another bot's."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One required check of a pull request, run on what the merge would give."""

    name: str
    """`coilclaw/paths` and the like, or the name the owner gave it."""
    passed: bool
    summary: str
    """One line: what was found."""
    details: tuple[str, ...] = ()
    """What is wrong, a line each; bounded."""
    seconds: float = 0.0


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """One file that a pull request touches."""

    path: str
    kind: ChangeKind
    old_blob: str
    """Empty for an added file."""
    new_blob: str
    """Empty for a removed file."""
    old_mode: str
    new_mode: str


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request as it is kept and shown."""

    number: int
    repository: str
    """Empty for the bot's own."""
    job_id: str | None
    session_id: str | None
    draft: bool
    branch: str
    base_sha: str
    head_sha: str
    title: str
    body: str
    risk: Risk
    labels: tuple[str, ...]
    """`coilclaw`, `risk:R2`, `intent:…`, `untrusted`, `mode:strict`."""
    taint: tuple[Label, ...]
    """Untrusted sources that the job took in."""
    state: PullState
    merged_sha: str
    action_id: str | None
    """The merge question that is open or was answered last."""
    checks: tuple[Check, ...]
    checked_sha: str
    """The commit on main that the checks were run against; empty before they ran."""
    rounds: int
    """How often the branch was brought up to date because main had moved."""
    wanted: str
    """What the owner asked to be changed; empty when nothing is."""
    dormant: bool
    """It stays open, but nobody is asked: the question expired, or checks do not pass."""
    reason: str
    """Why it was closed, or taken back after it was merged."""
    opened_at: str
    updated_at: str
    deployed_at: str | None
    target: str = ""
    """The branch of the repository that a session's is merged into; empty for the bot's own, which is main."""


class MergeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate must know about a merge to say whether the owner's mode answers it in advance."""

    mode: MergeMode
    allow: tuple[str, ...]
    """Patterns of paths that the whitelist merges."""
    paths: tuple[str, ...]
    """Every path that the merge touches, without what the runtime itself wrote."""
    governs: tuple[str, ...]
    """Of these, what only the owner merges in any mode."""
    risk: Risk
    tainted: bool
    checks_passed: bool
    of_job: bool
    """It is the pull request of a job (or of the runtime), not of a coding session."""
    auto: bool = False
    """For a session's: the owner enabled merging without a question for its repository."""
