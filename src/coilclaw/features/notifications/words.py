"""What leaves the house about a notification: fixed words by its type, and where it leads. Never content."""

from datetime import timedelta
from typing import Literal

import msgspec

from coilclaw.features.notifications.store import ACCOUNT, GUEST, Type

TITLE = "CoilClaw"


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """How one type of notification is told."""

    words: str
    life: timedelta
    """It is of no use after that: nobody tries again, and a push service forgets it."""
    urgency: Literal["normal", "high"]


TELLINGS: dict[Type, Telling] = {
    "approval_needed": Telling(words="Something waits for your approval", life=timedelta(hours=24), urgency="high"),
    "approval_expiring": Telling(words="An approval expires soon", life=timedelta(hours=1), urgency="high"),
    "job_failed": Telling(words="A job failed", life=timedelta(hours=24), urgency="normal"),
    "job_completed": Telling(words="A job is done", life=timedelta(hours=12), urgency="normal"),
    "proactive_reach_out": Telling(
        words="The agent has something to tell you", life=timedelta(hours=24), urgency="normal"
    ),
    "alert_raised": Telling(words="A patrol found a problem", life=timedelta(hours=24), urgency="normal"),
    "session_waiting": Telling(words="A coding session waits for you", life=timedelta(hours=12), urgency="normal"),
}

LIVES: dict[Type, timedelta] = {kind: telling.life for kind, telling in TELLINGS.items()}


def leads_to(kind: Type, entity_id: str) -> str:
    """Where in the panel a notification is looked at, as the fragment of its address."""
    from urllib.parse import quote

    if entity_id.startswith(ACCOUNT):
        return "#/settings/accounts"
    if entity_id.startswith(GUEST):
        return f"#/settings/guests/{quote(entity_id.removeprefix(GUEST), safe='')}"
    if kind == "alert_raised":
        return "#/work/patrols"
    if kind == "session_waiting":
        area = "work/sessions"
    elif kind in ("approval_needed", "approval_expiring"):
        area = "approvals"
    else:
        area = "work/jobs" if entity_id.startswith("job_") else "chat"
    return f"#/{area}/{quote(entity_id, safe='')}"
