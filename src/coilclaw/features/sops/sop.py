"""SOPs: procedures the owner wrote down, and the pure rule that says what comes next in a run."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import StorageError
from coilclaw.store.sops import StepRow, StepState

MAX_STEPS = 50
MAX_FILE_BYTES = 128 * 1024
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$(?!\n)", description="Lower case, digits, - and _.")]
Kind: TypeAlias = Literal["tool", "agent", "approval"]


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of an SOP."""

    id: Annotated[Name, Meta(description="Unique within the SOP.")]
    kind: Annotated[Kind, Meta(description="A tool call, a bounded turn of the agent, or the owner's word.")]
    tool: Annotated[str, Meta(description="For a tool step: which tool.")] = ""
    args: Annotated[
        dict[str, Json],
        Meta(
            description="For a tool step: its arguments. `content_from` names an earlier step whose output becomes"
            " `content`."
        ),
    ] = {}
    prompt: Annotated[
        str, Meta(max_length=16_000, description="What the agent should do, or what the owner is asked.")
    ] = ""
    content_from: Annotated[
        str, Meta(description="For an agent step: the step whose output it is shown. Without it, the one before.")
    ] = ""
    tools: Annotated[
        tuple[str, ...] | None, Meta(description="For an agent step: the only tools it may call. Without it, any.")
    ] = None
    when: Annotated[
        str, Meta(description="`STEP.success`, `STEP.failed` or `STEP.skipped`: otherwise the step is skipped.")
    ] = ""
    on_failure: Annotated[
        Literal["abort", "continue"], Meta(description="Whether the run ends when this step fails.")
    ] = "abort"
    timeout: (
        Annotated[
            float,
            Meta(ge=1, le=3600, description="Timeout in seconds, not counting the time the owner takes to answer."),
        ]
        | None
    ) = None
    retry: Annotated[
        int, Meta(ge=0, le=5, description="How often to retry, with backoff, after a transient failure.")
    ] = 0


class Sop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A procedure: sops/<name>/SOP.toml."""

    name: Annotated[Name, Meta(description="The name of its folder.")]
    description: Annotated[str, Meta(max_length=500)] = ""
    steps: Annotated[tuple[Step, ...], Meta(min_length=1, max_length=MAX_STEPS)]


_SOP = msgspec.json.Decoder(Sop)


def freeze(sop: Sop) -> str:
    """The procedure as a run keeps it."""
    return msgspec.json.encode(sop).decode()


def thaw(text: str) -> Sop:
    """The procedure a run was begun with."""
    try:
        return _SOP.decode(text)
    except msgspec.DecodeError as error:
        raise StorageError(
            f"the steps stored with the run cannot be read: {error}.",
            remedy="Restore the database from a backup, or start a new run.",
        ) from error


# What comes next


class Go(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a step, or go on with it."""

    position: int
    attempt: int
    failures: int


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """Skip a step: its condition is not met."""

    position: int


class Over(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is left to do."""

    done: bool
    reason: str


Move: TypeAlias = Go | Skip | Over

OUTCOMES: dict[str, StepState] = {"success": "SUCCEEDED", "failed": "FAILED", "skipped": "SKIPPED"}
"""The words of a condition."""


def next_move(sop: Sop, rows: Mapping[str, StepRow]) -> Move:
    """What to do now, given what is on record. Pure, so that a new process comes to the same."""
    failed: list[str] = []
    for position, step in enumerate(sop.steps):
        row = rows.get(step.id)
        if row is None:
            return Go(position=position, attempt=0, failures=0) if _holds(step, rows) else Skip(position=position)
        if row.state in ("RUNNING", "WAITING"):
            return Go(position=position, attempt=row.attempt, failures=row.failures)
        if row.state == "HELD" or (row.state == "FAILED" and row.retriable and row.failures <= step.retry):
            return Go(position=position, attempt=row.attempt + 1, failures=row.failures)
        if row.state == "FAILED":
            if step.on_failure == "abort":
                return Over(done=False, reason=f"Step {step.id} failed ({row.code or 'no code'}).")
            failed.append(step.id)
    told = f" Failed, but the run continued: {', '.join(failed)}." if failed else ""
    return Over(done=True, reason=f"Every step has ended.{told}")


def _holds(step: Step, rows: Mapping[str, StepRow]) -> bool:
    if not step.when:
        return True
    name, _, outcome = step.when.rpartition(".")
    row = rows.get(name)
    return row is not None and row.state == OUTCOMES[outcome]
