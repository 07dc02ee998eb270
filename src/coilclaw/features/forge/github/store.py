"""Rows of what stands on GitHub, and how the last look at it went."""

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

_STATE = "github.state"
_WOKEN = "github.woken"
CLOSED = "closed"
"""Stands for the check of one that was closed there too."""
_COLUMNS = "number, remote, head, gate, etag, review, updated_at"


class GitHubPull(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request there."""

    number: int
    remote: int
    head: str
    gate: str = ""
    etag: str = ""
    review: str = ""
    updated_at: str = ""


class GitHubState(msgspec.Struct, frozen=True, kw_only=True):
    """How the last look went."""

    synced_at: str = ""
    """When everything was in order last."""
    repository: str = ""
    """The repository that all this is about."""
    main: str = ""
    """Where main stood there."""
    common: str = ""
    """The newest commit on main that was on both sides."""
    etag: str = ""
    fault: str = ""
    """What keeps it from being in order, and what to do; empty when nothing does."""
    held: str = ""
    """A commit on main there that waits for the owner's word."""
    accepted: str = ""
    """One that the owner took in."""
    public_since: str = ""
    """When the repository was found to be public; empty while it is private."""
    public_allowed: str = ""
    """The `public_since` for which the owner said that it is sent to all the same."""
    left: int = -1
    """How many requests GitHub's limit left at the last look; -1 if it did not say."""


def github_pull(db: Tx, number: int) -> GitHubPull | None:
    """What stands there of a pull request."""
    row = db.execute(f"SELECT {_COLUMNS} FROM github_pulls WHERE number = ?", (number,)).fetchone()  # noqa: S608
    return None if row is None else GitHubPull(**dict(zip(_COLUMNS.split(", "), row, strict=True)))


def put_github_pull(tx: Tx, clock: Clock, pull: GitHubPull) -> None:
    """Remember what stands there."""
    kept = msgspec.structs.astuple(msgspec.structs.replace(pull, updated_at=stamp(clock())))
    places = ", ".join("?" * len(kept))
    tx.execute(f"INSERT OR REPLACE INTO github_pulls ({_COLUMNS}) VALUES ({places})", kept)  # noqa: S608


def merged_there(db: Tx, head: str) -> int | None:
    """The number of our pull request whose branch was brought to this commit."""
    row = db.execute("SELECT number FROM github_pulls WHERE head = ?", (head,)).fetchone()
    return None if row is None else int(row[0])


def is_known_there(db: Tx, remote: int) -> bool:
    """Whether a number there is that of one of ours."""
    return db.execute("SELECT 1 FROM github_pulls WHERE remote = ?", (remote,)).fetchone() is not None


def closed_here_alone(db: Tx, limit: int) -> list[GitHubPull]:
    """Those that were closed here, and may be open there."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM github_pulls WHERE gate != ?"  # noqa: S608
        " AND number IN (SELECT number FROM pull_requests WHERE state = 'CLOSED') LIMIT ?",
        (CLOSED, limit),
    )
    return [GitHubPull(**dict(zip(_COLUMNS.split(", "), row, strict=True))) for row in rows]


def forget_there(tx: Tx, repository: str) -> None:
    """Begin anew with another repository: numbers and commits of the one before mean nothing there."""
    tx.execute("DELETE FROM github_pulls")
    set_github_state(tx, GitHubState(repository=repository))


def github_state(db: Tx) -> GitHubState:
    """How the last look went."""
    kept = read_meta(db, _STATE)
    return GitHubState() if kept is None else msgspec.json.decode(kept, type=GitHubState)


def set_github_state(tx: Tx, state: GitHubState) -> None:
    """Remember it."""
    write_meta(tx, _STATE, msgspec.json.encode(state).decode())


def wake(tx: Tx, clock: Clock) -> None:
    """Have the next look come soon, whichever process looks."""
    write_meta(tx, _WOKEN, stamp(clock()))


def woken_at(db: Tx) -> str:
    """When somebody asked for a look; empty if nobody did."""
    return read_meta(db, _WOKEN) or ""
