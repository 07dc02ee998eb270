"""Pull requests, the bot and its intel as they are shown, at the terminal and over HTTP. Nothing in them hides."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.features.forge.store import deployed_commit, pulls_before
from coilclaw.packets.decision import Risk
from coilclaw.packets.forge import MAIN, ChangeKind, Check, FileChange, MergeMode, PullRequest, PullState
from coilclaw.packets.ids import stamp
from coilclaw.packets.text import one_line, visible
from coilclaw.sandbox.bot_repository import LoggedCommit, TreeEntry
from coilclaw.sandbox.fast_import import FILE, PROGRAM
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
BINARY = b"\nBinary files "
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
    """The job that made it; null for one that takes another back, for those of the runtime and of sessions."""
    session_id: str | None
    """The coding session that made it."""
    repository: str
    """The repository that a session's is for; empty for the bot's own."""
    target: str
    """The branch that a session's is merged into; empty for the bot's own, which is main."""
    draft: bool
    """It is not finished: nobody is asked about its merge."""
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
    github_url: str
    """Where it stands on GitHub; empty if it does not."""
    merge_on_github: bool
    """It changes what controls the agent, so your review there does not merge it: merge it there, or answer here."""


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is changed."""

    path: str
    kind: ChangeKind
    old_size: int
    new_size: int
    executable: bool
    """It can be run afterwards."""


class FileDiff(ChangedFile, frozen=True, kw_only=True):
    """One file of a difference."""

    binary: bool
    cut: bool
    """It is too long to be shown here as a whole."""
    patch: str
    """The difference as text, hidden characters by their numbers; empty for binary and long files."""


class GitHubView(msgspec.Struct, frozen=True, kw_only=True):
    """How the bot's repository stands with GitHub."""

    url: str
    runs_url: str
    """The runs of jobs in Actions; empty where none run there."""
    main: str
    """Where main stood there at the last look."""
    synced_at: str | None
    """When everything was in order last; null if it never was."""
    fault: str
    """What keeps it from being in order, with the remedy; empty when nothing does."""
    held: str
    """A commit on main there that waits for your word; empty when none does."""
    requests_left: int | None
    """How many requests GitHub allowed for the rest of the hour at the last look; null if it did not say."""


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
    github: GitHubView | None
    """How things stand with GitHub; null when the bot is not there."""


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
        session_id=pull.session_id,
        repository=one_line(said(pull.repository)),
        target=one_line(said(pull.target)),
        draft=pull.draft,
        branch=one_line(said(pull.branch)),
        action_id=pull.action_id,
        dormant=pull.dormant,
        reason=visible(said(pull.reason)),
        opened_at=pull.opened_at,
        updated_at=pull.updated_at,
        deployed_at=pull.deployed_at,
    )


def pull_shown(app: "Runtime", pull: PullRequest, mode: MergeMode, said: Said) -> PullShown:
    """A pull request with everything."""
    there = said(_github_pull(app, pull))
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
        github_url=there,
        merge_on_github=bool(there) and pull.state == "OPEN" and pull.risk == "R3",
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


def changed_files(forge: "LocalForge", changes: list[FileChange]) -> list[ChangedFile]:
    """These files without their differences."""
    sizes = forge.repository.change_sizes(changes)
    return [
        ChangedFile(
            path=shown_path(each.path),
            kind=each.kind,
            old_size=old,
            new_size=new,
            executable=each.new_mode == PROGRAM,
        )
        for each, (old, new) in zip(changes, sizes, strict=True)
    ]


def file_diffs(
    forge: "LocalForge", pull: PullRequest, changes: list[FileChange], said: Said, *, whole: bool = False
) -> list[FileDiff]:
    """The differences of these files, which may be the whole pull request; one that is long is named with its size."""
    if not changes:
        return []
    both = [each for each in changes if each.kind == "changed"]
    with ThreadPoolExecutor(1) as beside:  # two processes of git that need nothing from each other
        asked = beside.submit(forge.repository.change_sizes, both) if both else None
        patches = _patches(forge, pull, [each.path for each in changes], whole=whole)
        sizes = dict(zip((each.path for each in both), asked.result(), strict=True)) if asked else {}
    for each, patch in zip(changes, patches, strict=True):
        mode = each.old_mode if each.kind == "removed" else each.new_mode
        told = _whole_size(patch) if each.kind != "changed" and mode in (FILE, PROGRAM) else None
        if told is not None:
            sizes[each.path] = (0, told) if each.kind == "added" else (told, 0)
    rest = [each for each in changes if each.path not in sizes]
    sizes |= zip((each.path for each in rest), forge.repository.change_sizes(rest), strict=True)
    return [
        _file_diff(each, *sizes[each.path], patch if max(sizes[each.path]) <= SHOWN_BYTES else None, said)
        for each, patch in zip(changes, patches, strict=True)
    ]


def _patches(forge: "LocalForge", pull: PullRequest, paths: list[str], *, whole: bool) -> list[bytes]:
    """The difference of each file: git says all of them at once, and a line of a text never begins like a header."""
    named = () if whole else paths  # git compares every path with every name it is given
    head, *parts = (b"\n" + forge.patch(pull, named, SHOWN_BYTES)).split(b"\ndiff --git ")
    if head or len(parts) != len(paths):  # where a link became a file, git says two
        return [forge.patch(pull, (path,), SHOWN_BYTES) for path in paths]
    return [b"diff --git " + part.removesuffix(b"\n") + b"\n" for part in parts]


def _whole_size(patch: bytes) -> int | None:
    """How long a text is that was added or removed as a whole, by its difference; None where only git can tell."""
    _, found, lines = patch.partition(b"\n@@ ")
    if not found:
        return None
    lines = lines.partition(b"\n")[2]
    text, cut, _ = lines.partition(b"\n\\ ")  # no line of the text begins so: each has a mark before it
    return len(text) - text.count(b"\n") - 1 if cut else len(lines) - lines.count(b"\n")


def _file_diff(change: FileChange, old: int, new: int, patch: bytes | None, said: Said) -> FileDiff:
    binary = patch is not None and BINARY in patch
    cut = patch is None or len(patch) > 2 * SHOWN_BYTES + 4096
    return FileDiff(
        path=shown_path(change.path),
        kind=change.kind,
        old_size=old,
        new_size=new,
        executable=change.new_mode == PROGRAM,
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
        github=_github_view(app, said),
    )


def _github_view(app: "Runtime", said: Said) -> GitHubView | None:
    if app.config.forge.kind != "github":
        return None
    from coilclaw.features.forge.github.links import page_of, runs_page
    from coilclaw.features.forge.github.store import github_state

    state, settings = github_state(app.db.reader), app.config.forge.github
    return GitHubView(
        url=said(page_of(settings)),
        runs_url=said(runs_page(settings)),
        main=state.main,
        synced_at=state.synced_at or None,
        fault=visible(said(state.fault)),
        held=state.held,
        requests_left=state.left if state.left >= 0 else None,
    )


def _github_pull(app: "Runtime", pull: PullRequest) -> str:
    if app.config.forge.kind != "github" or pull.repository:
        return ""
    from coilclaw.features.forge.github.links import page_of
    from coilclaw.features.forge.github.store import github_pull

    row = github_pull(app.db.reader, pull.number)
    return "" if row is None else page_of(app.config.forge.github, f"/pull/{row.remote}")


def commit_view(commit: LoggedCommit, said: Said, merged: Collection[str] = ()) -> CommitView:
    """A commit with whoever allowed it, by the trailers that the runtime wrote.

    A merge of ours without any, one of `merged`, was made by the owner on GitHub.
    """
    trailers = [line.partition(": ") for line in commit.body.splitlines()]
    named = {name: value for name, _, value in trailers}
    actions = [value for name, _, value in trailers if name == "Action"]
    by = named.get("Approved-By") or ", ".join(actions[:3]) or named.get("Origin") or ""
    by = by or ("you, on GitHub" if commit.sha in merged else "")
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
    return sorted(
        ((path, entry) for path, entry in entries.items() if path.startswith(INTEL) and path != f"{INTEL}README.md"),
        reverse=True,
    )
