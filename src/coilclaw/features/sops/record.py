"""What happens to a run is written in one transaction each: its row, its step, the word in its thread, the event."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from coilclaw.features.sops.sop import Sop, Step, freeze
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import INTERNAL, Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock, new_id
from coilclaw.packets.labels import join_labels, mark, untrusted_only
from coilclaw.store.sops import (
    OVER,
    SETTLED,
    ActionStand,
    RunRow,
    RunState,
    StepRow,
    StepState,
    action_is_told,
    add_run,
    load_run,
    move_run,
    put_step,
    steps_of_run,
    taint_run,
    whole_output,
)
from coilclaw.store.threads import MessageRow, add_message, ensure_thread, message_exists, thread_labels
from coilclaw.store.tx import Tx

Event: TypeAlias = Callable[[Tx, str, str, dict[str, Json]], None]
"""Writes an audit event in somebody's transaction."""

NOT_ITS_FAULT = frozenset({"ESTOP", "INTERRUPTED", "CANCELLED"})
"""Ends that came from outside, before or without an effect: the step is done again and that counts as no retry."""
MOST_TRIES = 20
"""After so many of them it is its fault all the same."""
MAY_PASS = frozenset({"RATE_LIMITED"})
"""Refusals that a later try may not meet."""


class At(msgspec.Struct, frozen=True, kw_only=True):
    """A try of a step of a run."""

    run: RunRow
    sop: Sop
    position: int
    attempt: int
    failures: int
    turn: Turn

    @property
    def step(self) -> Step:
        """The step."""
        return self.sop.steps[self.position]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a try of a step ended, or that it waits."""

    state: StepState
    code: str = ""
    output: str = ""
    label: Label = INTERNAL
    action_id: str | None = None
    retriable: bool = False


def ended_by(stand: ActionStand, *, cut: bool) -> Ended:
    """What an action's standing means for the step that proposed it. `cut`: we ended it, for want of time."""
    result = stand.result
    code = (result.code if result is not None else "") or stand.reason
    output = result.output if result is not None else stand.reason
    label = result.label if result is not None else INTERNAL
    state: StepState = "WAITING"
    retriable = False
    if stand.status == "EXECUTED":
        state, code = "SUCCEEDED", result.code if result is not None else ""
    elif stand.status in ("FAILED", "REJECTED"):
        state = "HELD" if code in NOT_ITS_FAULT and not cut else "FAILED"
        retriable = stand.status == "FAILED" or code in MAY_PASS
        code = "TIMED_OUT" if cut and code in NOT_ITS_FAULT else code
    elif stand.status == "UNKNOWN":
        code = "UNKNOWN"
    else:
        code, output = "APPROVAL_NEEDED" if stand.status == "PENDING" else "TRY_LATER", ""
    return Ended(state=state, code=code, output=output, label=label, action_id=stand.action_id, retriable=retriable)


class RunRecord:
    """Writes runs down."""

    def __init__(self, clock: Clock, event: Event) -> None:
        self._clock = clock
        self._event = event

    def start(self, tx: Tx, run: RunRow, sop: Sop, channel: str) -> RunRow:
        """A new run, in its thread; what the thread holds from earlier is inherited."""
        title = f"Procedure {sop.name}: {sop.description}".rstrip(": ")
        ensure_thread(tx, self._clock, run.thread_id, channel, title)
        earlier = untrusted_only((*run.inherited, *thread_labels(tx, run.thread_id)))
        run = add_run(tx, self._clock, msgspec.structs.replace(run, sop_json=freeze(sop), inherited=earlier))
        words = f"Run the procedure {sop.name}:\n{run.sop_json}"  # whole: it is the owner's own, on cards too
        _say(tx, self._clock, run, "user", words, run.file_label, f"msg_{run.run_id}", {})
        story: dict[str, Json] = {"name": run.name, "file_hash": run.file_hash, "job_id": run.job_id}
        self._event(tx, "sop_started", run.run_id, {**story, "taint": list(earlier)})
        return run

    def begin(self, tx: Tx, at: At) -> None:
        """A try of a step begins, or goes on."""
        before = steps_of_run(tx, at.run.run_id).get(at.step.id)
        row = StepRow(
            run_id=at.run.run_id,
            step_id=at.step.id,
            position=at.position,
            state="RUNNING",
            attempt=at.attempt,
            failures=at.failures,
            action_id=before.action_id if before is not None and before.attempt == at.attempt else None,
            started_at=before.started_at if before is not None else "",
        )
        put_step(tx, self._clock, row)
        move_run(tx, self._clock, at.run.run_id, state="RUNNING", position=at.position)
        if at.step.kind == "agent":
            self._open(tx, at)

    def _open(self, tx: Tx, at: At) -> None:
        """What the agent is shown: the output it works on, marked when others wrote it, and the owner's words.

        It is said once: another try goes on with the same conversation, so that it knows what was done already.
        """
        name = f"msg_{at.run.run_id}_{at.position}"
        if message_exists(tx, name):
            return
        about: dict[str, Json] = {"sop_step": at.step.id}
        source = source_of(at, steps_of_run(tx, at.run.run_id))
        if source is not None:
            text = f"Output of step {source.step_id}:\n{whole_output(tx, source) or source.output}"
            _say(tx, self._clock, at.run, "system", text, source.label, f"{name}_in", about)
        label = at.run.file_label
        _say(tx, self._clock, at.run, "user", mark(at.step.prompt, label, name), label, name, about)

    def skip(self, tx: Tx, run: RunRow, position: int, step: Step) -> None:
        """A step's condition is not met."""
        row = StepRow(run_id=run.run_id, step_id=step.id, position=position, state="SKIPPED", attempt=0)
        put_step(
            tx, self._clock, msgspec.structs.replace(row, code="WHEN", output=f"The condition {step.when} is not met.")
        )
        move_run(tx, self._clock, run.run_id, state="RUNNING", position=position)
        self._event(tx, "sop_step", run.run_id, {"step": step.id, "state": "SKIPPED"})

    def settle(self, tx: Tx, at: At, ended: Ended) -> None:
        """Record how an attempt of a step ended, once: a second writer finds it recorded."""
        before = steps_of_run(tx, at.run.run_id).get(at.step.id)
        known = before is not None and before.attempt == at.attempt
        if before is not None and known and (before.state in SETTLED or _same(before, ended)):
            return
        if ended.state == "HELD" and at.attempt >= MOST_TRIES:
            ended = msgspec.structs.replace(ended, state="FAILED", retriable=False)
        row = StepRow(
            run_id=at.run.run_id,
            step_id=at.step.id,
            position=at.position,
            state=ended.state,
            attempt=at.attempt,
            failures=at.failures + (ended.state == "FAILED"),
            retriable=ended.retriable,
            action_id=ended.action_id,
            code=ended.code,
            output=ended.output,
            label=ended.label,
            started_at=before.started_at if before is not None else "",
        )
        put_step(tx, self._clock, row, at.run.thread_id)
        taint_run(tx, at.run.run_id, at.turn.fresh, at.turn.inherited)
        if ended.action_id is not None and ended.state in ("SUCCEEDED", "FAILED") and at.step.kind == "tool":
            self._tell(tx, at, ended)
        story: dict[str, Json] = {"step": at.step.id, "state": ended.state, "code": ended.code, "attempt": at.attempt}
        self._event(tx, "sop_step", at.run.run_id, {**story, "action_id": ended.action_id, "label": ended.label})

    def _tell(self, tx: Tx, at: At, ended: Ended) -> None:
        """Post a call's outcome to the thread, whichever process carried it out; the gate reads its label there."""
        action_id = ended.action_id or ""
        if action_is_told(tx, at.run.thread_id, action_id):
            return
        text = f"Step {at.step.id}, {at.step.tool}: {ended.output}"
        _say(tx, self._clock, at.run, "system", text, ended.label, new_id("msg", self._clock()), {}, action_id)

    def move(self, tx: Tx, run: RunRow, turn: Turn, state: RunState, reason: str) -> None:
        """Where a run stands now; one that is over stays so."""
        now = load_run(tx, run.run_id)
        if now is None or now.state in OVER:
            return
        move_run(tx, self._clock, run.run_id, state=state, reason=reason)
        taint_run(tx, run.run_id, turn.fresh, turn.inherited)
        self._event(tx, "sop_state", run.run_id, {"state": state, "reason": reason})
        if state in ("DONE", "FAILED"):
            words = f"Procedure {run.name} ({run.run_id}): {state}. {reason}"
            name = f"msg_{run.run_id}_end"
            _say(tx, self._clock, run, "system", words, join_labels(turn.taint), name, {"sop_state": state})


def _same(before: StepRow, ended: Ended) -> bool:
    return (before.state, before.code, before.action_id) == (ended.state, ended.code, ended.action_id)


def source_of(at: At, rows: dict[str, StepRow]) -> StepRow | None:
    """The step whose output an agent step works on: the named one, else the last that left something."""
    if at.step.content_from:
        return rows.get(at.step.content_from)
    kinds = {step.id: step.kind for step in at.sop.steps}
    earlier = [row for row in rows.values() if row.position < at.position and kinds.get(row.step_id) != "approval"]
    return next((row for row in reversed(earlier) if row.state in ("SUCCEEDED", "FAILED")), None)


def _say(
    tx: Tx,
    clock: Clock,
    run: RunRow,
    role: str,
    text: str,
    label: Label,
    message_id: str,
    metadata: dict[str, Json],
    action_id: str | None = None,
) -> None:
    about: dict[str, Json] = {"sop_run": run.run_id, **metadata}
    if run.job_id is not None:
        about["job_id"] = run.job_id
    row = MessageRow(
        message_id=message_id,
        thread_id=run.thread_id,
        turn_id=run.turn_id,
        role="user" if role == "user" else "system",
        content=text,
        label=label,
        action_id=action_id,
        metadata=about,
    )
    ensure_thread(tx, clock, run.thread_id, "sop", f"Procedure {run.name}")  # its conversation may have been forgotten
    add_message(tx, clock, row)
