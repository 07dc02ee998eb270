"""pr_merge, bot_yolo and bot_tighten: what only the runtime and the owner call, each through the gate."""

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.features.forge.paths import is_runtime_file
from coilclaw.features.forge.store import load_pull
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import CoilclawError, EffectUncertain, StorageError, ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line, visible
from coilclaw.runtime.extensions import home_of
from coilclaw.store.tx import Tx
from coilclaw.store.yolo import set_yolo
from coilclaw.tools.declare import owner_call, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.features.forge.forge import LocalForge
    from coilclaw.packets.forge import PullRequest
    from coilclaw.runtime.runtime import Runtime

MOST_HOURS = 24
CARD_BYTES = 256 << 10
"""Where the files weigh more, the card names them; the difference is read elsewhere, and the arguments bind it."""
MOST_PATHS = 500
"""So many files are shown with their difference."""
MOST_MOVED = 10
VIEWS_KEPT = 32
JOIN_SECONDS = 300.0
"""How long GitHub may take to merge it."""
MARGIN_SECONDS = 60
"""For the built-in checks of a large change, and for git."""


class MergeArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of pr_merge: everything that a yes binds."""

    number: Annotated[int, msgspec.Meta(description="The pull request.", ge=1)]
    title: Annotated[str, msgspec.Meta(description="Its title.", max_length=200)]
    risk: Annotated[str, msgspec.Meta(description="The risk of what it touches.", pattern="^R[0-3]$")]
    head: Annotated[str, msgspec.Meta(description="The commit to merge.", pattern="^[0-9a-f]{40,64}$")]
    diff: Annotated[str, msgspec.Meta(description="SHA-256 of its difference.", pattern="^[0-9a-f]{64}$")]
    checks: Annotated[str, msgspec.Meta(description="SHA-256 of its checks.", pattern="^[0-9a-f]{64}$")]


class YoloArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of bot_yolo."""

    hours: Annotated[int, msgspec.Meta(description="For how many hours.", ge=1, le=MOST_HOURS)]


class TightenArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of bot_tighten. Without hashes only yolo ends."""

    before: Annotated[str, msgspec.Meta(description="SHA-256 of config.toml before it.", pattern="^([0-9a-f]{64})?$")]
    after: Annotated[str, msgspec.Meta(description="SHA-256 of config.toml after it.", pattern="^([0-9a-f]{64})?$")]


def forge_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The tools of the forge; without a home they can only be described."""
    home = home_of(runtime)
    tools = (_make_merge(home), _make_yolo(home), _make_tighten(home))
    if runtime is not None and runtime.config.forge.kind != "github":
        return tools
    from coilclaw.features.forge.actions.packing import make_pack
    from coilclaw.features.forge.github.accepting import make_accept
    from coilclaw.features.forge.github.publishing import publishing_tools
    from coilclaw.features.forge.github.reading import make_read

    return (*tools, make_accept(home), make_read(home), *publishing_tools(home), make_pack())


def _make_merge(home: "Callable[[], Runtime]") -> Tool:
    views = MergeViews()

    @tool(
        MergeArgs,
        effect="WRITE",
        destination="external",
        idempotent=True,
        always_ask=True,
        touches=lambda args: _touched(home(), views, args),
        summary=lambda args: f"Merge #{args.number}: {args.title}",
        callers=frozenset({"gateway"}),
    )
    async def pr_merge(args: MergeArgs, context: Context) -> ToolOutput:
        """Merge a pull request into main; only the runtime proposes it, once its checks ran."""
        from coilclaw.features.forge.deployment import kept_edits, put_in_place
        from coilclaw.features.forge.forge import LocalForge
        from coilclaw.features.forge.session_pulls import forge_of

        asked = LocalForge(home()).find(args.number)
        forge = forge_of(home(), asked)
        if home().config.forge.kind == "github" and not asked.repository:
            from coilclaw.features.forge.github.pulls_there import joining

            forge.join = joining(home(), forge)
        try:
            pull = await forge.merge(args.number, args.head, args.diff, args.checks)
        except (OSError, StorageError, ToolError) as error:  # main may have moved: a repeat finds that out
            if isinstance(error, ToolError) and not error.begun:
                raise
            raise EffectUncertain(f"the merge of #{args.number} was cut off: {error}.") from error
        if pull.session_id is not None:
            text = f"Merged #{pull.number} into {pull.target} of {pull.repository} as {pull.merged_sha}."
            return ToolOutput(text=text, label=INTERNAL, metadata={"commit": pull.merged_sha})
        fault = "" if pull.job_id else await put_in_place(home(), forge, pull)  # a job deploys its own
        kept = kept_edits(home(), pull)
        text = fault or f"Merged #{pull.number} as {pull.merged_sha}{f', but {kept}' if kept else ''}."
        return ToolOutput(text=text, label=INTERNAL, metadata={"commit": pull.merged_sha, "taken_back": bool(fault)})

    return pr_merge


class MergeView(msgspec.Struct, frozen=True):
    """What git says about a merge. Commits never change, so neither does this."""

    paths: tuple[str, ...]
    """What merging touches, on main as it was when the checks ran."""
    governs: tuple[str, ...]
    own: tuple[str, ...]
    """Files that the runtime adds."""
    moved: tuple[str, ...]
    """Files that it touches by other names than its own commits do: they were moved on main."""
    others: int
    shown: str
    """The difference of the other files, or their names where it is long."""


class MergeViews:
    """The last of them, so that cards are shown again without asking git."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], MergeView] = {}

    def of(self, forge: "LocalForge", pull: "PullRequest") -> MergeView:
        """What a merge would do; git is asked once for the same commits."""
        key = (str(pull.number), pull.base_sha, pull.head_sha, pull.checked_sha)
        view = self._kept.pop(key, None) or _view(forge, pull)
        self._kept[key] = view
        for old in list(self._kept)[:-VIEWS_KEPT]:
            self._kept.pop(old, None)
        return view


def _view(forge: "LocalForge", pull: "PullRequest") -> MergeView:
    paths, governs = forge.merge_outcome(pull)
    changes = forge.changes(pull)
    own = [each.path for each in changes if pull.job_id is not None and is_runtime_file(each.path, pull.job_id)]
    others = [each for each in changes if each.path not in own]
    names = [each.path for each in others]
    if names and len(names) <= MOST_PATHS and sum(map(sum, forge.repository.change_sizes(others))) <= CARD_BYTES:
        shown = visible(forge.patch(pull, names).decode("utf-8", "replace"))
    else:
        listed = (f"{each.kind:8} {visible(each.path)}" for each in others)
        shown = "\n".join((*listed, "", f"Too much to show here: read it with `coilclaw pr diff {pull.number}`."))
    moved = {*paths}.difference(each.path for each in changes)
    return MergeView(paths, governs, tuple(own), tuple(sorted(moved)), len(others), shown)


def _touched(app: "Runtime", views: MergeViews, args: MergeArgs) -> Touches:
    """What a merge touches. Anybody may propose such a call, with any number: whatever is wrong, there is an answer."""
    from coilclaw.features.forge.session_pulls import forge_of

    nothing = Touches(subject=f"#{args.number}", public=True, says="Nothing would be merged.", governs=True)
    try:
        pull = load_pull(app.db.reader, args.number)
        if pull is None or pull.head_sha != args.head:
            return nothing
        forge = forge_of(app, pull)
        view = views.of(forge, pull)
        facts = forge.merge_facts(pull, view.paths, view.governs)
        says = _card(forge, pull, view, facts.risk)
    except CoilclawError:  # a broken object, or a git that is gone: the merge itself says why
        return nothing
    governs = facts.risk == "R3" or bool(facts.governs)
    branch = "main" if pull.session_id is None else f"{one_line(pull.target)} of {one_line(pull.repository)}"
    return Touches(
        subject=f"{branch}, by #{args.number}",
        public=True,
        says=says,
        merge=facts,
        governs=governs,
        seconds=_merge_seconds(app),
    )


def _merge_seconds(app: "Runtime") -> int:
    """How long a merge may take besides what a tool may: main may have moved, and then the checks run again."""
    forge = app.config.forge
    there = JOIN_SECONDS if forge.kind == "github" else 0.0
    return math.ceil(sum(check.timeout_seconds for check in forge.checks.values()) + there) + MARGIN_SECONDS


def _card(forge: "LocalForge", pull: "PullRequest", view: MergeView, risk: str) -> str:
    """What is merged: the difference of every file but those that the runtime itself adds, which are named."""
    failed = [f"FAILED  {check.name}: {check.summary}" for check in pull.checks if not check.passed]
    files = "1 file" if view.others == 1 else f"{view.others} files"
    lines = [visible(pull.title), f"{files}, risk {risk}, branch {pull.branch}"]
    if pull.session_id is not None:
        lines.append(f"It is merged into {one_line(pull.target)} of {one_line(pull.repository)}, and into your files")
        lines[-1] += " there if that branch is checked out."
        if "deps_add" in pull.labels:
            lines.append("deps_add: it changes what the project depends on.")
    lines += failed or [f"All {len(pull.checks)} checks pass."]
    if forge.mode() == "yolo":
        lines.append("YOLO: other pull requests merge without asking you.")
    if pull.taint:
        lines.append(f"Whoever made it took in untrusted content: {', '.join(pull.taint)}")
    if view.moved:
        more = f" and {len(view.moved) - MOST_MOVED} more" if len(view.moved) > MOST_MOVED else ""
        named = ", ".join(map(one_line, view.moved[:MOST_MOVED]))
        lines.append(f"On main, where files were moved, it changes {named}{more}.")
    if view.own:
        lines.append(f"The runtime adds the record of the job: {', '.join(view.own)}")
    return "\n".join((*lines, "", view.shown))


def _hours(args: YoloArgs) -> str:
    return "1 hour" if args.hours == 1 else f"{args.hours} hours"


def _make_yolo(home: "Callable[[], Runtime]") -> Tool:
    @owner_call(
        YoloArgs,
        destination="internal",
        idempotent=False,
        touches=lambda args: Touches(
            subject="the merge mode",
            public=True,
            says=f"For {_hours(args)} every job's pull request whose checks pass is merged WITHOUT ASKING YOU, also"
            " to policies and schedules. Only .github, CODEOWNERS, SYSTEM.md, loosened policies and what a"
            " tainted job did beyond notes still wait for you. ESTOP ends it.",
        ),
        summary=lambda args: f"Set the merge mode to yolo for {_hours(args)}",
    )
    async def bot_yolo(args: YoloArgs, context: Context) -> ToolOutput:
        """Let pull requests merge without a question for some hours; only `coilclaw bot mode yolo` and the panel do."""
        app = home()
        until = app.clock() + timedelta(hours=args.hours)

        def write(tx: Tx) -> None:
            set_yolo(tx, until)
            add_event(tx, app.clock, "merge_mode", "bot", {"mode": "yolo", "hours": args.hours})

        await app.db.write(write)
        return ToolOutput(text=f"Pull requests merge without asking until {until:%H:%M} UTC.", label=INTERNAL)

    return bot_yolo


def _make_tighten(home: "Callable[[], Runtime]") -> Tool:
    @tool(
        TightenArgs,
        effect="WRITE",
        destination="internal",
        idempotent=True,  # a repeat finds yolo over and the file as it should be
        always_ask=False,
        touches=lambda args: Touches(
            subject="the merge mode", public=True, says="Pull requests merge less by themselves.", tightens=True
        ),
        summary=lambda args: "Set the merge mode to strict" if args.after else "End yolo",
        callers=frozenset({"gateway"}),
    )
    async def bot_tighten(args: TightenArgs, context: Context) -> ToolOutput:
        """Have more merges asked about; only `coilclaw bot mode` and the panel do."""
        from coilclaw.features.forge.merge_mode import tighten

        return ToolOutput(text=await tighten(home(), args.before, args.after), label=INTERNAL)

    return bot_tighten
