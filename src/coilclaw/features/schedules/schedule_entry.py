"""An entry of the registry from what the owner says at the command line. Pure."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from coilclaw.features.schedules.timetable import slot_text
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError

_TIMES = ("cron", "interval", "at")
_PLAIN = ("misfire", "catch_up_window", "overlap", "stagger", "max_failures")


def new_entry(
    schedule_id: str | None,
    given: Mapping[str, Any],
    now: datetime,
    taken: Collection[str],
    *,
    enabled: bool,
    named: str = "",
) -> dict[str, Json]:
    """A new entry; UsageError when it lacks what every schedule needs. Without an id, it has one made of what it is
    named, or of its goal."""
    kind = _kind(given)
    if kind is None:
        raise UsageError("the schedule has no time.", remedy='Give --cron "0 9 * * 1-5", --interval 90m or --at TIME.')
    if not given.get("timezone") and kind != "interval":
        raise UsageError("the schedule has no time zone.", remedy="Give --timezone, such as Europe/Berlin or UTC.")
    if not given.get("goal") and not given.get("sop"):
        raise UsageError("the schedule has nothing to do.", remedy="Give --goal TEXT, or --sop NAME.")
    changed = changes(given, now)
    entry: dict[str, Json] = {
        "job_id": schedule_id or _name(named or str(given.get("goal") or given.get("sop")), taken),
        "enabled": enabled,
        "timezone": changed.pop("timezone", "UTC"),
        **{name: value for name, value in changed.items() if value is not None},
    }
    return entry


def changes(given: Mapping[str, Any], now: datetime) -> dict[str, Json]:
    """The fields that were said; None takes one away."""
    made: dict[str, Json] = {}
    kind = _kind(given)
    if kind is not None:
        made["trigger"] = kind
        made.update({name: given[name] if name == kind else None for name in _TIMES})
        made["schedule_cron"] = None  # its other name goes with it
        made["anchor"] = slot_text(now.replace(second=0)) if kind == "interval" else None
    if given.get("timezone"):
        made["timezone"] = given["timezone"]
    made.update({name: given[name] for name in _PLAIN if given.get(name) is not None})
    if given.get("project") is not None:
        made["project"] = given["project"] or None  # an empty name is the workspace
    if given.get("goal") and given.get("sop"):
        raise UsageError("a run follows either a goal or a procedure.", remedy="Give --goal or --sop.")
    if given.get("sop"):
        made["sop"] = given["sop"]
    spec = _spec(given)
    if given.get("goal"):
        made["sop"] = None
        spec = {"intent": given["goal"], **spec}
    if spec:
        made["job_spec"] = spec if "intent" in spec or not given.get("sop") else {"intent": given["sop"], **spec}
    return made


def _kind(given: Mapping[str, Any]) -> str | None:
    kinds = [name for name in _TIMES if given.get(name)]
    if len(kinds) > 1:
        raise UsageError(f"--{kinds[0]} and --{kinds[1]} exclude each other.", remedy="Give one of them.")
    return kinds[0] if kinds else None


def _spec(given: Mapping[str, Any]) -> dict[str, Json]:
    limits: dict[str, Json] = {}
    for name, option in (("allowed_tools", "tools"), ("allowed_domains", "domains")):
        if given.get(option):
            limits[name] = list(given[option])
    for name, option in (("max_files_changed", "max_files"), ("max_prs", "max_prs")):
        if given.get(option) is not None:
            limits[name] = given[option]
    spec: dict[str, Json] = {}
    if given.get("inputs") or given.get("steps"):
        spec["inputs"] = {**given.get("inputs", {}), **({"steps": list(given["steps"])} if given.get("steps") else {})}
    if limits:
        spec["constraints"] = limits
    if given.get("evidence"):
        spec["outputs"] = {"evidence_required": list(given["evidence"])}
    return spec


def _name(goal: str, taken: Collection[str]) -> str:
    """A short id out of the first words."""
    words = re.findall(r"[a-z0-9]+", goal.lower()[:200])
    base = "-".join(words[:4])[:40].strip("-") or "schedule"
    base = f"s-{base}" if base.startswith("followup_") else base
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name
