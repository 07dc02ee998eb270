"""What a session is asked for: the body of `POST /runner/v1/sessions`, kept whole in its row."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from coilclaw.features.runner.adapters.contract import Provider

Mode: TypeAlias = Literal["read", "write"]
Name: TypeAlias = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Words: TypeAlias = Annotated[str, Meta(max_length=4000)]
Lines: TypeAlias = Annotated[tuple[Words, ...], Meta(max_length=100)]
SELF = "self"
"""The owner's own organisation."""
ROWS, COLUMNS = 40, 120


class RepoRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A repository: one of `[repos]`, a project, or one at GitHub."""

    provider: Literal["local", "project", "github"] = "local"
    owner: Name = ""
    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]

    @property
    def text(self) -> str:
        """How it is named in lists."""
        return f"{self.owner}/{self.name}" if self.owner else self.name


class CheckoutRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to check out; without a ref the repository's current branch."""

    type: Literal["branch", "commit"] = "branch"
    ref: Name = ""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the session is for."""

    title: Name = ""
    goal: Words = ""
    constraints: Lines = ()
    acceptance: Lines = ()


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`restricted`: no network. `open`: every domain that the configuration allows to boxes."""

    mode: Literal["restricted", "open"] = "restricted"


class SessionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Narrows what the configuration allows; it never widens it."""

    shell_allowlist: Annotated[tuple[Name, ...], Meta(max_length=200)] | None = None
    """The only programs in the box, beside its shell."""
    shell_denylist: Annotated[tuple[Name, ...], Meta(max_length=200)] = ()
    """A single word is a program that is absent in the box; more words are refused as a line of input."""
    forbidden_paths: Annotated[tuple[Name, ...], Meta(max_length=200)] = ()
    """Paths of the checkout whose files are hidden in the box. What was committed there is still in its history;
    commits that change such a path do not leave the session."""
    network: Network = Network()
    requires_approval_for: Annotated[tuple[Name, ...], Meta(max_length=50)] = ()
    """What a coding program asks for although its lists allow it: programs, or every `command` or `write`. `deps_add`,
    `secrets` and `deploy` always ask; with `merge` its pull request does, although its repository has `auto_merge`."""


class PlanLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits that narrow those of the plan."""

    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] | None = None


class Billing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who pays; the plan of the configuration counts, a request only narrows it."""

    plan: Literal["free", "team", "enterprise"] | None = None
    limits: PlanLimits = PlanLimits()


class Size(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The size of a terminal in characters."""

    rows: Annotated[int, Meta(ge=2, le=500)] = ROWS
    columns: Annotated[int, Meta(ge=2, le=1000)] = COLUMNS


class StartSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to start."""

    org_id: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")] = SELF
    repo: RepoRef
    checkout: CheckoutRef = CheckoutRef()
    room_path: Name = ""
    """The folder of the checkout that the session begins in."""
    provider: Provider = "shell"
    """What runs in it: a shell for you, or a coding program that works on the task."""
    structured: bool = False
    """Without a screen of its own: the coding program works on the task, its words are shown as lines, and it ends when
    it is done. A line that is typed is its next prompt."""
    task: Task = Task()
    policy: SessionPolicy = SessionPolicy()
    billing: Billing = Billing()
    mode: Mode = "write"
    """`read`: the checkout cannot be changed."""
    size: Size = Size()
    queue: bool = False
    """Wait for a free place instead of being refused when the plan's sessions are all in use."""
    thread_id: Name = ""
    """The conversation that it belongs to, if any. Only the owner's own devices say so."""
    job_id: Name = ""
    """The job that it belongs to, if any."""
    parent_id: Name = ""
    """The session that began it. Nobody else can say so: a request with one is refused."""
