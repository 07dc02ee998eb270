"""Events of coding sessions, as they are stored and sent."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.features.runner.spec import RepoRef
from coilclaw.packets.canonical import Json

EventType: TypeAlias = Literal[
    "SESSION_STARTED",
    "SESSION_STATE_CHANGED",
    "TERMINAL_CHUNK",
    "FILE_TOUCHED",
    "DIFF_SUMMARY",
    "TEST_RUN_STARTED",
    "TEST_RUN_FINISHED",
    "APPROVAL_REQUESTED",
    "APPROVAL_RESOLVED",
    "ALERT_RAISED",
    "USAGE_TICK",
]


class SessionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a session. On the wire the fields of `data` stand beside the others."""

    type: EventType
    session_id: str
    org_id: str
    repo_ref: RepoRef
    ts: int
    """Milliseconds since 1970."""
    seq: int
    """Its number in the session; goes on over restarts."""
    data: dict[str, Json]

    def wire(self) -> bytes:
        """As one flat JSON object. What happened cannot replace who and when."""
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != "data"}
        return msgspec.json.encode({**self.data, **own})


def touched_file(path: str, reason: Literal["write", "read", "diff"], status: str) -> dict[str, Json]:
    """What FILE_TOUCHED says: a program or a person wrote it, a program reads it, or its difference is gone."""
    return {"path": path, "room_path": path.rpartition("/")[0], "reason": reason, "status": status}
