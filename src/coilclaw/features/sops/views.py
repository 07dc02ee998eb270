"""Procedures and their runs as they are said over HTTP."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.features.jobs.views import JobQuestion
from coilclaw.packets.action import Label, Status
from coilclaw.store.sops import RunState

RunStepState: TypeAlias = Literal["TO_DO", "RUNNING", "WAITING", "HELD", "SUCCEEDED", "FAILED", "SKIPPED"]


class SopRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a procedure in a list."""

    run_id: str
    name: str
    """The procedure."""
    state: RunState
    working: bool
    """Somebody works on it right now; one that is RUNNING without was cut off."""
    answered: bool
    """What it waited for has its answer, and it has not gone on yet."""
    reason: str
    """Why it waits, or how it ended."""
    step: int
    """The step it stands at, counted from 1; of one that is over, the last it came to."""
    of: int
    """Steps it has."""
    step_id: str
    """What that step is called."""
    waiting: list[JobQuestion]
    job_id: str | None
    """The job whose work it is; null when it was begun at a terminal."""
    thread_id: str
    created_at: str
    updated_at: str


class SopRunStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a run, begun or not."""

    id: str
    kind: str
    tool: str | None
    prompt: str
    """What the agent was told or the owner is asked; empty for a tool."""
    when: str
    """The condition without which it is skipped."""
    state: RunStepState
    code: str
    tries: int
    """How often it was begun."""
    action_id: str | None
    """Its call, or the last one of the agent that it waits for."""
    action_status: Status | None
    output: str
    """The beginning of what it left."""
    cut: bool
    """There is more of it than `output` has."""
    artifact_id: str | None
    """Where all of it is, when it is long."""
    label: Label
    started_at: str | None
    ended_at: str | None


class SopRunShown(SopRun, frozen=True, kw_only=True):
    """A run with its steps."""

    description: str
    file_hash: str
    """Of the file as it was when the run began."""
    changed: bool
    """The file is another by now; the run keeps the steps it was begun with."""
    labels: list[Label]
    """Untrusted sources that it has met."""
    steps: list[SopRunStep]


class SopStepListed(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a procedure."""

    id: str
    kind: str
    tool: str | None


class SopFault(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a procedure."""

    step: str
    """The step it is in; empty when it is the file as a whole."""
    message: str


class SopListed(msgspec.Struct, frozen=True, kw_only=True):
    """A procedure in the workspace."""

    name: str
    valid: bool
    description: str
    steps: list[SopStepListed]
    faults: list[SopFault]
    file_hash: str
    labels: list[str]
    """Untrusted sources its content may stem from: a run of it is tainted by them."""
