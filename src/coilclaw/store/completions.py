"""What a shell can complete: ids with a few columns, the newest first, from a database that no home has open."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal[
    "actions", "conversations", "devices", "jobs", "pulls", "receipts", "schedules", "sop_runs",
]  # fmt: skip
WAIT_SECONDS = 0.2
"""Shell completion does not wait for a busy database."""


class _Listing(NamedTuple):
    name: str
    """The column, or the expression, that is being typed."""
    more: str
    table: str
    order: str
    state: str = ""
    """The column that `among` chooses by."""


_LISTINGS: dict[Kind, _Listing] = {
    "actions": _Listing(
        "action_id", "status, tool, args_json", "proposed_actions", "created_at DESC, rowid DESC", "status"
    ),
    "conversations": _Listing("thread_id", "title", "threads", "updated_at DESC"),
    "devices": _Listing(
        "device_id", "coalesce(name, '')", "devices WHERE revoked_at IS NULL", "created_at DESC, rowid DESC"
    ),
    "jobs": _Listing("job_id", "state, goal", "jobs", "created_at DESC, job_id DESC", "state"),
    "pulls": _Listing("CAST(number AS TEXT)", "state, title", "pull_requests", "number DESC", "state"),
    "receipts": _Listing(
        "receipt_id", "json_extract(line, '$.tool'), json_extract(line, '$.status')", "receipts", "seq DESC"
    ),
    "schedules": _Listing(
        "schedule_id",
        "coalesce(json_extract(payload_json, '$.intent'), json_extract(payload_json, '$.sop'), '')",
        "schedules",
        "created_at DESC, rowid DESC",
    ),
    "sop_runs": _Listing("run_id", "name, state", "sop_runs", "created_at DESC, rowid DESC", "state"),
}


def completions(
    database: Path, kind: Kind, typed: str, among: Sequence[str] = (), *, most: int
) -> list[tuple[str, ...]]:
    """The first rows whose id begins with what was typed, in one of these states; a missing database is not created."""
    import sqlite3
    from contextlib import closing

    name, more, table, order, state = _LISTINGS[kind]
    conditions = [f"substr({name}, 1, ?) = ?"]
    if among:
        conditions.append(f"{state} IN ({', '.join('?' * len(among))})")
    joined = " AND ".join(conditions)
    link = "AND" if "WHERE" in table else "WHERE"
    query = f"SELECT {name}, {more} FROM {table} {link} {joined} ORDER BY {order} LIMIT {most}"  # noqa: S608 - ours
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=WAIT_SECONDS)) as db:
        return db.execute(query, (len(typed), typed, *among)).fetchall()
