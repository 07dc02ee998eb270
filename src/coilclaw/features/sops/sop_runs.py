"""Procedures and their runs over HTTP: those begun at a terminal, and those that are the work of jobs."""

from typing import TYPE_CHECKING, cast

import msgspec

from coilclaw.features.jobs.job_views import pending_of_turn
from coilclaw.features.jobs.questions import question_of
from coilclaw.features.sops.views import (
    RunStepState,
    SopFault,
    SopListed,
    SopRun,
    SopRunShown,
    SopRunStep,
    SopStepListed,
)
from coilclaw.packets.errors import StorageError
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.text import visible
from coilclaw.server.serving import Serving

if TYPE_CHECKING:
    from coilclaw.features.sops.sop import Sop, Step
    from coilclaw.features.sops.sop_files import SopFile
    from coilclaw.store.sops import RunRow, StepRow

OUTPUT_CHARACTERS = 2000
"""Of what a step left, so many are shown; the rest is with its action or its artifact."""
LOOKED_AT = 20_000
"""Secrets are looked for further than is shown: half of one would not be seen as one."""


class SopRuns:
    """The procedures of one home, and their runs."""

    def __init__(self, serving: Serving) -> None:
        from coilclaw.features.sops.procedures import Procedures

        self._app = serving.runtime
        self._core = serving.core
        self._procedures = Procedures(serving.runtime, conveyor=serving.core.conveyor)

    def sops(self) -> list[SopListed]:
        """Every procedure in the workspace, also those that do not hold."""
        from coilclaw.features.sops.sop_files import SopFiles

        return [_sop_listed(file) for file in SopFiles(self._app).every()]

    def listed(self, run_id: str) -> SopRun | None:
        """A run for a list; None when it cannot be read."""
        try:
            run = self._procedures.standing(run_id)
            return None if run is None else self._listed(run, *self._read(run))
        except StorageError:
            return None

    def shown(self, run_id: str) -> SopRunShown | None:
        """A run with its steps; None when there is none."""
        run = self._procedures.standing(run_id)
        if run is None:
            return None
        sop, rows = self._read(run)
        return SopRunShown(
            **msgspec.structs.asdict(self._listed(run, sop, rows)),
            description=visible(sop.description),
            file_hash=run.file_hash,
            changed=self._procedures.changed(run),
            labels=list(untrusted_only((*run.fresh, *run.inherited))),
            steps=[self._step(step, rows.get(step.id)) for step in sop.steps],
        )

    def _read(self, run: "RunRow") -> "tuple[Sop, dict[str, StepRow]]":
        from coilclaw.features.sops.sop import thaw
        from coilclaw.store.sops import steps_of_run

        return thaw(run.sop_json), steps_of_run(self._app.db.reader, run.run_id)

    def _listed(self, run: "RunRow", sop: "Sop", rows: "dict[str, StepRow]") -> SopRun:
        at = _place(run, sop, rows)
        waits = run.state == "WAITING"
        asked = pending_of_turn(self._app, run.turn_id) if waits else []
        return SopRun(
            run_id=run.run_id,
            name=run.name,
            state=run.state,
            working=self._procedures.held(run),
            answered=waits and self._procedures.answered(run),
            reason=run.reason,
            step=at + 1,
            of=len(sop.steps),
            step_id=sop.steps[at].id,
            waiting=[question_of(self._core, action) for action in asked],
            job_id=run.job_id,
            thread_id=run.thread_id,
            created_at=run.created_at,
            updated_at=run.updated_at,
        )

    def _step(self, step: "Step", row: "StepRow | None") -> SopRunStep:
        from coilclaw.packets.action import INTERNAL
        from coilclaw.store.sops import action_stand

        action = action_stand(self._app.db.reader, row.action_id) if row is not None and row.action_id else None
        output = "" if row is None else self._core.said(row.output[:LOOKED_AT])
        return SopRunStep(
            id=step.id,
            kind=step.kind,
            tool=step.tool or None,
            prompt=visible(step.prompt),
            when=step.when,
            state="TO_DO" if row is None else cast("RunStepState", row.state),
            code="" if row is None else row.code,
            tries=0 if row is None or row.state == "SKIPPED" else row.attempt + 1,
            action_id=None if row is None else row.action_id,
            action_status=None if action is None else action.status,
            output=visible(output[:OUTPUT_CHARACTERS]),
            cut=len(output) > OUTPUT_CHARACTERS or (row is not None and row.artifact_id is not None),
            artifact_id=None if row is None else row.artifact_id,
            label=INTERNAL if row is None else row.label,
            started_at=None if row is None else row.started_at,
            ended_at=None if row is None else row.ended_at,
        )


def _place(run: "RunRow", sop: "Sop", rows: "dict[str, StepRow]") -> int:
    """The step a run stands at, counted from 0, told from what is on record: that is there before it has gone on."""
    from coilclaw.features.sops.sop import Over, next_move
    from coilclaw.store.sops import OVER

    last = len(sop.steps) - 1
    if run.state not in OVER:
        move = next_move(sop, rows)
        if not isinstance(move, Over):
            return move.position
    return min(run.position, last)


def _sop_listed(file: "SopFile") -> SopListed:
    made = file.read.sop
    return SopListed(
        name=file.name,
        valid=made is not None,
        description=made.description if made is not None else "",
        steps=[SopStepListed(id=step.id, kind=step.kind, tool=step.tool or None) for step in made.steps]
        if made is not None
        else [],
        faults=[SopFault(step=fault.step or "", message=fault.message) for fault in file.read.faults],
        file_hash=file.file_hash,
        labels=list(file.labels),
    )
