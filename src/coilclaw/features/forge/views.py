"""Pull requests, the bot and its intel as they are shown, at the terminal and over HTTP. Nothing in them hides."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.features.forge.store import deployed_commit, pulls_before
from coilclaw.packets.decision import Risk
from coilclaw.packets.forge import MAIN, ChangeKind, Check, FileChange, MergeMode, PullRequest, PullState
from coilclaw.packets.ids import stamp
from coilclaw.packets.text import one_line, visible
from coilclaw.sandbox.bot_repository import LoggedCommit, TreeEntry
from coilclaw.store.job_trees import open_trees
from coilclaw.store.yolo import yolo_now

if TYPE_CHECKING:
    from coilclaw.features.forge.forge import LocalForge
    from coilclaw.runtime.runtime import Runtime

Said: TypeAlias = Callable[[str], str]
"""Takes the secrets out of a text."""
Checked: TypeAlias = Literal["passed", "failed", "not run"]
INTEL = "intel/"
SHOWN_BYTES = 256 << 10
"""A longer file or difference is not shown as a whole."""
BINARY = b"Binary files "
"""How git begins the line that stands for a difference of bytes; lines of a text have a mark before them."""


class PullView(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request in a list."""

    number: int
    title: str
    state: PullState
    risk: Risk
    """Of the riskiest path it touches."""
    labels: list[str]
    tainted: bool
    """Its job took in untrusted content."""
    checks: Checked
    job_id: str | None
    """The job that made it; null for one that takes another back, and for those of the runtime."""
    branch: str
    action_id: str | None
    """Its merge question, answered at /v1/approvals; null when nobody is asked now."""
    dormant: bool
    """It is open, but nobody is asked: the question expired, or checks do not pass."""
    reason: str
    """Why it was closed, or taken back after it was merged."""
    opened_at: str
    updated_at: str
    deployed_at: str | None
    """When it was deployed."""


class PullShown(PullView, frozen=True, kw_only=True):
    """Everything about a pull request but its difference."""

    body: str
    base_sha: str
    head_sha: str
    merged_sha: str
    """The commit on main that merged it; empty before."""
    checked_sha: str
    """The commit on main that the checks were run against; empty before they ran."""
    results: list[Check]
    """Of its checks."""
    rounds: int
    """How often its job was woken to resolve conflicts or to fix what checks found."""
    wanted: str
    """What the owner asked to be changed and its job has not taken up yet."""
    mode: MergeMode
    """The merge mode in force."""


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a difference."""

    path: str
    kind: ChangeKind
    old_size: int
    new_size: int
    executable: bool
    """It can be run afterwards."""
    binary: bool
    cut: bool
    """It is too long to be shown here as a whole."""
    patch: str
    """The difference as text, hidden characters by their numbers; empty for binary and long files."""


class BotView(msgspec.Struct, frozen=True, kw_only=True):
    """The bot's repository and how it merges."""

    enabled: bool
    """Jobs end in pull requests."""
    fault: str
    """Why pull requests cannot be made now, with the remedy; empty when they can."""
    mode: MergeMode
    configured: MergeMode
    """What holds when yolo is over."""
    allow: list[str]
    """Paths that the mode whitelist merges."""
    yolo_until: str | None
    main: str
    """The commit that main is at; empty when there is none."""
    deployed: str
    """The commit whose files the workspace holds."""
    trees: int
    """Copies of main that jobs work in."""
    open_pulls: int


class CommitView(msgspec.Struct, frozen=True, kw_only=True):
    """A commit on main, and who allowed it."""

    sha: str
    time: str
    subject: str
    author: str
    allowed_by: str
    """Who approved the merge, the action that changed a file, or `outside` for the owner's own edits."""


class IntelView(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the agent's findings that stands on main."""

    path: str
    size: int


def pull_view(pull: PullRequest, said: Said) -> PullView:
    """A pull request for a list."""
    return PullView(
        number=pull.number,
        title=one_line(said(pull.title)),
        state=pull.state,
        risk=pull.risk,
        labels=[one_line(said(label)) for label in pull.labels],
        tainted=bool(pull.taint),
        checks=checked(pull),
        job_id=pull.job_id,
        branch=one_line(said(pull.branch)),
        action_id=pull.action_id,
        dormant=pull.dormant,
        reason=visible(said(pull.reason)),
        opened_at=pull.opened_at,
        updated_at=pull.updated_at,
        deployed_at=pull.deployed_at,
    )


def pull_shown(pull: PullRequest, mode: MergeMode, said: Said) -> PullShown:
    """A pull request with everything."""
    return PullShown(
        **msgspec.structs.asdict(pull_view(pull, said)),
        body=visible(said(pull.body)),
        base_sha=pull.base_sha,
        head_sha=pull.head_sha,
        merged_sha=pull.merged_sha,
        checked_sha=pull.checked_sha,
        results=[check_view(check, said) for check in pull.checks],
        rounds=pull.rounds,
        wanted=visible(said(pull.wanted)),
        mode=mode,
    )


def check_view(check: Check, said: Said) -> Check:
    """A check without secrets; what it found may be the words of others."""
    return msgspec.structs.replace(
        check,
        name=one_line(said(check.name)),
        summary=one_line(said(check.summary)),
        details=tuple(one_line(said(each)) for each in check.details),
    )


def checked(pull: PullRequest) -> Checked:
    """How its checks ended, in a word."""
    if not pull.checks:
        return "not run"
    return "passed" if all(check.passed for check in pull.checks) else "failed"


# The difference


def shown_path(path: str) -> str:
    """A path as it is shown; bytes that are no text are replaced."""
    return one_line(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def file_diffs(forge: "LocalForge", pull: PullRequest, changes: list[FileChange], said: Said) -> list[FileDiff]:
    """The differences of these files; one that is long is named with its size alone."""
    if not changes:
        return []
    old, new = forge.repository.entries(pull.base_sha), forge.repository.entries(pull.head_sha)
    sizes = [tuple(side[each.path].size if each.path in side else 0 for side in (old, new)) for each in changes]
    short = [each.path for each, both in zip(changes, sizes, strict=True) if max(both) <= SHOWN_BYTES]
    patches = dict(zip(short, _patches(forge, pull, short), strict=True))
    return [
        _file_diff(each, both[0], both[1], patches.get(each.path), said)
        for each, both in zip(changes, sizes, strict=True)
    ]


def _patches(forge: "LocalForge", pull: PullRequest, paths: list[str]) -> list[bytes]:
    """The difference of each file: git says all of them at once, and a line of a text never begins like a header."""
    if not paths:
        return []
    head, *parts = (b"\n" + forge.patch(pull, paths)).split(b"\ndiff --git ")
    if head or len(parts) != len(paths):  # where a link became a file, git says two
        return [forge.patch(pull, (path,)) for path in paths]
    return [b"diff --git " + part.removesuffix(b"\n") + b"\n" for part in parts]


def _file_diff(change: FileChange, old: int, new: int, patch: bytes | None, said: Said) -> FileDiff:
    binary = patch is not None and any(line.startswith(BINARY) for line in patch.split(b"\n"))
    cut = patch is None or len(patch) > 2 * SHOWN_BYTES + 4096
    return FileDiff(
        path=shown_path(change.path),
        kind=change.kind,
        old_size=old,
        new_size=new,
        executable=change.new_mode == "100755",
        binary=binary,
        cut=cut,
        patch="" if binary or cut or patch is None else visible(said(patch.decode("utf-8", "replace"))),
    )


# The bot


def bot_view(app: "Runtime", forge: "LocalForge", said: Said) -> BotView:
    """How the bot's repository stands."""
    fault = forge.bot.fault()
    until = yolo_now(app.db.reader, app.clock())
    mode = forge.mode()
    return BotView(
        enabled=app.config.forge.enabled,
        fault=said(fault),
        mode=mode,
        configured=app.config.forge.merge_mode,
        allow=list(app.config.forge.merge_allow),
        yolo_until=stamp(until) if until is not None and mode == "yolo" else None,
        main="" if fault else forge.bot.main(),
        deployed=deployed_commit(app.db.reader),
        trees=len(open_trees(app.db.reader)),
        open_pulls=len(pulls_before(app.db.reader, ("OPEN",), None, 10_000)),
    )


def commit_view(commit: LoggedCommit, said: Said) -> CommitView:
    """A commit with whoever allowed it, by the trailers that the runtime wrote."""
    trailers = [line.partition(": ") for line in commit.body.splitlines()]
    named = {name: value for name, _, value in trailers}
    actions = [value for name, _, value in trailers if name == "Action"]
    by = named.get("Approved-By") or ", ".join(actions[:3]) or named.get("Origin") or ""
    return CommitView(
        sha=commit.sha,
        time=commit.time,
        subject=one_line(said(commit.subject)),
        author=one_line(said(commit.author)),
        allowed_by=one_line(said(by)),
    )


def intel_files(forge: "LocalForge") -> list[tuple[str, TreeEntry]]:
    """Every file of findings on main, the last path first: they are named by their dates."""
    entries = forge.repository.entries(forge.repository.resolve(MAIN))
    return sorted(((path, entry) for path, entry in entries.items() if path.startswith(INTEL)), reverse=True)
