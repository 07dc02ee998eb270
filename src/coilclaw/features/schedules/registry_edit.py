"""Editing the registry: one change to the file as it stands, order and unknown fields kept, the derived derived anew.

The file is read, changed and replaced in the transaction that takes it over, so two edits cannot undo each other.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TypeAlias, cast

import msgspec

from coilclaw.features.schedules.registry import Declared, EntriesRead, Registry, RegistryBroken, read_registry
from coilclaw.features.schedules.store.schedule_runs import last_started
from coilclaw.features.schedules.store.schedules import declared_hashes, get_mark
from coilclaw.features.schedules.sync import (
    EMPTY,
    By,
    Objections,
    Source,
    apply,
    good_hashes,
    no_plain_file,
    nothing_against,
    untrusted_registry,
)
from coilclaw.features.schedules.timetable import check_trigger, slot_text, tell, trigger_of
from coilclaw.packets.canonical import Json, JsonObject, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock
from coilclaw.packets.names import did_you_mean
from coilclaw.store.tx import Tx

Fields: TypeAlias = dict[str, Json]
Edit: TypeAlias = Callable[[list[Fields]], None]
"""Changes the list of entries in place."""

TRIES = 5


def edit_registry(
    tx: Tx,
    clock: Clock,
    source: Source,
    write: Callable[[bytes], None],
    edit: Edit,
    objections: Objections = nothing_against,
    by: By = "cli",
) -> Registry:
    """Make one change, in the caller's transaction; a file that is broken or gone is not touched. What is new in it
    must be something that can begin."""
    for _ in range(TRIES):
        seen, last_written = source.stamp(), source.written()
        written, after = _drafted(tx, clock(), source, edit, objections)
        if source.stamp() != seen:  # the owner saved it meanwhile: their change stays, ours is made to it
            continue
        write(written)
        done = apply(tx, clock, after, sha256_hex(written), by=by, written=last_written)
        return msgspec.structs.replace(after, hints=(*after.hints, *done.hints))
    raise UsageError("cron/jobs.json keeps changing.", remedy="Try again when nothing else is writing it.")


def _drafted(tx: Tx, now: datetime, source: Source, edit: Edit, objections: Objections) -> tuple[bytes, Registry]:
    """The file as it will be."""
    known = good_hashes(tx)
    entries_read: EntriesRead = {}  # the file is read three times; what the edit leaves alone, once
    before = read_registry(_there(tx, source), known, source.redact, entries_read)
    fields = dict(before.fields)
    jobs = [dict(cast("JsonObject", job)) for job in cast("list[Json]", fields.get("jobs", []))]
    edit(jobs)
    try:
        draft = read_registry(_encoded({**fields, "jobs": jobs}), known, source.redact, entries_read)
    except RegistryBroken as error:  # the file itself is sound, so no place in it is named
        raise UsageError(_sentence(fault.text for fault in error.faults)) from error
    changed = _changed(before, draft)
    for job, declared in zip(jobs, draft.declared, strict=True):
        if declared.schedule_id in changed:
            if declared.enabled:
                check_trigger(declared.trigger_type, declared.trigger_config, declared.timezone, now)
            _can_begin(declared, changed[declared.schedule_id], objections)
            _derive(tx, job, declared, now)
    fields.update({"updated_at": slot_text(now), "jobs": jobs})
    written = _encoded(fields)
    return written, read_registry(written, known, source.redact, entries_read)


def _there(tx: Tx, source: Source) -> bytes:
    """The file as it lies there; an empty one only if none was ever taken over, or nothing stood in it."""
    data = source.read()
    if data is None and source.stamp() is not None:
        raise UsageError("cron/jobs.json is not a regular file.", remedy="Move it aside, then try again.")
    if data is None and get_mark(tx, "taken") and declared_hashes(tx):
        raise UsageError(
            "cron/jobs.json is missing, and writing a new one would lose the schedules it contained.",
            remedy='Restore it, or write {"version": 1, "jobs": []} there to start over.',
        )
    labels = source.labels() if data is not None else ()
    if labels:  # writing it anew would make it the owner's
        raise untrusted_registry(labels, held=source.held())
    return EMPTY if data is None else data


def _can_begin(declared: Declared, old: Declared | None, objections: Objections) -> None:
    """What a run does, or that it runs at all, is new: then nothing may stand in its way."""
    same = old is not None and old.payload == declared.payload and (old.enabled or not declared.enabled)
    found = () if same else objections(declared)
    if found:
        raise UsageError(" ".join(found))


def _sentence(texts: Iterable[str]) -> str:
    text = "; ".join(texts)
    return text if text.endswith(("?", ".")) else f"{text}."


def _encoded(fields: Mapping[str, Json]) -> bytes:
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode("utf-8")


def _changed(before: Registry, after: Registry) -> dict[str, Declared | None]:
    """What is another than before, and what it was."""
    old = {declared.schedule_id: declared for declared in before.declared}
    names = (each.schedule_id for each in after.declared if old.get(each.schedule_id) != each)
    return {name: old.get(name) for name in names}


def _derive(tx: Tx, job: Fields, declared: Declared, now: datetime) -> None:
    """The fields that are only for reading."""
    told = tell(trigger_of(declared.trigger_type, declared.trigger_config, declared.timezone), now)
    job["cron_summary"] = told.cron_summary
    job["cron_notes"] = told.cron_notes
    job["next_runs_utc"] = list(told.next_runs_utc) if declared.enabled else []
    job["next_runs_local"] = list(told.next_runs_local) if declared.enabled else []
    last = last_started(tx, declared.schedule_id)
    if last is not None:
        job["last_run"] = {"at": last.at, "status": last.status}


# Changes


def adding(entry: Fields) -> Edit:
    """One more entry."""

    def edit(jobs: list[Fields]) -> None:
        if any(job.get("job_id") == entry["job_id"] for job in jobs):
            raise UsageError(
                f"there is already a schedule {entry['job_id']!r}.",
                remedy=f"Change it with `coilclaw schedule edit {entry['job_id']}`, or choose another --id.",
            )
        jobs.append(entry)

    return edit


def changing(schedule_id: str, changes: Mapping[str, Json]) -> Edit:
    """Other values for some fields of an entry; None takes a field away, an object is merged into the one there."""

    def edit(jobs: list[Fields]) -> None:
        job = _find(jobs, schedule_id)
        _merge(job, changes)

    return edit


def removing(schedule_id: str) -> Edit:
    """One entry less."""

    def edit(jobs: list[Fields]) -> None:
        jobs.remove(_find(jobs, schedule_id))

    return edit


def _merge(into: Fields, changes: Mapping[str, Json]) -> None:
    for name, value in changes.items():
        there = into.get(name)
        if value is None:
            into.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(there, Mapping):
            inner = dict(there)
            _merge(inner, value)
            into[name] = inner
        else:
            into[name] = value


def _find(jobs: list[Fields], schedule_id: str) -> Fields:
    for job in jobs:
        if job.get("job_id") == schedule_id:
            return job
    ids = sorted(str(job.get("job_id")) for job in jobs)
    raise UsageError(f"cron/jobs.json has no schedule {schedule_id!r}.", remedy=did_you_mean(schedule_id, ids))


def broken_now(source: Source, known: Mapping[str, str]) -> RegistryBroken | None:
    """What is wrong with the file as it lies there; None when nothing is."""
    data = source.read()
    if data is None:
        return None if source.stamp() is None else no_plain_file()
    try:
        read_registry(data, known, source.redact)
    except RegistryBroken as error:
        return error
    labels = source.labels()
    return untrusted_registry(labels, held=source.held()) if labels else None
