"""How commits leave a session: packed and read object by object, their differences read, then a pull request.

The box has no way to push, so this is where categories hold: whatever the program asked or did not ask, changed
manifests need a yes that says so, workflow files the owner's proof, and a known secret in any commit stops it.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from coilclaw.features.runner.session_tools import PUSH, session_taint
from coilclaw.features.runner.tools import SessionId
from coilclaw.packets.action import INTERNAL, Label, ToolCall, untrusted
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line, visible
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coilclaw.features.runner.checkouts import Checkout
    from coilclaw.features.runner.sessions import Sessions
    from coilclaw.features.runner.store import Session
    from coilclaw.runtime.runtime import Runtime

MOST_BYTES = 8 << 20
"""More than this is not read, so it does not leave."""
CARD_BYTES = 200_000
SUBJECT = 72
MERGE_ASKS = "merge_asks"
"""The label of a pull request whose session may not be merged without a question, whatever its repository says."""
_MANIFESTS = frozenset(
    """
    package.json package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock bun.lock bun.lockb
    pyproject.toml setup.py setup.cfg uv.lock poetry.lock pipfile pipfile.lock cargo.toml cargo.lock go.mod go.sum
    go.work gemfile gemfile.lock composer.json composer.lock .npmrc pip.conf .gitmodules .yarnrc.yml .pnp.cjs pdm.lock
    constraints.txt environment.yml deno.json deno.jsonc deno.lock pom.xml build.gradle build.gradle.kts settings.gradle
    settings.gradle.kts gradle.lockfile libs.versions.toml mix.exs mix.lock pubspec.yaml pubspec.lock package.swift
    package.resolved packages.config packages.lock.json directory.packages.props flake.nix flake.lock conanfile.txt
    conanfile.py vcpkg.json bunfig.toml package.yaml package.json5 .pnpmfile.cjs .pnpmfile.mjs pnpm-lock.yml uv.toml
    .cargo pip.ini rust-toolchain rust-toolchain.toml go.work.sum .pre-commit-config.yaml podfile podfile.lock
    """.split()  # noqa: SIM905
)
_PLACED = ("/.cargo/config", "/.cargo/config.toml", "/vendor/modules.txt")
_PACKAGED = (".gemspec", ".csproj", ".fsproj", ".vbproj", ".cabal")
_WORKFLOWS = (
    ".github/", ".gitlab/", ".gitlab-ci", ".circleci/", ".forgejo/", ".gitea/", ".woodpecker", ".drone", ".travis",
    ".buildkite/", ".cirrus", ".semaphore/", ".tekton/", ".builds/", ".build.yml", ".appveyor",
)  # fmt: skip
_PIPELINES = frozenset(
    "jenkinsfile azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml appveyor.yml".split()  # noqa: SIM905
)


class PushArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_push: everything that a yes binds."""

    session_id: SessionId
    head: Annotated[str, msgspec.Meta(description="The last commit.", pattern="^[0-9a-f]{40,64}$")]
    diff: Annotated[str, msgspec.Meta(description="SHA-256 of every difference.", pattern="^[0-9a-f]{64}$")]
    title: Annotated[str, msgspec.Meta(description="The title of its pull request.", min_length=1, max_length=200)]
    files: Annotated[int, msgspec.Meta(description="How many files differ.", ge=0)]
    manifests: Annotated[tuple[str, ...], msgspec.Meta(description="Files that name dependencies.", max_length=200)]
    workflows: Annotated[tuple[str, ...], msgspec.Meta(description="Files that run on their own.", max_length=200)]


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """What a session committed, as it was read."""

    head: str
    log: bytes
    """Every commit with its difference, then as it is stored."""
    paths: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The hash of all of it."""
        return hashlib.sha256(self.log).hexdigest()

    @property
    def subject(self) -> str:
        """The first line of the newest commit's message, shortened to be a title; empty without one."""
        commit, _, _, first, *_ = [*self.log.split(b"\n", 4), b"", b"", b"", b""]
        if commit != b"commit " + self.head.encode() or first.startswith(b"diff --git "):
            return ""
        line = one_line(" ".join(first.decode("utf-8", "replace").split()))
        return line if len(line) <= SUBJECT else f"{line[: SUBJECT - 1].rstrip()}…"

    @property
    def manifests(self) -> tuple[str, ...]:
        """Files that name dependencies, of any commit."""
        return tuple(each for each in self.paths if is_manifest(each))[:200]

    @property
    def workflows(self) -> tuple[str, ...]:
        """Files that a forge runs on its own, of any commit."""
        return tuple(each for each in self.paths if is_workflow(each))[:200]


def is_manifest(path: str) -> bool:
    """Whether a file names dependencies."""
    *folders, name = path.lower().split("/")
    listed = "requirements" in (*folders, *re.split(r"[-_.]", name)) or name.startswith(("requirements", "constraints"))
    return (
        name in _MANIFESTS
        or name.endswith(_PACKAGED)
        or (listed and name.endswith((".txt", ".in", ".lock")))
        or (name.startswith("pylock.") and name.endswith(".toml"))
        or f"/{path.lower()}".endswith(_PLACED)
    )


def is_workflow(path: str) -> bool:
    """Whether a forge runs it on its own; a link or a submodule in the place of such a folder counts too."""
    lower = path.lower()
    return f"{lower}/".startswith(_WORKFLOWS) or lower.rpartition("/")[2] in _PIPELINES


def forbidden_in(paths: "Iterable[str]", forbidden: tuple[str, ...]) -> str:
    """The first path that is one of the forbidden ones or below it; empty without one."""
    named = tuple(os.path.normpath(each.strip("/")) for each in forbidden)
    return next((path for path in paths if any(f"{path}/".startswith(f"{each}/") for each in named)), "")


async def read_leaving(app: "Runtime", sessions: "Sessions", session: "Session") -> Leaving:
    """Take over what a session committed and read it; raises what stops it."""
    checkout = session.checkout
    if checkout is None:
        raise ToolError("the session has no checkout.", code="NO_CHECKOUT", begun=False)
    head = await sessions.checkouts.exported_tip(checkout)
    if head == checkout.base:
        raise ToolError(
            f"nothing is committed on {checkout.branch}.",
            remedy="Commit in the session first.",
            code="NOTHING_TO_PUSH",
            begun=False,
        )
    log = await _read(app, sessions, checkout, head, "log")
    names = await _read(app, sessions, checkout, head, "names")
    paths = sorted({each.decode("utf-8", "replace").strip("\n") for each in names.split(b"\0") if each.strip(b"\n")})
    if touched := forbidden_in(paths, session.spec.policy.forbidden_paths):
        # hidden as files only: git in the box still writes such a path, or commits that it is gone
        raise ToolError(
            f"a commit of the session changes {one_line(visible(touched))!r}, which its policy forbids.",
            remedy="Rewrite the commits without it, then try again.",
            code="FORBIDDEN_PATH",
            begun=False,
        )
    text = log.decode("utf-8", "replace")
    narrow = text.replace("\0", "")  # what is written in two bytes a letter
    if app.redact(text) != text or (narrow != text and app.redact(narrow) != narrow):
        raise ToolError(
            "a commit of the session holds a known secret, so none of them leaves.",
            remedy="Rewrite the commits without it, then try again.",
            code="SECRET_LEAVES",
            begun=False,
        )
    return Leaving(head=head, log=log, paths=tuple(paths))


async def _read(
    app: "Runtime", sessions: "Sessions", checkout: "Checkout", head: str, what: Literal["log", "names"]
) -> bytes:
    from coilclaw.features.runner.boxed_git import LEAVING, object_format, run_script, script_spec

    spec = script_spec(
        LEAVING, object_format(head), checkout.base, head, what, str(MOST_BYTES + 1),
        workspace=Path(checkout.path), mounts=sessions.checkouts.box_mounts(checkout), writable=False, seconds=120.0,
        output=MOST_BYTES + (1 << 20),
    )  # fmt: skip
    told = await run_script(app, spec, what="the commits cannot be read", code="DIFF_FAILED")
    if len(told) > MOST_BYTES:
        raise ToolError(
            f"the commits differ by more than {MOST_BYTES >> 20} MiB, which nobody could read.",
            remedy="Commit less at a time.",
            code="TOO_MUCH_TO_READ",
            begun=False,
        )
    return told


async def push_call(app: "Runtime", sessions: "Sessions", session_id: str, title: str) -> ToolCall:
    """The call that opens or updates the pull request of a session."""
    session = sessions.get(session_id)
    leaving = await read_leaving(app, sessions, session)
    task = session.spec.task
    shown = one_line(title or task.title or leaving.subject or task.goal or f"Work of {session_id}")
    return ToolCall.of(
        PUSH,
        {
            "session_id": session_id,
            "head": leaving.head,
            "diff": leaving.digest,
            "title": app.redact(shown)[:200],
            "files": len(leaving.paths),
            "manifests": list(leaving.manifests),
            "workflows": list(leaving.workflows),
        },
    )


def push_tool(home: "Callable[[], Runtime]") -> Tool:
    """session_push."""

    def touches(args: PushArgs) -> Touches:
        from coilclaw.features.runner.sessions import sessions_of

        app = home()
        session = sessions_of(app).get(args.session_id)
        return Touches(
            subject=f"{session.spec.repo.text}: {one_line(args.title)}",
            says="\n".join(_words(app, session, args)),
            governs=bool(args.workflows),
        )

    @tool(
        PushArgs,
        effect="WRITE",
        destination="external",
        idempotent=True,  # a repeat finds the pull request of the branch
        always_ask=True,
        touches=touches,
        summary=lambda args: f"Open a pull request with the commits of {args.session_id}: {one_line(args.title)}",
        callers=frozenset({"gateway"}),
    )
    async def session_push(args: PushArgs, context: Context) -> ToolOutput:
        """Take the commits of a session out, as a pull request; only `coilclaw session pr` and the runner do."""
        from coilclaw.features.runner.sessions import sessions_of

        app = home()
        sessions = sessions_of(app)
        session = sessions.get(args.session_id)
        leaving = await read_leaving(app, sessions, session)
        if (leaving.head, leaving.digest) != (args.head, args.diff):
            raise ToolError(
                "the session has committed something else since this was shown.",
                remedy="Look at it again with `coilclaw session pr`.",
                code="CHANGED",
                begun=False,
            )
        app.reached("session_read")
        number = await open_pull(app, session, leaving, args.title, draft=False)
        return ToolOutput(text=f"Pull request #{number} has the commits up to {args.head[:12]}.", label=INTERNAL)

    return session_push


def _words(app: "Runtime", session: "Session", args: PushArgs) -> list[str]:
    branch = "" if session.checkout is None else session.checkout.branch
    differ = "file differs" if args.files == 1 else "files differ"
    lines = [f"{args.files} {differ} on {one_line(branch)}, up to commit {args.head[:12]}."]
    if args.manifests:
        lines.append(f"deps_add: it changes what the project depends on: {_named(args.manifests)}.")
    if args.workflows:
        lines.append(f"It changes what a forge runs on its own: {_named(args.workflows)}.")
    if taint := _misled(app, session):
        lines.append(f"The session may have been misled by {', '.join(taint)}: read the difference before you say yes.")
    lines.append(f"See `coilclaw session diff {session.session_id}`.")
    return lines


def _misled(app: "Runtime", session: "Session") -> tuple[Label, ...]:
    """A box with a network reaches out without asking, a person's shell among them."""
    found = session_taint(app, session)
    reached = untrusted("network")
    return found if session.spec.policy.network.mode == "restricted" or reached in found else (*found, reached)


def _named(paths: tuple[str, ...]) -> str:
    return ", ".join(one_line(visible(each)) for each in paths[:20])


def _target(session: "Session") -> str:
    """The branch that its work is for: the one it began from, or the repository's own."""
    from coilclaw.sandbox.repo_cache import RepoCache

    wanted, checkout = session.spec.checkout, session.checkout
    if wanted.type == "branch" and wanted.ref:
        return wanted.ref
    return "" if checkout is None else RepoCache(Path(checkout.cache).parent).default_branch()


async def open_pull(
    app: "Runtime", session: "Session", leaving: Leaving, title: str, *, draft: bool, suggested: bool = False
) -> int:
    """Open the pull request of a session with what was read, or bring it up to date; its number."""
    put = app.extensions.put_session_pull
    checkout = session.checkout
    if put is None or checkout is None:
        raise ToolError("pull requests are not available here.", code="NO_FORGE", begun=False)
    taint = _misled(app, session)
    asks = "merge" in session.spec.policy.requires_approval_for
    marks = {"deps_add": leaving.manifests, "untrusted": taint, "suggested": suggested, MERGE_ASKS: asks}
    pull = PullRequest(
        number=0, repository=session.spec.repo.text, job_id=None, session_id=session.session_id, draft=draft,
        branch=checkout.branch, base_sha=checkout.base, head_sha=leaving.head, title=title,
        body=app.redact(session.spec.task.goal)[:4000], risk="R3" if leaving.workflows else "R2",
        labels=("coilclaw", "session", *(mark for mark, meant in marks.items() if meant)),
        taint=taint, state="OPEN", merged_sha="", action_id=None, checks=(), checked_sha="", rounds=0, wanted="",
        dormant=bool(taint),  # what may mislead is opened by hand, never a question that is pushed
        reason="", opened_at="", updated_at="", deployed_at=None, target=_target(session),
    )  # fmt: skip
    return await put(app, pull)
