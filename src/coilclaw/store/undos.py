"""What became of writes: the undo that took one back, or waits to."""

import posixpath
from collections.abc import Iterable

import msgspec

from coilclaw.packets.action import Status
from coilclaw.packets.ids import made_at
from coilclaw.store.projects import project_of
from coilclaw.store.threads import OWNER_ID
from coilclaw.store.tx import Tx

UNDO_PROPOSED = "tool_undo_proposed"
"""The event that says which action an undo takes back."""


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """The undo that took back a write, or waits to."""

    action_id: str
    status: Status


class _Args(msgspec.Struct, frozen=True):
    """What calls say about files: an undo its snapshot and paths, file tools the others."""

    snapshot: str = ""
    paths: tuple[str, ...] = ()
    path: str = ""
    source: str = ""
    target: str = ""


class _Done(msgspec.Struct, frozen=True):
    """A write or an undo."""

    action_id: str
    root: str
    args: _Args
    status: Status
    ended: str
    of: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The files it names."""
        args = self.args
        return frozenset(
            posixpath.normpath(name) for name in (*args.paths, args.path, args.source, args.target) if name
        )

    def takes_back(self, write: "_Done") -> bool:
        """Whether this undo goes back to before that."""
        if self.root != write.root or (made_at(self.args.snapshot) or "~") > write.ended:
            return False
        return not self.names or bool(self.names & write.names)


def undos_of(db: Tx, turns: Iterable[str]) -> dict[str, Undo]:
    """For each write of these turns that was taken back, or is about to be: by which undo."""
    writes = _writes(db, turns)
    undos = _undos(db, min(each.ended for each in writes)) if writes else []
    found = {each.action_id: _last(each, undos) for each in writes} if undos else {}
    return {of: Undo(action_id=undo.action_id, status=undo.status) for of, undo in found.items() if undo is not None}


def _last(write: _Done, undos: list[_Done]) -> _Done | None:
    """The undo that counts for a write: one that waits, or the last that was done and not undone itself."""
    last: _Done | None = None
    for undo in undos:
        done = undo.status == "EXECUTED"
        if undo.of == write.action_id or (done and undo.takes_back(write)):
            last = undo
        elif last is not None and done and undo.takes_back(last):
            last = None
    return last


def _writes(db: Tx, turns: Iterable[str]) -> list[_Done]:
    rows = db.execute(
        "SELECT action_id, thread_id, args_json, status, updated_at FROM proposed_actions"
        " WHERE turn_id IN (SELECT value FROM json_each(?)) AND status = 'EXECUTED' AND begun_at IS NOT NULL"
        " AND tool <> 'undo'",
        (msgspec.json.encode(sorted(set(turns))).decode(),),
    ).fetchall()
    return [_done(db, row) for row in rows]


def _undos(db: Tx, since: str) -> list[_Done]:
    rows = db.execute(
        "SELECT a.action_id, a.thread_id, a.args_json, a.status, a.updated_at,"
        " CASE WHEN json_valid(e.payload_json) THEN json_extract(e.payload_json, '$.of') END"
        " FROM proposed_actions a LEFT JOIN audit_log e ON e.entity_id = a.action_id AND e.event_type = ?"
        " WHERE a.user_id = ? AND a.tool = 'undo' AND a.updated_at >= ?"
        " AND a.status IN ('PENDING', 'APPROVED', 'EXECUTED', 'UNKNOWN') ORDER BY a.rowid",
        (UNDO_PROPOSED, OWNER_ID, since),
    ).fetchall()
    return [_done(db, row) for row in rows]


def _done(db: Tx, row: tuple[str, ...]) -> _Done:
    action_id, thread_id, args, status, ended, *of = row
    return _Done(
        action_id, project_of(db, thread_id), _args(args), msgspec.convert(status, Status), ended, (*of, "")[0] or ""
    )


def _args(text: str) -> _Args:
    try:
        return msgspec.json.decode(text, type=_Args)
    except (msgspec.ValidationError, msgspec.DecodeError):  # of other tools, and of other versions of this program
        return _Args()
