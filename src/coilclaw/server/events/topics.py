"""Topics: what an event is about, derived from its type."""

from typing import Literal, TypeAlias, get_args

Topic: TypeAlias = Literal[
    "thread",
    "action",
    "approval",
    "job",
    "pull",
    "session",
    "patrol",
    "evolve",
    "sop",
    "schedule",
    "receipt",
    "notification",
    "estop",
    "device",
    "settings",
    "ledger",
]
TOPICS: tuple[Topic, ...] = get_args(Topic)

_OF_WORD: dict[str, Topic] = {
    "message": "thread",
    "thread": "thread",
    "turn": "thread",
    "tool": "action",
    "idempotency": "action",
    "approval": "approval",
    "answer": "approval",
    "job": "job",
    "pr": "pull",
    "github": "pull",
    "session": "session",
    "patrol": "patrol",
    "test": "patrol",
    "alert": "patrol",
    "quest": "patrol",
    "webhook": "patrol",
    "evolve": "evolve",
    "deploy": "pull",
    "run": "pull",
    "workspace": "pull",
    "merge": "settings",
    "sop": "sop",
    "schedule": "schedule",
    "schedules": "schedule",
    "followup": "schedule",
    "receipt": "receipt",
    "notification": "notification",
    "notifications": "notification",
    "reach": "notification",
    "estop": "estop",
    "device": "device",
    "pairing": "device",
    "passkey": "device",
    "sign": "device",
    "owner": "device",
    "token": "device",
    "config": "settings",
    "policy": "settings",
    "project": "settings",
    "skill": "settings",
    "provider": "settings",
    "guest": "settings",
    "oauth": "settings",
    "secret": "settings",
    "key": "settings",
    "keys": "settings",
    "label": "ledger",
    "database": "ledger",
    "audit": "ledger",
    "ledger": "ledger",
}
"""By the first word of a type; other events belong to the ledger."""

_SEVERAL: dict[str, tuple[Topic, ...]] = {
    "approval_needed": ("approval", "action"),
    "sop_started": ("sop", "job"),
    "sop_step": ("sop", "job"),
    "sop_state": ("sop", "job"),
    "tool_approved": ("action", "approval"),
    "tool_denied": ("action", "approval", "receipt"),
    "tool_completed": ("action", "receipt"),
    "tool_failed": ("action", "receipt"),
    "tool_unknown": ("action", "receipt"),
    "tool_resolved": ("action", "approval"),
    "tool_reproposed": ("action", "approval"),
}
"""Types that concern several lists; the event is sent under the first."""


def topics_of(event_type: str) -> tuple[Topic, ...]:
    """The topics of a type, the one it is sent under first."""
    several = _SEVERAL.get(event_type)
    return several or (_OF_WORD.get(event_type.partition("_")[0], "ledger"),)


def is_known(event_type: str) -> bool:
    """Whether the type has explicit topics."""
    return event_type in _SEVERAL or event_type.partition("_")[0] in _OF_WORD
