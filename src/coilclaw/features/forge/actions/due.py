"""What is due in Actions: the cron engine over `cron/jobs.json`, and where each schedule was left. Pure."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import msgspec

from coilclaw.features.schedules.catchup import EngineStuck, plan
from coilclaw.features.schedules.registry import Declared
from coilclaw.features.schedules.run_log import run_of
from coilclaw.features.schedules.store.schedules import SopPayload
from coilclaw.features.schedules.timetable import Told, slot_of, slot_text, tell, trigger_of
from coilclaw.features.schedules.triggers import next_after, stagger
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import JobPacket


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schedule was left."""

    timing: str
    """Hash of what says when it runs: another one starts anew."""
    counted_from: str
    """The newest slot that was considered."""


class DueRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose time has come."""

    run_instance_id: str
    scheduled_at: str
    lateness_seconds: int
    packet: JobPacket


class DispatchTick(msgspec.Struct, frozen=True, kw_only=True):
    """What one look found."""

    runs: tuple[DueRun, ...]
    left: dict[str, Left]
    told: dict[str, Json]
    """For the trail: each schedule in words, its next runs, what is started and what was skipped, and why."""


def due(
    declared: Iterable[Declared], before: Mapping[str, Left], now: datetime, job_id: Callable[[str], str]
) -> DispatchTick:
    """Everything that is due now, from where each schedule was left. A new one starts counting now."""
    runs: list[DueRun] = []
    left: dict[str, Left] = {}
    told: dict[str, Json] = {}
    for each in declared:
        if not each.enabled:
            continue
        name, timing = each.schedule_id, each.timing_hash()
        known = before.get(name)
        if known is None or known.timing != timing:
            known = Left(timing=timing, counted_from=slot_text(now))
        try:
            mine, skipped, left[name] = _due_of(each, known, now, job_id)
            words = tell(trigger_of(each.trigger_type, each.trigger_config, each.timezone), now)
        except (EngineStuck, UsageError) as error:
            told[name] = {"fault": str(error)}
            left[name] = known
            continue
        runs += mine
        told[name] = {**_words(words), "runs": [run.run_instance_id for run in mine], "skipped": skipped}
    return DispatchTick(runs=tuple(runs), left=left, told=told)


def _due_of(
    each: Declared, known: Left, now: datetime, job_id: Callable[[str], str]
) -> tuple[list[DueRun], list[Json], Left]:
    trigger = trigger_of(each.trigger_type, each.trigger_config, each.timezone)
    shift = stagger(each.schedule_id, each.options.stagger_seconds)
    first = next_after(trigger, slot_of(known.counted_from))
    if first is None or first + shift > now:
        return [], [], known
    found = plan(trigger, first, now, each.options, shift)
    words = tell(trigger, now)
    runs: list[DueRun] = []
    for slot in found.runs:
        late = max(0, int((now - slot - shift).total_seconds()))
        run = run_of(each.schedule_id, slot_text(slot), "due", late, words)
        runs.append(
            DueRun(
                run_instance_id=run.run_instance_id,
                scheduled_at=run.scheduled_at,
                lateness_seconds=late,
                packet=_packet(each, run.run_instance_id, run.scheduled_at, late, job_id(run.run_instance_id)),
            )
        )
    skipped: list[Json] = [
        {"first": slot_text(row.first), "last": slot_text(row.last), "slots": row.slots, "reason": row.reason}
        for row in found.skipped
    ]
    return runs, skipped, Left(timing=known.timing, counted_from=slot_text(found.counted_from))


def _packet(each: Declared, run: str, at: str, late: int, job_id: str) -> JobPacket:
    about: dict[str, Json] = {
        "schedule_id": each.schedule_id, "run_instance_id": run, "scheduled_at": at, "lateness_seconds": late,
    }  # fmt: skip
    payload = each.payload
    sop: dict[str, Json] = {"sop": payload.sop} if isinstance(payload, SopPayload) else {}
    intent = f"Follow the procedure {payload.sop}." if isinstance(payload, SopPayload) else payload.intent
    return JobPacket(
        job_id=job_id,
        intent=intent,
        inputs={**payload.inputs, **sop, "schedule_run": about},
        constraints=payload.constraints,
        outputs=payload.outputs,
    )


def _words(told: Told) -> dict[str, Json]:
    return {
        "cron_summary": told.cron_summary,
        "cron_notes": told.cron_notes,
        "next_runs_utc": list(told.next_runs_utc),
        "next_runs_local": list(told.next_runs_local),
    }
