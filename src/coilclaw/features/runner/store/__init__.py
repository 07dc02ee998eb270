"""Sessions in the database. Their events are audit events under the session's id, numbered by the row's `seq`."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Literal, get_args

import msgspec

from coilclaw.features.runner.checkouts import Checkout
from coilclaw.features.runner.event import EventType, SessionEvent
from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.states import BEGINNING, ENDED, LIVE, EndCode, SessionState, may_follow
from coilclaw.ledger.audit import COLUMNS, add_event
from coilclaw.packets.action import Label, untrusted
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import RowDamaged, UsageError
from coilclaw.packets.ids import Clock, from_stamp, stamp
from coilclaw.store.tx import Tx

STORED: dict[str, EventType] = {
    f"session_{kind.lower().removeprefix('session_')}": kind for kind in get_args(EventType)
}
"""By the type of the audit event that keeps it."""
_SHORT = {kind: stored.removeprefix("session_") for stored, kind in STORED.items()}


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is stored."""

    session_id: str
    org_id: str
    spec: StartSession
    state: SessionState
    code: EndCode | Literal[""]
    reason: str
    exit_code: int | None
    checkout: Checkout | None
    action_id: str
    started_by: str
    seq: int
    agent_seconds: int
    terminal_kb: int
    files_touched: int
    metered_at: str | None
    """Up to when its time was added to its usage."""
    provider_invocations: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_millionths: int = 0
    unpriced_tokens: int = 0
    created_at: str
    started_at: str | None
    ended_at: str | None


_COLUMNS = (
    "session_id, org_id, spec_json, state, code, reason, exit_code, checkout_json, action_id, started_by, seq,"
    " agent_seconds, terminal_kb, files_touched, metered_at, provider_invocations, input_tokens, cached_tokens,"
    " output_tokens, cost_millionths, unpriced_tokens, created_at, started_at, ended_at"
)
_SELECT = f"SELECT {_COLUMNS} FROM coding_sessions"  # noqa: S608 - our own names


def _session(row: tuple[object, ...]) -> Session:
    fields = dict(zip(_COLUMNS.replace(" ", "").split(","), row, strict=True))
    try:
        fields["spec"] = msgspec.json.decode(str(fields.pop("spec_json")), type=StartSession)
        checkout = fields.pop("checkout_json")
        fields["checkout"] = None if checkout is None else msgspec.json.decode(str(checkout), type=Checkout)
        return msgspec.convert(fields, Session)
    except msgspec.DecodeError as error:
        raise RowDamaged(
            f"the row of session {fields['session_id']} cannot be read: {error}.", remedy="Restore it from a backup."
        ) from error


def add_session(tx: Tx, clock: Clock, session_id: str, spec: StartSession, *, action_id: str, by: str) -> Session:
    """A new session, not started yet."""
    session = Session(
        session_id=session_id, org_id=spec.org_id, spec=spec, state="CREATED", code="", reason="", exit_code=None,
        checkout=None, action_id=action_id, started_by=by, seq=0, agent_seconds=0, terminal_kb=0, files_touched=0,
        metered_at=None, created_at=stamp(clock()), started_at=None, ended_at=None,
    )  # fmt: skip
    places = ", ".join("?" * len(_COLUMNS.split(",")))
    tx.execute(f"INSERT INTO coding_sessions ({_COLUMNS}) VALUES ({places})", _values(session))  # noqa: S608
    return session


def _values(session: Session) -> tuple[object, ...]:
    checkout = None if session.checkout is None else msgspec.json.encode(session.checkout).decode()
    return (
        session.session_id, session.org_id, msgspec.json.encode(session.spec).decode(), session.state, session.code,
        session.reason, session.exit_code, checkout, session.action_id, session.started_by, session.seq,
        session.agent_seconds, session.terminal_kb, session.files_touched, session.metered_at,
        session.provider_invocations, session.input_tokens, session.cached_tokens, session.output_tokens,
        session.cost_millionths, session.unpriced_tokens, session.created_at, session.started_at, session.ended_at,
    )  # fmt: skip


def put_session(tx: Tx, session: Session) -> None:
    """Store a session as it is now."""
    settings = ", ".join(f"{name.strip()} = ?" for name in _COLUMNS.split(","))
    tx.execute(
        f"UPDATE coding_sessions SET {settings} WHERE session_id = ?",  # noqa: S608
        (*_values(session), session.session_id),
    )


def load_session(db: Tx, session_id: str) -> Session | None:
    """One session."""
    row = db.execute(f"{_SELECT} WHERE session_id = ?", (session_id,)).fetchone()
    return None if row is None else _session(row)


def needed_session(db: Tx, session_id: str) -> Session:
    """One session that must be there."""
    session = load_session(db, session_id)
    if session is None:
        raise UsageError(f"there is no session {session_id[:80]!r}.", remedy="See `coilclaw session list`.")
    return session


def sessions_in(db: Tx, states: Collection[SessionState]) -> list[Session]:
    """Sessions in these states, the oldest first."""
    places = ", ".join("?" * len(states))
    rows = db.execute(f"{_SELECT} WHERE state IN ({places}) ORDER BY session_id", tuple(states))
    return [_session(row) for row in rows]


def sessions_before(
    db: Tx, before: str | None, limit: int, org_id: str | None = None, *, thread_id: str = "", job_id: str = ""
) -> list[Session]:
    """The newest sessions from before an id on; of a conversation or a job, if one is given."""
    belonging = (("thread_id", thread_id), ("job_id", job_id))
    wanted = [("org_id", org_id)] if org_id is not None else []
    wanted += [(f"json_extract(spec_json, '$.{key}')", value) for key, value in belonging if value]
    terms = "".join(f" AND {term} = ?" for term, _ in wanted)
    rows = db.execute(
        f"{_SELECT} WHERE session_id < ?{terms} ORDER BY session_id DESC LIMIT ?",
        (before or "~", *(value for _, value in wanted), limit),
    )
    return [_session(row) for row in rows]


def session_of_action(db: Tx, action_id: str) -> Session | None:
    """The session that an action began."""
    row = db.execute(f"{_SELECT} WHERE action_id = ? AND action_id <> ''", (action_id,)).fetchone()
    return None if row is None else _session(row)


def sessions_begun_by(db: Tx, thread_id: str) -> list[Session]:
    """The sessions that a conversation or its jobs began, the newest first."""
    rows = db.execute(
        f"{_SELECT} WHERE action_id IN (SELECT action_id FROM proposed_actions WHERE thread_id = ?)"  # noqa: S608
        " ORDER BY session_id DESC",
        (thread_id,),
    )
    return [_session(row) for row in rows]


def busy(db: Tx, org_id: str) -> int:
    """How many sessions of an organization occupy a place: those that run, and those that are being started."""
    states = (*LIVE, *(BEGINNING - {"CREATED"}))
    places = ", ".join("?" * len(states))
    query = f"SELECT count(*) FROM coding_sessions WHERE org_id = ? AND state IN ({places})"  # noqa: S608
    return int(db.execute(query, (org_id, *states)).fetchone()[0])


def shown_state(db: Tx, session: Session) -> SessionState:
    """Its state; whether it waits for an approval is read from the queue."""
    waits = session.state == "RUNNING" and waiting_for(db, session)
    return "WAITING_FOR_APPROVAL" if waits else session.state


def waiting_for(db: Tx, session: Session) -> tuple[str, ...]:
    """The actions that wait for the owner's answer: what it asked for, or its own start."""
    if session.state not in ("CREATED", "RUNNING"):
        return ()
    rows = db.execute(
        "SELECT action_id FROM proposed_actions WHERE status = 'PENDING'"
        " AND ((source = 'session' AND source_id = ?) OR action_id = ?) ORDER BY created_at LIMIT 100",
        (session.session_id, session.action_id),
    )
    return tuple(row[0] for row in rows)


def session_is_over(db: Tx, session_id: str) -> bool:
    """Whether it has ended, or was removed."""
    row = db.execute("SELECT state FROM coding_sessions WHERE session_id = ?", (session_id,)).fetchone()
    return row is None or row[0] in ENDED


def asked_before(db: Tx, session_id: str, tool: str, args_hash: str) -> str | None:
    """The action by which a session asked for exactly these bytes, while it waits or its yes is not used."""
    row = db.execute(
        "SELECT action_id FROM proposed_actions WHERE source = 'session' AND source_id = ? AND tool = ?"
        " AND args_hash = ? AND status IN ('PENDING', 'APPROVED') AND begun_at IS NULL"
        " ORDER BY status, rowid DESC LIMIT 1",
        (session_id, tool, args_hash),
    ).fetchone()
    return None if row is None else str(row[0])


def questions_of(db: Tx, session_id: str, *statuses: str) -> list[str]:
    """The actions of a session in these states."""
    places = ", ".join("?" * len(statuses))
    rows = db.execute(
        "SELECT action_id FROM proposed_actions WHERE source = 'session' AND source_id = ?"  # noqa: S608
        f" AND status IN ({places}) ORDER BY rowid",
        (session_id, *statuses),
    )
    return [str(row[0]) for row in rows]


def was_let(db: Tx, session_id: str, call_id: str) -> bool:
    """Whether a call of its program was allowed, by whichever server."""
    row = db.execute(
        "SELECT 1 FROM proposed_actions WHERE source = 'session' AND source_id = ? AND call_id = ?"
        " AND status = 'EXECUTED' LIMIT 1",
        (session_id, call_id),
    ).fetchone()
    return row is not None


def has_reached_out(db: Tx, session_id: str) -> bool:
    """Whether the owner let it reach out, so that it may have read anything."""
    row = db.execute(
        "SELECT 1 FROM proposed_actions WHERE source = 'session' AND source_id = ? AND status = 'EXECUTED'"
        " AND lane = 'B' LIMIT 1",
        (session_id,),
    ).fetchone()
    return row is not None


def begun_with(db: Tx, session: Session) -> set[Label]:
    """What had entered the turns that began it or typed into it; what it showed itself counts as nothing new."""
    rows = db.execute(
        "SELECT value FROM (SELECT taint_json FROM proposed_actions WHERE action_id = ?1 UNION SELECT taint_json"
        " FROM proposed_actions WHERE thread_id = (SELECT thread_id FROM proposed_actions WHERE action_id = ?1"
        " AND thread_id <> '') AND tool = 'session_send' AND begun_at IS NOT NULL"
        " AND json_extract(args_json, '$.session_id') = ?2), json_each(taint_json)",
        (session.action_id, session.session_id),
    )
    return {row[0] for row in rows} - {untrusted(session.session_id)}


def drop_session(tx: Tx, session_id: str) -> None:
    """Forget a session; its events and receipts stay."""
    tx.execute("DELETE FROM coding_sessions WHERE session_id = ?", (session_id,))


# What happens in a session


def say(tx: Tx, clock: Clock, session: Session, kind: EventType, data: dict[str, Json]) -> Session:
    """Record an event under the session's next number."""
    moved = msgspec.structs.replace(session, seq=session.seq + 1)
    tx.execute("UPDATE coding_sessions SET seq = ? WHERE session_id = ?", (moved.seq, session.session_id))
    body: dict[str, Json] = {
        "seq": moved.seq,
        "ts": int(clock().timestamp() * 1000),
        "org_id": session.org_id,
        "repo_ref": msgspec.to_builtins(session.spec.repo),
        **data,
    }
    add_event(tx, clock, f"session_{_SHORT[kind]}", session.session_id, body)
    return moved


def move(
    tx: Tx, clock: Clock, session_id: str, after: SessionState, *, code: EndCode | Literal[""] = "", reason: str = ""
) -> Session | None:
    """Take a session to another state and say so; None if it is not in a state that this may follow."""
    session = load_session(tx, session_id)
    if session is None or not may_follow(session.state, after):
        return None
    before, now = session.state, stamp(clock())
    ended = after in ("COMPLETED", "FAILED")
    session = msgspec.structs.replace(
        session,
        state=after,
        code=code,
        reason=reason,
        started_at=now if after == "RUNNING" and session.started_at is None else session.started_at,
        metered_at=session.metered_at or (now if after == "RUNNING" else None),
        ended_at=now if ended else None,
    )
    put_session(tx, session)
    data: dict[str, Json] = {"from": before, "to": after}
    if code:
        data |= {"code": code, "reason": reason, "exit_code": session.exit_code}
    return say(tx, clock, session, "SESSION_STATE_CHANGED", data)


_EVENTS = f"FROM audit_log WHERE entity_id = ? AND event_type IN ({', '.join('?' * len(STORED))})"


def events_after(db: Tx, session: Session, after: int, limit: int) -> Iterator[SessionEvent]:
    """The events of a session after a number, in order."""
    begin = _entry_of(db, session.session_id, after) if after > 0 else 0
    rows = db.execute(
        f"SELECT event_type, payload_json {_EVENTS} AND seq > ? ORDER BY seq LIMIT ?",
        (session.session_id, *STORED, begin, limit),
    )
    for kind, payload in rows:
        yield event_from(session.session_id, kind, msgspec.json.decode(payload))


def _entry_of(db: Tx, session_id: str, number: int) -> int:
    """The audit entry of the last event up to a number, by halving: both count up, and only entries are indexed."""
    newest = db.execute("SELECT coalesce(max(seq), 0) FROM audit_log WHERE entity_id = ?", (session_id,)).fetchone()
    low, high = 0, int(newest[0])
    query = f"SELECT seq, json_extract(payload_json, '$.seq') {_EVENTS} AND seq > ? ORDER BY seq LIMIT 1"
    while low < high:
        middle = (low + high) // 2
        found = db.execute(query, (session_id, *STORED, middle)).fetchone()
        if found is None or found[1] > number:
            high = middle
        else:
            low = int(found[0])
    return low


def event_from(session_id: str, event_type: str, payload: dict[str, Json]) -> SessionEvent:
    """The event that an audit event of a session is."""
    data = {key: value for key, value in payload.items() if key not in ("seq", "ts", "org_id", "repo_ref")}
    fields = {key: payload[key] for key in ("seq", "ts", "org_id", "repo_ref")}
    return msgspec.convert({"type": STORED[event_type], "session_id": session_id, "data": data, **fields}, SessionEvent)


# Usage


class Units(msgspec.Struct, frozen=True, kw_only=True):
    """What a session used."""

    agent_seconds: int = 0
    terminal_kb: int = 0
    files_touched: int = 0
    provider_invocations: int = 0
    """Calls to its model."""
    input_tokens: int = 0
    cached_tokens: int = 0
    """How many of the input tokens came from the provider's cache."""
    output_tokens: int = 0
    cost_millionths: int = 0
    """In millionths of the currency that the prices are in, by the prices at the time of each call."""
    unpriced_tokens: int = 0
    """Tokens of models without a price; the cost leaves them out."""


NO_UNITS = Units()
_UNITS = Units.__struct_fields__


def units_of(session: Session) -> Units:
    """What a session used so far."""
    return Units(**{name: getattr(session, name) for name in _UNITS})


class MonthUsage(Units, frozen=True, kw_only=True):
    """What the sessions of an organization used in a month."""

    org_id: str
    month: str
    provider: str
    patrol_seconds: int = 0


def tick(
    tx: Tx,
    clock: Clock,
    session_id: str,
    *,
    terminal_bytes: int = 0,
    files: int = 0,
    most: int | None = None,
    called: Units = NO_UNITS,
    said: dict[str, Json] | None = None,
) -> None:
    """Add what a session used since the last tick: to its row, to the month and as an event, all or nothing.

    Time counts from where the last tick ended, whoever wrote that, so that none is counted twice or lost. Paused time
    is free. `called` is what calls to its model used, `said` goes into the event.
    """
    session = load_session(tx, session_id)
    if session is None or session.metered_at is None:
        return
    now = clock()
    passed = max(0, int((now - from_stamp(session.metered_at)).total_seconds()))
    passed = passed if most is None else min(passed, most)
    until = from_stamp(session.metered_at) + timedelta(seconds=passed)
    units = msgspec.structs.replace(
        called,
        agent_seconds=0 if session.state == "PAUSED_BY_HUMAN" else passed,
        terminal_kb=-(-terminal_bytes // 1024),
        files_touched=files,
    )
    values = msgspec.structs.astuple(units)
    sums = ", ".join(f"{name} = {name} + ?" for name in _UNITS)
    tx.execute(
        f"UPDATE coding_sessions SET {sums}, metered_at = ? WHERE session_id = ?",  # noqa: S608 - our own names
        (*values, stamp(until), session_id),
    )
    tx.execute(
        f"INSERT INTO session_usage (org_id, month, provider, {', '.join(_UNITS)})"  # noqa: S608
        f" VALUES ({', '.join('?' * (3 + len(values)))})"
        f" ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _UNITS)}",
        (session.org_id, month_of(clock), session.spec.provider, *values),
    )
    data: dict[str, Json] = {"provider": session.spec.provider, "units": msgspec.to_builtins(units), **(said or {})}
    say(tx, clock, session, "USAGE_TICK", data)


def month_of(clock: Clock) -> str:
    """The calendar month in UTC."""
    return stamp(clock())[:7]


def usage_of(db: Tx, org_id: str | None = None) -> list[MonthUsage]:
    """What was used, by organization, month and provider; the newest month first."""
    rows = db.execute(
        f"SELECT org_id, month, provider, {', '.join(_UNITS)}, patrol_seconds FROM session_usage"  # noqa: S608
        " WHERE ? IS NULL OR org_id = ? ORDER BY month DESC, org_id, provider",
        (org_id, org_id),
    )
    names = ("org_id", "month", "provider", *_UNITS, "patrol_seconds")
    return [MonthUsage(**dict(zip(names, row, strict=True))) for row in rows]


def tokens_this_month(db: Tx, clock: Clock, org_id: str) -> int:
    """How many tokens the sessions of an organization used this month, in and out."""
    row = db.execute(
        "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM session_usage WHERE org_id = ? AND month = ?",
        (org_id, month_of(clock)),
    ).fetchone()
    return int(row[0])


def seconds_this_month(db: Tx, clock: Clock, org_id: str) -> int:
    """How long sessions of an organization ran this month."""
    row = db.execute(
        "SELECT coalesce(sum(agent_seconds), 0) FROM session_usage WHERE org_id = ? AND month = ?",
        (org_id, month_of(clock)),
    ).fetchone()
    return int(row[0])


# The audit of an organization

_BATCH = 500
_SCANNED = 5000
"""How many audit events of whomever are looked through at once."""
_NOTICES = "CASE WHEN json_valid(payload_json) THEN json_extract(payload_json, '$.org_id') END"


def org_action_ids(db: Tx, org_id: str) -> str:
    """The actions of an organization's sessions, as a JSON list: their starts and ends, and what they asked for."""
    rows = db.execute(
        "WITH started (session_id) AS (SELECT json_extract(args_json, '$.session_id') FROM proposed_actions"
        "  WHERE tool = 'session_start' AND source = 'gateway' AND json_extract(args_json, '$.session.org_id') = ?)"
        " SELECT action_id FROM proposed_actions WHERE (source = 'session' AND source_id IN started)"
        "  OR (tool IN ('session_start', 'session_end') AND source = 'gateway'"
        "   AND json_extract(args_json, '$.session_id') IN started)",
        (org_id,),
    )
    return msgspec.json.encode([row[0] for row in rows]).decode()


def org_events(db: Tx, org_id: str, actions: str, last: int) -> Iterator[list[tuple[int, str, str, str, str, str]]]:
    """The audit events of an organization up to a number, in order, a few at a time; no query stays open."""
    for begin in range(0, last, _SCANNED):
        yield db.execute(
            f"SELECT {COLUMNS} FROM audit_log WHERE seq > ? AND seq <= ?"  # noqa: S608 - our own names
            f" AND ({_NOTICES} = ? OR entity_id IN (SELECT value FROM json_each(?))) ORDER BY seq",
            (begin, min(begin + _SCANNED, last), org_id, actions),
        ).fetchall()


def org_receipts(db: Tx, actions: str, last: int) -> Iterator[list[tuple[int, str, str]]]:
    """The receipts of these actions up to a number, each with the action's arguments, in order, a few at a time."""
    place = 0
    while rows := db.execute(
        "SELECT seq, line, (SELECT args_json FROM proposed_actions a WHERE a.action_id = receipts.action_id) FROM"
        " receipts WHERE action_id IN (SELECT value FROM json_each(?)) AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (actions, place, last, _BATCH),
    ).fetchall():
        place = rows[-1][0]
        yield rows


def pruned_events(db: Tx) -> list[tuple[int, int]]:
    """The first and last numbers of audit events that retention has removed."""
    return db.execute("SELECT first, last FROM audit_gaps ORDER BY first").fetchall()
