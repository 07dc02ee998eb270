"""Work as it is said over HTTP: jobs and what they may do."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from coilclaw.features.jobs.lifecycle import COARSE
from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Lane, Risk
from coilclaw.packets.job import CoarseState, Constraints, JobSpec, JobState, Outputs, Plan
from coilclaw.store.job_history import JobArtifact, JobPull
from coilclaw.store.jobs import JobBudget, JobEvent

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Words: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=65_536)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
StateWord: TypeAlias = Literal[
    "RECEIVED", "PARSED", "POLICY_CHECKED", "PLANNED", "EXECUTING", "WAITING_APPROVAL", "PR_OPENED", "MERGED",
    "DEPLOYED", "DONE", "DENIED", "FAILED", "CANCELLED", "TIMED_OUT", "PAUSED_BUDGET",
    "PENDING", "RUNNING", "COMPLETED",
]  # fmt: skip
"""A state, or one of the coarse words that is no state itself."""


def states_of(state: StateWord | None, status: CoarseState | None) -> tuple[JobState, ...] | None:
    """The states that are asked for; None when all are. A word that is both names the state."""
    if state is None and status is None:
        return None
    chosen: list[JobState] = [
        each
        for each, coarse in COARSE.items()
        if (state is None or state == (each if state in COARSE else coarse)) and (status is None or status == coarse)
    ]
    return tuple(chosen)


class WorkLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a job; they only ever narrow what the configuration grants."""

    allowed_tools: Annotated[list[Name], msgspec.Meta(max_length=200)] | None = None
    """The tools it may use; null: all it is given. Names that are no tools are programs its commands may run."""
    allowed_programs: Annotated[list[Name], msgspec.Meta(max_length=200)] | None = None
    """The programs its commands may run; null: all it is given."""
    allowed_domains: Annotated[list[Name], msgspec.Meta(max_length=200)] | None = None
    """The hosts it may reach; null: all that are listed."""
    max_files_changed: Count | None = None
    """Number of workspace files it may change."""
    max_prs: Count | None = None
    """Number of pull requests it may open."""

    def constraints(self) -> Constraints:
        """As jobs carry them."""
        return Constraints(
            allowed_tools=None if self.allowed_tools is None else tuple(self.allowed_tools),
            allowed_programs=None if self.allowed_programs is None else tuple(self.allowed_programs),
            allowed_domains=None if self.allowed_domains is None else tuple(self.allowed_domains),
            max_files_changed=self.max_files_changed,
            max_prs=self.max_prs,
        )


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to be made."""

    goal: Annotated[str, msgspec.Meta(max_length=65_536)] = ""
    """What is to be done, in the owner's words; may be left out where an SOP or an intent is named."""
    intent: Annotated[str, msgspec.Meta(max_length=65_536)] = ""
    """The goal, as a JobSpecPacket calls it."""
    job_id: Annotated[str, msgspec.Meta(max_length=128, pattern=r"^[A-Za-z0-9_.:-]*$")] = ""
    """The sender's own id, as in a JobSpecPacket: the same again gives the job it made, which is also found by it."""
    repo: Annotated[str, msgspec.Meta(max_length=300)] | None = None
    """The repository it is about; null: the workspace."""
    inputs: dict[str, Json] = {}
    """Further inputs, kept with the job."""
    thread_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """The conversation it belongs to; a new one by default."""
    steps: Annotated[list[Words], msgspec.Meta(max_length=100)] = []
    """The steps of the plan, in order; without any, the goal is the plan."""
    constraints: WorkLimits = WorkLimits()
    evidence: Annotated[list[Name], msgspec.Meta(max_length=200)] = []
    """Names of artifacts it must leave, or it has failed."""
    outputs: Outputs = Outputs()
    """What it must leave behind, as a JobSpecPacket says it."""
    sop: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    """The procedure it runs; its steps are the job's then."""


class CancelJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calling a job off."""

    reason: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    """The reason; it is stored with the job."""


NO_REASON = CancelJob()


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job has come."""

    done: int
    """Steps of the plan that are over."""
    of: int
    """Steps of the plan."""
    calls: int
    """Calls of it that the gate has seen so far."""


class JobQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a job waits for the owner to answer."""

    action_id: str
    tool: str
    summary: str
    """What it is, in a sentence."""
    lane: Lane
    risk: Risk
    expires_at: str


class JobModel(msgspec.Struct, frozen=True, kw_only=True):
    """Which model did a part of a job."""

    part: str
    """`spec` (it read the goal), `plan`, or `step 1` and so on."""
    provider: str
    model: str
    answers: int
    """How many answers it gave for that."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a list."""

    job_id: str
    thread_id: str
    goal: str
    state: JobState
    status: CoarseState
    """The state in a coarser word."""
    reason: str
    """Why it ended, waits or failed last."""
    attempt: int
    """Tries of the step it is at that failed."""
    next_wakeup_at: str | None
    """When it goes on."""
    deadline_at: str | None
    working: bool
    """Somebody works on it right now."""
    sop: str | None
    """The procedure it runs."""
    schedule_id: str | None
    """The schedule it is a run of."""
    progress: JobProgress
    waiting: list[JobQuestion]
    created_at: str
    updated_at: str


class JobShown(Job, frozen=True, kw_only=True):
    """Everything there is to say about a job."""

    turn_id: str
    """What its messages and actions carry."""
    spec: JobSpec
    plan: Plan | None
    budget: JobBudget
    tokens: int
    """Tokens it has used."""
    models: list[JobModel]
    """Which model did what."""
    events: list[JobEvent]
    """What happened to it, oldest first; of a long story, the end."""
    pull: JobPull | None
    """The pull request it ended in."""
    files: list[str]
    """Files it changed."""
    artifacts: list[JobArtifact]
    """What it left, without the bytes."""
    evidence: dict[str, Json] | None
    """The manifest of what there is to show for it, once it is over."""
    answer: str
    """The last thing it said."""
