"""Pages of actions: filtered lists, newest first or next to expire first, scanned in bounded steps."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from coilclaw.packets.action import Action, Source, Status
from coilclaw.packets.decision import Lane
from coilclaw.store.actions import select_actions
from coilclaw.store.refusals import CODES, Refusal
from coilclaw.store.tx import Tx

Standing: TypeAlias = Literal["pending", "approved", "rejected", "executed", "failed", "unknown", "expired", "all"]
"""The state of an action that needed approval; `expired` are those refused because nobody answered in time."""

_ASKED = (
    '(decision_json LIKE \'{"verdict":"ask"%\' OR EXISTS (SELECT 1 FROM audit_log'
    " WHERE entity_id = proposed_actions.action_id AND event_type = 'approval_needed'))"
)
_YES = f"approved_by IS NOT NULL AND {_ASKED}"
"""The owner was asked and approved. Repeating an allowed call after an unknown outcome does not count."""
_STANDING: dict[Standing, tuple[Status | None, str]] = {
    "pending": ("PENDING", "worker IS NULL"),
    "approved": ("APPROVED", _YES),
    "executed": ("EXECUTED", _YES),
    "failed": ("FAILED", _YES),
    "unknown": ("UNKNOWN", _YES),
    "rejected": ("REJECTED", f"coalesce(rejection_reason, '') <> 'expired' AND {_ASKED}"),
    "expired": ("REJECTED", "rejection_reason = 'expired'"),
    "all": (None, _ASKED),
}
SCANNED = 10_000
"""How many rows one page may scan; the rest is left to the next page."""


class WantedActions(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for actions; None matches anything."""

    status: Status | None = None
    standing: Standing | None = None
    refusal: Refusal | None = None
    """Only refusals of this kind."""
    tool: str | None = None
    lane: Lane | None = None
    source: Source | None = None
    thread_id: str | None = None
    job_id: str | None = None
    session_id: str | None = None
    """What the program of this coding session asked for."""
    since: str | None = None
    until: str | None = None
    text: str | None = None
    """Occurs in the tool's name, the arguments or the justification, or is the action's id."""


class ActionPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of actions ended."""

    created_at: str
    row: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


def page_of_actions(
    db: Tx, wanted: WantedActions, after: ActionPlace | None, limit: int
) -> tuple[list[Action], ActionPlace | None]:
    """The next actions, newest first, and where to continue; None at the end.

    A page scans a limited number of rows: it may be short, or empty, and still not be the last.
    """
    indexed, rest = _terms(wanted, after)
    narrow = wanted.job_id is not None or wanted.session_id is not None
    looked = 4 * (limit + 1) if rest and not narrow else 0
    while True:  # a page that fills quickly scans few rows; only if hardly any match does it use the whole limit
        edge = _edge(db, indexed, min(looked, SCANNED)) if looked else None
        within: _Terms = []
        if edge is not None:
            bound = (edge.created_at, edge.created_at, edge.row)
            within.append(("created_at >= ? AND (created_at > ? OR rowid >= ?)", bound))
        found = select_actions(db, *_joined([*indexed, *rest, *within]), limit + 1)
        if edge is None or len(found) > limit or looked >= SCANNED:
            break
        looked *= 4
    if len(found) > limit:
        edge = ActionPlace(*found[limit - 1][1:])
    return [action for action, _, _ in found[:limit] if action is not None], edge


_Terms: TypeAlias = list[tuple[str, tuple[str | int, ...]]]
"""Conditions with their values."""


def _terms(wanted: WantedActions, after: ActionPlace | None) -> tuple[_Terms, _Terms]:
    """Conditions for the index, and conditions to check row by row."""
    indexed: _Terms = []
    rest: _Terms = []
    status, standing = _STANDING[wanted.standing] if wanted.standing is not None else (wanted.status, "")
    if wanted.refusal is not None:
        status = "REJECTED"
        rest.append(_refused(wanted.refusal))
    if wanted.job_id is not None:
        indexed.append(("job_id = ?", (wanted.job_id,)))
    if wanted.session_id is not None:
        indexed.append(("turn_id = ? AND source = 'session'", (wanted.session_id,)))
    if status is not None:  # the index of a job, or of a session, is narrower
        narrow = wanted.job_id is not None or wanted.session_id is not None
        indexed.append((f"{'+' if narrow else ''}status = ?", (status,)))
    if wanted.since is not None:
        indexed.append(("created_at >= ?", (wanted.since,)))
    if wanted.until is not None:
        indexed.append(("created_at < ?", (wanted.until,)))
    if after is not None:
        place = (after.created_at, after.created_at, after.row)
        indexed.append(("created_at <= ? AND (created_at < ? OR rowid < ?)", place))
    if standing:
        rest.append((standing, ()))
    for column in ("tool", "lane", "source", "thread_id"):
        if (value := getattr(wanted, column)) is not None:
            rest.append((f"{column} = ?", (value,)))
    if wanted.text is not None:
        found = " OR ".join(f"instr(lower({column}), lower(?))" for column in ("tool", "args_json", "justification"))
        rest.append((f"(action_id = ? OR {found})", (wanted.text,) * 4))
    return indexed, rest


def _refused(refusal: Refusal) -> tuple[str, tuple[str | int, ...]]:
    """By the code in the result; quotes inside strings are escaped there, so none can imitate it."""
    codes = [code for code, each in CODES.items() if each == refusal] or list(CODES)
    found = " OR ".join("instr(coalesce(result_json, ''), ?) > 0" for _ in codes)
    return f"{'NOT ' if refusal == 'denied' else ''}({found})", tuple(f'"code":"{code}"' for code in codes)


def _joined(terms: _Terms) -> tuple[str, tuple[str | int, ...]]:
    return " AND ".join(term for term, _ in terms) or "1", tuple(value for _, values in terms for value in values)


def _edge(db: Tx, indexed: _Terms, looked: int) -> ActionPlace | None:
    """The last row this page may scan; None if there are fewer."""
    where, values = _joined(indexed)
    row = db.execute(
        f"SELECT created_at, rowid FROM proposed_actions WHERE {where}"  # noqa: S608
        " ORDER BY created_at DESC, rowid DESC LIMIT 1 OFFSET ?",
        (*values, looked - 1),
    ).fetchone()
    return None if row is None else ActionPlace(row[0], row[1])


# Pending actions, next to expire first


class WaitingPlace(msgspec.Struct, frozen=True, array_like=True, tag="waiting"):
    """Where a page of pending actions ended; its tag distinguishes it from positions in another order."""

    expires_at: str
    row: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class WaitingOf(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for pending actions; None matches anything."""

    lane: Lane | None = None
    thread_id: str | None = None
    job_id: str | None = None


def page_of_waiting(
    db: Tx, wanted: WaitingOf, after: WaitingPlace | None, limit: int
) -> tuple[list[Action], WaitingPlace | None]:
    """The next pending actions, next to expire first, and where to continue; None at the end."""
    table, terms = _waiting(wanted)
    rows: list[tuple[str, int]] = []
    for onward in _onward(after):
        where, values = _joined([*terms, *onward])
        rows += db.execute(
            f"SELECT expires_at, rowid FROM {table} WHERE {where} ORDER BY expires_at, rowid LIMIT ?",  # noqa: S608
            (*values, limit + 1 - len(rows)),
        ).fetchall()
    places = [WaitingPlace(*row) for row in rows[:limit]]
    marks = ", ".join("?" * len(places))
    found = select_actions(db, f"rowid IN ({marks})", tuple(place.row for place in places), len(places))
    actions = {row: action for action, _, row in found}
    read = [action for place in places if (action := actions.get(place.row)) is not None]
    return read, places[-1] if len(rows) > limit else None


def _onward(after: WaitingPlace | None) -> tuple[_Terms, ...]:
    """Continue from a position: the rest with the same expiry, then the later ones. As one condition, the index would
    be read from the first with that expiry, and paging through many that expire together would take quadratic time."""
    if after is None:
        return ([],)
    same: _Terms = [("expires_at = ? AND rowid > ?", (after.expires_at, after.row))]
    return same, [("expires_at > ?", (after.expires_at,))]


def count_waiting(db: Tx, wanted: WaitingOf) -> dict[Lane, int]:
    """How many actions wait for the owner, by lane."""
    table, terms = _waiting(wanted, otherwise="lane")
    where, values = _joined(terms)
    rows = db.execute(f"SELECT lane, count(*) FROM {table} WHERE {where} GROUP BY lane", values).fetchall()  # noqa: S608
    return {"A": 0, "B": 0, "C": 0, **dict(rows)}


def _waiting(wanted: WaitingOf, *, otherwise: Literal["", "lane"] = "") -> tuple[str, _Terms]:
    """The table with the index that has them in order, and the conditions; values are literal because the
    partial indexes require it."""
    terms: _Terms = [("status = 'PENDING' AND worker IS NULL", ())]
    index = f"actions_waiting_{otherwise}" if otherwise else "actions_waiting"
    for column, name in (("lane", "lane"), ("thread_id", "thread"), ("job_id", "job")):  # the narrowest last
        if (value := getattr(wanted, column)) is not None:
            terms.append((f"{column} = ?", (value,)))
            index = f"actions_waiting_{name}"
    return f"proposed_actions INDEXED BY {index}", terms
