"""Preview: what a trigger means and when it would run, told while it is being written; every fault with its field."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from coilclaw.features.schedules.durations import read_duration
from coilclaw.features.schedules.store.schedules import TriggerType
from coilclaw.features.schedules.timetable import slot_text, tell, trigger_of
from coilclaw.features.schedules.triggers import GRACE, LONGEST, SHORTEST, AtTrigger, Trigger, check_trigger
from coilclaw.lib.cron.time_format import WALL, moment_of, spoken
from coilclaw.lib.cron.zones import zones
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError

T = TypeVar("T")
Text: TypeAlias = Annotated[str, Meta(max_length=200)]
Field: TypeAlias = Literal["trigger", "cron", "interval", "at", "timezone", "after"]
KINDS: tuple[TriggerType, ...] = ("cron", "interval", "at")
"""The triggers there are; each has a field of its name that says when."""


class PreviewAsk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trigger as far as it is written. One of `cron`, `interval` and `at` says when."""

    trigger: TriggerType | None = None
    """Which of the three counts; may be left out when only one is there."""
    cron: Text | None = None
    interval: Text | None = None
    every: Text | None = None
    """Another name for `interval`."""
    at: Text | None = None
    timezone: Text | None = None
    """The IANA zone; an interval needs none."""
    after: Text | None = None
    """Runs after this moment are shown; now when left out."""
    count: Annotated[int, Meta(ge=1, le=50)] = 5


class PreviewFault(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong, and in which field."""

    field: Field
    fault: str
    remedy: str
    """The right spelling, where it can be told."""
    meant: list[str] = []
    """What could be written there instead."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger means, or what is wrong with it."""

    valid: bool
    fault: str
    """The first of the faults; empty when there is none."""
    remedy: str
    faults: list[PreviewFault]
    cron_summary: str
    """When it runs, in words."""
    cron_notes: str | None
    """What may surprise about that."""
    plain_summary: str
    """When it runs, as people say it."""
    plain_notes: list[str]
    """What may surprise about that, as people say it."""
    next_runs_utc: list[str]
    next_runs_local: list[str]
    """The same by the clocks of the zone."""


def preview(asked: PreviewAsk, now: datetime) -> Preview:
    """Look at a trigger."""
    return _Reading(asked, now).told()


class _Reading:
    """One look, with the faults found so far."""

    def __init__(self, asked: PreviewAsk, now: datetime) -> None:
        self._asked = msgspec.structs.replace(asked, interval=asked.interval or asked.every)
        self._now = now
        self._faults: list[PreviewFault] = []

    def told(self) -> Preview:
        kind, zone = self._kind(), self._zone()
        trigger = None if kind is None else self._trigger(kind, zone or "UTC")
        after = self._now
        if self._asked.after:
            text = self._asked.after
            after = self._try("after", lambda: moment_of(text, "the time")) or self._now
        if trigger is None or self._faults:
            first = self._faults[0]
            return Preview(
                valid=False,
                fault=first.fault,
                remedy=first.remedy,
                faults=self._faults,
                cron_summary="",
                cron_notes=None,
                plain_summary="",
                plain_notes=[],
                next_runs_utc=[],
                next_runs_local=[],
            )
        words = tell(trigger, after, self._asked.count)
        return Preview(
            valid=True,
            fault="",
            remedy="",
            faults=[],
            cron_summary=words.cron_summary,
            cron_notes=words.cron_notes,
            plain_summary=words.plain_summary,
            plain_notes=[*words.plain_notes, *self._moved(trigger)],
            next_runs_utc=list(words.next_runs_utc),
            next_runs_local=list(words.next_runs_local),
        )

    def _fault(self, field: Field, fault: str, remedy: str, meant: list[str] | None = None) -> None:
        self._faults.append(PreviewFault(field=field, fault=fault, remedy=remedy, meant=meant or []))

    def _try(self, field: Field, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except UsageError as error:
            meant = zones().near(self._asked.timezone or "") if field == "timezone" else []
            self._fault(field, error.message, error.remedy, meant)
            return None

    def _moved(self, trigger: Trigger) -> list[str]:
        """A time that the clocks leave out is taken as the next there is."""
        text = (self._asked.at or "").strip()
        if not isinstance(trigger, AtTrigger) or not WALL.fullmatch(text):
            return []
        asked, zone = moment_of(f"{text}Z", "the time").replace(tzinfo=None), zones().get(trigger.timezone)
        taken = trigger.at.astimezone(zone).replace(tzinfo=None)
        if taken == asked:
            return []
        return [f"{asked:%H:%M} does not exist on that day because the clocks go forward: it runs at {taken:%H:%M}."]

    def _kind(self) -> TriggerType | None:
        given: list[TriggerType] = [kind for kind in KINDS if getattr(self._asked, kind)]
        kind = self._asked.trigger
        if kind is not None:
            if kind not in given:
                self._fault(kind, "the schedule has no time.", f"Fill in {kind}.")
                return None
            return kind
        if len(given) > 1:
            self._fault("trigger", f"{' and '.join(given)} exclude each other.", "Choose one with trigger.")
        elif not given:
            self._fault("trigger", "the schedule has no time.", "Fill in cron, interval or at.")
        return given[0] if len(given) == 1 else None

    def _zone(self) -> str | None:
        name = self._asked.timezone
        if name:
            return name if self._try("timezone", lambda: zones().get(name)) is not None else None
        if self._asked.trigger != "interval" and not self._asked.interval:
            self._fault("timezone", "the schedule has no time zone.", "Write one such as Europe/Berlin or UTC.")
        return None

    def _trigger(self, kind: TriggerType, zone: str) -> Trigger | None:
        text = str(getattr(self._asked, kind))
        if self._asked.timezone and zone != self._asked.timezone:
            zone = "UTC"  # the zone is a fault of its own; the rest is looked at all the same

        def read() -> Trigger:
            config: dict[str, Json] = {kind: text.strip()}
            if kind == "interval":
                anchor = slot_text(self._now.replace(second=0))
                config = {"every_seconds": read_duration(text, least=SHORTEST, most=LONGEST), "anchor": anchor}
            trigger = trigger_of(kind, config, zone)
            if isinstance(trigger, AtTrigger) and trigger.at < self._now - GRACE:
                when = spoken(trigger.at, zones().get(zone), zone)
                raise UsageError(f"{when} has passed.", remedy="Give a time in the future.")
            check_trigger(trigger, self._now)
            return trigger

        return self._try(kind, read)
