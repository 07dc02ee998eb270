"""Rows of pull requests, and what the forge remembers about the workspace."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from coilclaw.packets.action import Label
from coilclaw.packets.decision import Risk
from coilclaw.packets.errors import RowDamaged, UsageError
from coilclaw.packets.forge import Check, PullRequest, PullState
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

_COLUMNS = (
    "number, repository, job_id, session_id, draft, branch, base_sha, head_sha, title, body, risk, labels_json,"
    " taint_json, state, merged_sha, action_id, checks_json, checked_sha, rounds, wanted, dormant, reason,"
    " opened_at, updated_at, deployed_at, target"
)
_DEPLOYED = "forge.deployed"
_LABELS = msgspec.json.Decoder(tuple[Label, ...])
_CHECKS = msgspec.json.Decoder(tuple[Check, ...])
PullChange: TypeAlias = Callable[[PullRequest], PullRequest]


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _pull(row: Sequence[object]) -> PullRequest:
    fields = dict(zip(_COLUMNS.replace(" ", "").split(","), row, strict=True))
    try:
        fields["labels"] = _LABELS.decode(str(fields.pop("labels_json")))
        fields["taint"] = _LABELS.decode(str(fields.pop("taint_json")))
        fields["checks"] = _CHECKS.decode(str(fields.pop("checks_json")))
        fields |= {"draft": bool(fields["draft"]), "dormant": bool(fields["dormant"])}
        return msgspec.convert(fields, PullRequest)
    except msgspec.DecodeError as error:
        raise RowDamaged(
            f"the row of pull request {fields['number']} cannot be read: {error}.", remedy="Restore it from a backup."
        ) from error


def _values(pull: PullRequest) -> tuple[object, ...]:
    return (
        pull.number, pull.repository, pull.job_id, pull.session_id, pull.draft, pull.branch, pull.base_sha,
        pull.head_sha, pull.title, pull.body, pull.risk, _text(pull.labels), _text(pull.taint), pull.state,
        pull.merged_sha, pull.action_id, _text(pull.checks), pull.checked_sha, pull.rounds, pull.wanted, pull.dormant,
        pull.reason, pull.opened_at, pull.updated_at, pull.deployed_at, pull.target,
    )  # fmt: skip


def new_pull(
    *,
    branch: str,
    base_sha: str,
    head_sha: str,
    title: str,
    body: str,
    risk: Risk,
    labels: tuple[str, ...],
    job_id: str | None = None,
    taint: tuple[Label, ...] = (),
) -> PullRequest:
    """A pull request that is just being opened."""
    return PullRequest(
        number=0, repository="", job_id=job_id, session_id=None, draft=False, branch=branch, base_sha=base_sha,
        head_sha=head_sha, title=title, body=body, risk=risk, labels=labels, taint=taint, state="OPEN", merged_sha="",
        action_id=None, checks=(), checked_sha="", rounds=0, wanted="", dormant=False, reason="", opened_at="",
        updated_at="", deployed_at=None,
    )  # fmt: skip


def add_pull(tx: Tx, clock: Clock, pull: PullRequest) -> PullRequest:
    """Store a new pull request under the next number."""
    now = stamp(clock())
    pull = msgspec.structs.replace(pull, number=next_number(tx), opened_at=now, updated_at=now)
    places = ", ".join("?" * len(_COLUMNS.split(",")))
    tx.execute(f"INSERT INTO pull_requests ({_COLUMNS}) VALUES ({places})", _values(pull))  # noqa: S608
    return pull


def next_number(db: Tx) -> int:
    """The number of the pull request that is opened next."""
    return int(db.execute("SELECT coalesce(max(number), 0) FROM pull_requests").fetchone()[0]) + 1


def keep_session_pull(tx: Tx, clock: Clock, pull: PullRequest) -> tuple[PullRequest | None, PullRequest]:
    """Open the pull request of a coding session, or bring the open one of its branch up to date: before, and now."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM pull_requests WHERE repository = ? AND branch = ? AND state = 'OPEN'",  # noqa: S608
        (pull.repository, pull.branch),
    ).fetchone()
    if row is None:
        return None, add_pull(tx, clock, pull)
    before = _pull(row)
    if before.head_sha == pull.head_sha:  # asked for again, or a draft that is ready now
        if before.draft and not pull.draft:
            ready = msgspec.structs.replace(before, draft=False)
            return before, change_pull(tx, clock, before.number, lambda _: ready)
        return before, before
    taint = tuple(dict.fromkeys((*pull.taint, *before.taint)))
    kept = msgspec.structs.replace(
        pull,
        number=before.number,
        opened_at=before.opened_at,
        target=before.target,
        taint=taint,
        dormant=bool(taint),
        draft=before.draft and pull.draft,
        labels=tuple(dict.fromkeys((*pull.labels, *before.labels))),  # what earlier commits brought is still there
    )
    return before, change_pull(tx, clock, before.number, lambda _: kept)


def change_pull(tx: Tx, clock: Clock, number: int, change: PullChange) -> PullRequest:
    """Change a pull request as it stands in the transaction."""
    pull = load_pull(tx, number)
    if pull is None:
        raise UsageError(f"there is no pull request #{number}.", remedy="See `coilclaw pr list`.")
    changed = msgspec.structs.replace(change(pull), updated_at=stamp(clock()))
    settings = ", ".join(f"{name.strip()} = ?" for name in _COLUMNS.split(","))
    tx.execute(f"UPDATE pull_requests SET {settings} WHERE number = ?", (*_values(changed), number))  # noqa: S608
    return changed


def load_pull(db: Tx, number: int) -> PullRequest | None:
    """One pull request by its number."""
    row = db.execute(f"SELECT {_COLUMNS} FROM pull_requests WHERE number = ?", (number,)).fetchone()  # noqa: S608
    return None if row is None else _pull(row)


def pull_of_job(db: Tx, job_id: str) -> PullRequest | None:
    """The pull request of a job."""
    row = db.execute(f"SELECT {_COLUMNS} FROM pull_requests WHERE job_id = ?", (job_id,)).fetchone()  # noqa: S608
    return None if row is None else _pull(row)


def pull_on(db: Tx, branch: str) -> PullRequest | None:
    """The open pull request of a branch of the bot's own repository."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM pull_requests WHERE repository = '' AND branch = ? AND state = 'OPEN'",  # noqa: S608
        (branch,),
    ).fetchone()
    return None if row is None else _pull(row)


def pulls_before(db: Tx, states: Sequence[PullState], before: int | None, limit: int) -> list[PullRequest]:
    """Pull requests in these states, the newest first, from below a number on."""
    among = ", ".join("?" * len(states))
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM pull_requests WHERE state IN ({among}) AND number < ?"  # noqa: S608
        " ORDER BY number DESC LIMIT ?",
        (*states, 1 << 62 if before is None else before, limit),
    )
    return [_pull(row) for row in rows]


def plain_pulls(db: Tx) -> list[PullRequest]:
    """Those that no job takes along: open, or merged and not deployed yet."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM pull_requests WHERE job_id IS NULL"  # noqa: S608
        " AND (state = 'OPEN' OR (state = 'MERGED' AND deployed_at IS NULL)) ORDER BY number"
    )
    return [_pull(row) for row in rows]


def opened_since(db: Tx, moment: str) -> int:
    """How many pull requests jobs opened since then; those of the runtime and of the owner do not count."""
    row = db.execute("SELECT count(*) FROM pull_requests WHERE opened_at >= ? AND job_id IS NOT NULL", (moment,))
    return int(row.fetchone()[0])


def suggested_since(db: Tx, repository: str, moment: str) -> int:
    """How many drafts patrols opened for a repository since then, whatever became of them."""
    row = db.execute(
        "SELECT count(*) FROM pull_requests WHERE opened_at >= ? AND repository = ?"
        " AND EXISTS (SELECT 1 FROM json_each(labels_json) WHERE value = 'suggested')",
        (moment, repository),
    )
    return int(row.fetchone()[0])


def opened_by(db: Tx, job_id: str) -> int:
    """How many pull requests a job opened, together with the jobs that it started, and those that these started."""
    row = db.execute(
        "WITH RECURSIVE family(job_id) AS (SELECT ? UNION SELECT j.job_id FROM jobs j JOIN family f"
        " ON json_extract(j.spec_json, '$.parent_id') = f.job_id)"
        " SELECT count(*) FROM pull_requests WHERE job_id IN (SELECT job_id FROM family)",
        (job_id,),
    )
    return int(row.fetchone()[0])


# What is remembered


def deployed_commit(db: Tx) -> str:
    """The commit whose files the workspace holds; empty before anything was deployed."""
    return read_meta(db, _DEPLOYED) or ""


def set_deployed(tx: Tx, commit: str) -> None:
    """The workspace holds the files of this commit now."""
    write_meta(tx, _DEPLOYED, commit)
