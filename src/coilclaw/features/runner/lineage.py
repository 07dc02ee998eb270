"""What a session that another one began may be: never more than its parent."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.states import ENDED
from coilclaw.features.runner.store import Session, load_session, needed_session
from coilclaw.features.runner.store.family import ancestors, family_of
from coilclaw.packets.errors import ToolError
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.packets.ports import Context
    from coilclaw.runtime.runtime import Runtime

MOST_DEEP = 2
"""A session that somebody began may begin others, and they may, but those may not."""
MOST_BELOW = 5
"""Open ones that one session began."""
MOST_IN_FAMILY = 20
"""From its first to its last: none of them can be removed while one runs."""


def caller_of(app: "Runtime", context: "Context") -> Session | None:
    """The session whose program made a call, as the gate knows it; None if it was somebody else."""
    if context.source != "session":
        return None
    session = load_session(app.db.reader, context.source_id)
    if session is None:
        raise _refused("the session that asks is gone.", "Begin another one.")
    return session


def child_of(db: Tx, parent_id: str, wanted: StartSession) -> StartSession:
    """What its parent leaves of it; raises ToolError for what is not within that."""
    parent = needed_session(db, parent_id)
    theirs = parent.spec
    if parent.state in (*ENDED, "STOPPING"):
        raise _refused("this session ends.", "Nothing more can be begun from it.")
    if len([*ancestors(db, parent)]) >= MOST_DEEP:
        raise _refused("sessions cannot be nested deeper than this one.", "Do the work here.")
    if wanted.provider == "shell":
        raise _refused("a session can start coding programs, not shells.", "Name one of codex, claude and gemini.")
    if wanted.repo != theirs.repo:
        raise _refused("it would work on another repository.", f"Its repository is {theirs.repo.text}.")
    if wanted.policy.network.mode == "open" and theirs.policy.network.mode != "open":
        raise _refused("this session has no network to give.", "Begin it without network.")
    family = family_of(db, parent)
    open_ones = [each for each in family if each.spec.parent_id == parent.session_id and each.state not in ENDED]
    if len(open_ones) >= MOST_BELOW:
        raise _refused(f"this session has {len(open_ones)} others open.", "Wait for one to end first.", full=True)
    if len(family) > MOST_IN_FAMILY:
        raise _refused(
            f"{len(family) - 1} sessions were already started here.",
            "Do the rest of the work here.",
            full=True,
        )
    policy = msgspec.structs.replace(theirs.policy, network=wanted.policy.network)
    return msgspec.structs.replace(
        wanted,
        parent_id=parent.session_id,
        org_id=theirs.org_id,
        billing=theirs.billing,
        policy=policy,
        mode=theirs.mode,
        thread_id=theirs.thread_id,
        job_id=theirs.job_id,
    )


def _refused(message: str, remedy: str, *, full: bool = False) -> ToolError:
    code = "TOO_MANY_SESSIONS" if full else "NOT_WITHIN_PARENT"
    return ToolError(message, remedy=remedy, code=code, begun=False)
