"""Messages and work: what the owner asked for, and how it was understood, planned and proposed."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from coilclaw.packets.action import Label, Source
from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Risk
from coilclaw.packets.skill import SkillUse

JobState: TypeAlias = Literal[
    "RECEIVED", "PARSED", "POLICY_CHECKED", "PLANNED", "EXECUTING", "WAITING_APPROVAL", "PR_OPENED", "MERGED",
    "DEPLOYED", "DONE", "DENIED", "FAILED", "CANCELLED", "TIMED_OUT", "PAUSED_BUDGET",
]  # fmt: skip


ENDED: frozenset[JobState] = frozenset({"DONE", "DENIED", "FAILED", "CANCELLED", "TIMED_OUT"})
"""The states a job never leaves."""

CoarseState: TypeAlias = Literal[
    "PENDING", "RUNNING", "WAITING_APPROVAL", "COMPLETED", "FAILED", "CANCELLED", "PAUSED_BUDGET"
]
"""A job's state as clients see it; derived, never stored."""


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A raw request and where it came from (the UserMessagePacket)."""

    message_id: str
    thread_id: str
    channel: str
    source: Source
    text: str
    label: Label
    received_at: str
    metadata: dict[str, Json] = {}


class Constraints(msgspec.Struct, frozen=True, kw_only=True):
    """A job's own limits; they only narrow what the configuration grants."""

    allowed_tools: tuple[str, ...] | None = None
    """Tools it may use. Other names are programs, and are moved to `allowed_programs`."""
    allowed_programs: tuple[str, ...] | None = None
    """Programs its commands may run."""
    allowed_domains: tuple[str, ...] | None = None
    max_files_changed: int | None = None
    max_prs: int | None = None


class JobLimits(msgspec.Struct, frozen=True, kw_only=True):
    """A job's constraints and how much of them is used up, as the gate sees them."""

    job_id: str
    constraints: Constraints
    files_changed: frozenset[str] = frozenset()
    """Workspace files this job has changed so far."""
    generation: int = 0
    """Length of the chain of follow-ups that led to it; 0 for the owner's own requests."""


class Starter(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a call's turn that work started by the call inherits."""

    turn_id: str
    fresh: tuple[Label, ...]
    inherited: tuple[Label, ...]
    constraints: Constraints
    """Of the turn's job; work that it starts may do no more."""
    generation: int
    """Of that job; 0 in a conversation."""
    job_id: str | None
    """That job; None in a conversation."""
    skills: tuple[SkillUse, ...] = ()
    """The skills that the turn works under; work that it starts may do no more."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a job must leave behind."""

    pr_required: bool = False
    evidence_required: tuple[str, ...] = ()


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Intent, scope and constraints of a job (the JobSpecPacket)."""

    job_id: str
    intent: str
    repo: str | None = None
    inputs: dict[str, Json] = {}
    constraints: Constraints = Constraints()
    outputs: Outputs = Outputs()
    generation: int = 0
    """Length of the chain of the agent's own follow-ups and jobs that led to it; 0 for the owner's own requests."""
    by_agent: bool = False
    """The agent started it: its goal and steps are the agent's words and never count as the owner's."""
    parent_id: str | None = None
    """The job that started it; its pull request counts against that one's `max_prs` too."""


class JobPacket(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JobSpecPacket as submitted. Its id is the sender's: the same id again is the same job."""

    job_id: Annotated[str, msgspec.Meta(max_length=128, pattern=r"^[A-Za-z0-9_.:-]*$")] = ""
    intent: str
    repo: str | None = None
    inputs: dict[str, Json] = {}
    constraints: Constraints = Constraints()
    outputs: Outputs = Outputs()


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a plan and the evidence it must produce."""

    step_id: str
    description: str
    tool: str | None = None
    evidence: tuple[str, ...] = ()
    writes: bool | None = None
    """Whether it should write files, if a model planned it."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Ordered steps and the evidence they need (the PlanPacket)."""

    job_id: str
    steps: tuple[PlanStep, ...]
    required_evidence: tuple[str, ...] = ()
    by_model: bool = False
    """A model made it: its steps are the agent's words and never count as the owner's."""


class ChangeProposal(msgspec.Struct, frozen=True, kw_only=True):
    """Files a change would touch, its diff, and its effect on the risk (the ChangeProposalPacket)."""

    job_id: str
    files_touched: tuple[str, ...]
    pr_title: str
    pr_summary: str
    risk_before: Risk
    risk_after: Risk


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far one step of a job or procedure got."""

    stage: Literal["called", "waiting", "answered", "held", "failed"]
    """All calls have ended; some wait; there is nothing more to call; ESTOP holds the rest; it cannot be done."""
    reason: str = ""
    """Why it cannot be done."""
    text: str = ""
    """What the model said."""
    waiting: tuple[str, ...] = ()
    calls: int = 0
    inherited: tuple[Label, ...] = ()
    fresh: tuple[Label, ...] = ()
