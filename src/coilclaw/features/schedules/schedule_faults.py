"""What a new schedule lacks or has wrong, all of it at once: nobody should learn of one fault per try."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coilclaw.packets.errors import UsageError


def check_new(given: Mapping[str, Any]) -> None:
    """UsageError with every fault that can be told from what was typed."""
    faults = list(_faults(given))
    if len(faults) == 1:
        raise faults[0]
    if faults:
        wrong = "; ".join(fault.message.rstrip(".") for fault in faults)
        raise UsageError(f"{wrong}.", remedy=" ".join(fault.remedy for fault in faults if fault.remedy))


def _faults(given: Mapping[str, Any]) -> Iterator[UsageError]:
    from coilclaw.lib.cron.parse import parse_cron
    from coilclaw.lib.cron.zones import zones

    cron, zone = given.get("cron"), given.get("timezone")
    if not (cron or given.get("interval") or given.get("at")):
        remedy = 'Give --cron "0 9 * * 1-5", --interval 90m or --at TIME.'
        yield UsageError("the schedule has no time.", remedy=remedy)
    if cron:
        yield from _fault_of(parse_cron, cron)
    if zone:
        yield from _fault_of(zones().get, zone)
    elif cron or given.get("at"):
        remedy = "Give --timezone, such as Europe/Berlin or UTC."
        yield UsageError("the schedule has no time zone.", remedy=remedy)
    if not given.get("goal") and not given.get("sop"):
        yield UsageError("the schedule has nothing to do.", remedy="Give --goal TEXT, or --sop NAME.")


def _fault_of(read: Callable[[str], object], text: str) -> Iterator[UsageError]:
    try:
        read(text)
    except UsageError as error:
        yield error
