"""The registry: `cron/jobs.json`, in which the owner declares schedules. Read strictly; a fault is pointed at. Pure."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias, cast

import msgspec

from coilclaw.features.jobs.job_spec import check_goal, faults, steps_of
from coilclaw.features.schedules.durations import read_duration
from coilclaw.features.schedules.store.schedules import (
    JobPayload,
    Misfire,
    Options,
    Overlap,
    Payload,
    SopPayload,
    TriggerType,
)
from coilclaw.features.schedules.timetable import EPOCH, check_trigger
from coilclaw.lib.json_position import Path, Place, key_twice, place_at, place_of, places_of
from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, canonical_bytes, parse_object, sha256_hex
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.packets.job import Constraints, JobSpec, Outputs
from coilclaw.packets.text import one_line

REGISTRY = "cron/jobs.json"
"""Below the workspace."""

REGISTRY_BYTES = 64 << 20
MAX_JOBS = 200_000
MAX_FAULTS = 20
DAY = 86_400
FOLLOWUP = "followup_"
"""What the ids of follow-ups begin with; the registry may not use it."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_SOP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_WHERE = re.compile(r"(?P<what>.*?)(?: - at (?:key in )?`\$(?P<path>[^`]*)`)?\Z", re.DOTALL)
_PART = re.compile(r"\.([A-Za-z0-9_]+)|\[(\d+)\]")


class EntrySpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is to do."""

    intent: str
    """The goal of each run's job, in your words."""
    inputs: dict[str, Json] = {}
    """Told to the job with its goal; `steps` is a list of the plan's steps."""
    constraints: Constraints = Constraints()
    """Limits of each run's job; they only narrow what the configuration grants."""
    outputs: Outputs = Outputs()
    """What each run must leave behind."""


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """How the last run ended when the file was written."""

    at: str | None = None
    status: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule as the registry declares it. Fields nobody knows are kept."""

    job_id: str
    """The schedule's id."""
    timezone: str
    """An IANA zone such as Europe/Berlin."""
    enabled: bool = True
    """Whether it runs at all."""
    trigger: TriggerType = "cron"
    """Which of `cron`, `interval` and `at` says when."""
    cron: str | None = None
    """Five fields: minute, hour, day of the month, month, day of the week."""
    schedule_cron: str | None = None
    """Another name for `cron`."""
    interval: str | None = None
    """Time between two runs, such as 90m or 24h."""
    anchor: str | None = None
    """For an interval: an instant that its runs are counted from; 1970-01-01T00:00:00Z when there is none."""
    at: str | None = None
    """The one time it runs: local in its zone, or with an offset."""
    job_spec: EntrySpec | None = None
    """What a run does, unless it follows an SOP."""
    sop: str | None = None
    """The SOP that a run follows."""
    project: str | None = None
    """The project that runs work in; the workspace when there is none."""
    misfire: Misfire = "run_once"
    """What becomes of missed slots: the newest is run, all of them are (at most 20), or none."""
    catch_up_window: str | None = None
    """How late a missed slot may still be run: 24h when not said, any time for `at`."""
    overlap: Overlap = "skip"
    """When the last run is not over: skip the slot, queue one, run beside it, or replace it."""
    stagger: str = "0s"
    """Starts are spread over this window, each schedule at a place of its own."""
    max_failures: int = 5
    """Failures in a row after which it pauses; 0 is never."""
    cron_summary: str | None = None
    """Derived: the schedule in words."""
    cron_notes: str | None = None
    """Derived: what may surprise."""
    next_runs_utc: tuple[str, ...] = ()
    """Derived: the next runs in UTC."""
    next_runs_local: tuple[str, ...] = ()
    """Derived: the next runs in its zone."""
    last_run: LastRun | None = None
    """Derived when the file is written; where runs stand is in the database."""


class RegistryFile(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    version: Literal[1]
    jobs: tuple[Entry, ...] = ()
    updated_at: str | None = None


class Declared(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A schedule that was read and found sound."""

    schedule_id: str
    trigger_type: TriggerType
    trigger_config: dict[str, Json]
    payload: Payload
    timezone: str
    enabled: bool
    options: Options

    @cached_property
    def declared_hash(self) -> str:
        """Of everything that is declared; computed once, since every edit compares all of them."""
        return _hash(self)

    def timing_hash(self) -> str:
        """Of what says when it runs."""
        return _hash([self.trigger_type, self.trigger_config, self.timezone, self.enabled])


def _hash(value: object) -> str:
    plain: Json = msgspec.to_builtins(value)
    return sha256_hex(canonical_bytes(plain))


EntriesRead: TypeAlias = dict[bytes, Declared]
"""Entries that were read and found sound, by their exact JSON."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong in the file, and where."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{REGISTRY}, {self.place}: {self.text}"


class RegistryBroken(CoilclawError):
    """The file cannot be taken over; every fault found is listed."""

    exit_code = 2

    def __init__(self, found: tuple[Fault, ...]) -> None:
        super().__init__(
            "; ".join(str(fault).rstrip(".") for fault in found[:MAX_FAULTS]) + ".",
            remedy="The last valid schedules keep running. Fix the file, then see `coilclaw schedule list`.",
        )
        self.faults = found


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read."""

    fields: JsonObject
    """As it stands, unknown fields included."""
    declared: tuple[Declared, ...]
    hints: tuple[str, ...]
    """Fields that nobody knows and that look like a slip."""


class _Wrong(Exception):
    """A fault at a path inside an entry."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text


def as_it_is(text: str) -> str:
    """Where nobody knows any secrets."""
    return text


def read_registry(
    data: bytes,
    known: Mapping[str, str] | None = None,
    redact: Callable[[str], str] = as_it_is,
    entries_read: EntriesRead | None = None,
) -> Registry:
    """Every schedule in the file, or RegistryBroken. What `known` has under its id with its hash was checked before.
    A secret in it is a fault: what is declared is stored, listed and told to the model. Whoever reads several versions
    of the file passes the same `entries_read` each time: an entry that did not change is then read once."""
    text = _text(data)
    fields = _parse(text)
    jobs = _top(text, fields)
    seen: dict[str, int] = {}
    declared: list[Declared] = []
    hints: list[str] = []
    found: list[tuple[Path, str]] = []
    twice: dict[int, Path] = {}
    entries_read = {} if entries_read is None else entries_read
    for number, job in enumerate(jobs):
        try:
            exact = msgspec.json.encode(job)
            one = entries_read.get(exact) or _declared(job, known or {}, redact)
            entries_read[exact] = one
            if one.schedule_id in seen:
                twice[len(found)] = ("jobs", seen[one.schedule_id], "job_id")
                found.append((("jobs", number, "job_id"), f"the job_id {one.schedule_id!r} appears twice"))
            seen.setdefault(one.schedule_id, number)
            declared.append(one)
            hints += _slips(one.schedule_id, cast("JsonObject", job))
        except _Wrong as wrong:
            found.append((("jobs", number, *wrong.path), wrong.text))
        if len(found) >= MAX_FAULTS:
            break
    if found:
        raise RegistryBroken(_placed_faults(text, found, twice, redact))
    return Registry(fields=fields, declared=tuple(declared), hints=tuple(hints))


def _placed_faults(
    text: str, found: Sequence[tuple[Path, str]], twice: Mapping[int, Path], redact: Callable[[str], str]
) -> tuple[Fault, ...]:
    """Faults with their places; `twice` says of some of them where the same stands already."""
    places = places_of(text, [*(path for path, _ in found), *twice.values()])
    first = dict(zip(twice, places[len(found) :], strict=True))
    more = {number: f"; the first is at {place}" for number, place in first.items()}
    return tuple(
        Fault(place=places[number], text=redact(what) + more.get(number, "")) for number, (_, what) in enumerate(found)
    )


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        place = Place(line, error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1)
        raise RegistryBroken((Fault(place=place, text="this is not UTF-8 text"),)) from error


def _parse(text: str) -> JsonObject:
    try:
        return parse_object(text)
    except NotCanonical as error:
        raise RegistryBroken((_not_json(text, error),)) from error


def _not_json(text: str, error: NotCanonical) -> Fault:
    try:
        json.loads(text)
    except json.JSONDecodeError as inner:
        return Fault(place=Place(inner.lineno, inner.colno), text=f"this is not JSON: {inner.msg}")
    except (ValueError, RecursionError):
        pass
    twice = key_twice(text)
    if twice is not None:
        return Fault(place=twice[1], text=f"the key {one_line(twice[0][:80])!r} appears twice in one object")
    return Fault(place=place_at(text, 0), text=one_line(str(error)))


def _top(text: str, fields: JsonObject) -> list[Json]:
    def fault(path: Path, what: str) -> RegistryBroken:
        return RegistryBroken((Fault(place=place_of(text, path), text=what),))

    if "version" not in fields:
        raise fault((), 'the field "version" is missing; write "version": 1')
    if fields["version"] != 1 or isinstance(fields["version"], bool):
        raise fault(("version",), "the version must be 1")
    jobs = fields.get("jobs", [])
    if not isinstance(jobs, list):
        raise fault(("jobs",), "jobs must be a list")
    if len(jobs) > MAX_JOBS:
        raise fault(("jobs", MAX_JOBS), f"there are more than {MAX_JOBS} jobs")
    return jobs


def _slips(schedule_id: str, job: JsonObject) -> list[str]:
    from difflib import get_close_matches

    names = Entry.__struct_fields__
    hints: list[str] = []
    for name in job:
        near = [] if name in names else get_close_matches(name, names, n=1, cutoff=0.8)
        if near:
            hints.append(f"{schedule_id}: unknown field {one_line(name)!r}; did you mean {near[0]}?")
    return hints


# One entry


def _declared(job: Json, known: Mapping[str, str], redact: Callable[[str], str]) -> Declared:
    try:
        entry = msgspec.convert(job, Entry)
    except msgspec.ValidationError as error:
        raise _placed(str(error)) from error
    if not _ID.match(entry.job_id):
        raise _Wrong(
            ("job_id",), "a job_id is 1 to 64 letters, digits, `_`, `.` or `-`, beginning with a letter or digit"
        )
    if entry.job_id.startswith(FOLLOWUP):
        raise _Wrong(("job_id",), f"ids that begin with {FOLLOWUP} belong to the agent's own follow-ups")
    config = _config(entry)
    made = Declared(
        schedule_id=entry.job_id,
        trigger_type=entry.trigger,
        trigger_config=config,
        payload=_payload(entry, cast("JsonObject", job)),
        timezone=entry.timezone,
        enabled=entry.enabled,
        options=_options(entry),
    )
    if known.get(entry.job_id) != made.declared_hash:
        _check_time(entry, made)
        _check_spec(entry)
        _check_secrets(entry, redact)
    return made


def _placed(text: str) -> _Wrong:
    match = _WHERE.match(text)
    what, where = (match["what"], match["path"] or "") if match else (text, "")
    path = [name or int(number) for name, number in _PART.findall(where)]
    return _Wrong(path, one_line(what[:1].lower() + what[1:]))


def _field(entry: Entry) -> str:
    """The field that says when."""
    return "schedule_cron" if entry.trigger == "cron" and entry.cron is None else entry.trigger


def _config(entry: Entry) -> dict[str, Json]:
    given = {"cron": entry.cron, "schedule_cron": entry.schedule_cron, "interval": entry.interval, "at": entry.at}
    needed = _field(entry)
    for name, value in given.items():
        if name != needed and value is not None:
            if name == "schedule_cron" and entry.trigger == "cron":
                raise _Wrong((name,), '"cron" and "schedule_cron" are the same field; remove "schedule_cron"')
            raise _Wrong(
                (name,), f'the trigger is {entry.trigger}, so "{name}" has no effect; set "trigger" or remove it'
            )
    if given[needed] is None:
        raise _Wrong((), f'a trigger of kind {entry.trigger} needs the field "{entry.trigger}"')
    if entry.anchor is not None and entry.trigger != "interval":
        raise _Wrong(("anchor",), "only an interval trigger has an anchor")
    value = given[needed] or ""
    if entry.trigger == "interval":
        seconds = _within("interval", value, 60, 3660 * DAY)
        return {"every_seconds": seconds, "anchor": entry.anchor or EPOCH}
    return {"cron" if entry.trigger == "cron" else "at": value.strip()}


def _within(field: str, text: str, least: int, most: int) -> int:
    try:
        return read_duration(text, least=least, most=most)
    except UsageError as error:
        raise _Wrong((field,), str(error).rstrip(".")) from error


def _options(entry: Entry) -> Options:
    if not 0 <= entry.max_failures <= 1000:
        raise _Wrong(("max_failures",), "max_failures is a number from 0 (never pause) to 1000")
    window: int | None = None if entry.trigger == "at" else DAY
    if entry.catch_up_window is not None:
        window = _within("catch_up_window", entry.catch_up_window, 0, 3660 * DAY)
    return Options(
        misfire=entry.misfire,
        catch_up_seconds=window,
        overlap=entry.overlap,
        stagger_seconds=_within("stagger", entry.stagger, 0, DAY),
        max_failures=entry.max_failures,
    )


def _payload(entry: Entry, job: JsonObject) -> Payload:
    if entry.job_spec is not None:
        _known_names(cast("JsonObject", job["job_spec"]), "constraints", Constraints)
        _known_names(cast("JsonObject", job["job_spec"]), "outputs", Outputs)
    if entry.sop is not None:
        if not _SOP.match(entry.sop):
            raise _Wrong(("sop",), "a procedure's name is letters, digits, `_` and `-`")
        spec = entry.job_spec
        return SopPayload(
            sop=entry.sop,
            project=entry.project or msgspec.UNSET,
            inputs={} if spec is None else spec.inputs,
            constraints=Constraints() if spec is None else spec.constraints,
            outputs=Outputs() if spec is None else spec.outputs,
        )
    if entry.job_spec is None:
        raise _Wrong((), 'it does nothing: give it a "job_spec" with an "intent", or an "sop"')
    spec = entry.job_spec
    return JobPayload(
        intent=spec.intent,
        inputs=spec.inputs,
        constraints=spec.constraints,
        outputs=spec.outputs,
        project=entry.project or msgspec.UNSET,
    )


def _known_names(spec: JsonObject, field: str, shape: type[msgspec.Struct]) -> None:
    """A limit that nobody knows would not be enforced, so it is refused rather than kept."""
    given = spec.get(field)
    for name in given if isinstance(given, Mapping) else ():
        if name not in shape.__struct_fields__:
            from coilclaw.packets.names import did_you_mean

            hint = did_you_mean(name, shape.__struct_fields__).rstrip(".")
            raise _Wrong(("job_spec", field, name), f"{one_line(name)!r} is not enforced. {hint}")


def _check_time(entry: Entry, made: Declared) -> None:
    """The zone and the trigger, as the engine reads them."""
    for path, check in _time_checks(entry, made):
        try:
            check()
        except UsageError as error:
            raise _Wrong(path, str(error).rstrip(".")) from error


def _time_checks(entry: Entry, made: Declared) -> tuple[tuple[Path, Callable[[], None]], ...]:
    field = "anchor" if entry.trigger == "interval" else _field(entry)
    return (
        (("timezone",), lambda: check_trigger("interval", {"every_seconds": 60, "anchor": EPOCH}, entry.timezone)),
        ((field,), lambda: check_trigger(made.trigger_type, made.trigger_config, entry.timezone)),
    )


def _check_spec(entry: Entry) -> None:
    if entry.job_spec is None:
        return
    spec = JobSpec(
        job_id=entry.job_id,
        intent=entry.job_spec.intent,
        inputs=entry.job_spec.inputs,
        constraints=entry.job_spec.constraints,
        outputs=entry.job_spec.outputs,
    )
    try:
        check_goal(spec.intent)
        steps_of(spec)
    except UsageError as error:
        raise _Wrong(("job_spec", "intent"), str(error).rstrip(".")) from error
    wrong = faults(spec)
    if wrong:
        named = wrong[0].split(":")[0].split(" ")[0]
        where = "outputs" if named in Outputs.__struct_fields__ else "constraints"
        raise _Wrong(("job_spec", where, named), "; ".join(wrong))


def _check_secrets(entry: Entry, redact: Callable[[str], str]) -> None:
    spec = entry.job_spec
    for field, value in () if spec is None else (("intent", spec.intent), ("inputs", spec.inputs)):
        if any(redact(text) != text for text in _texts(value)):
            raise _Wrong(
                ("job_spec", field), "this contains a secret; refer to it by the name of its environment variable"
            )


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)
