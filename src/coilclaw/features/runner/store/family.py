"""Sessions that began others: one family has one root, one budget and one taint."""

from collections.abc import Iterator

from coilclaw.features.runner.store import Session, needed_session
from coilclaw.store.tx import Tx

_PARENT = "json_extract(spec_json, '$.parent_id')"
_BELOW = (
    f"WITH RECURSIVE below (id) AS (SELECT session_id FROM coding_sessions WHERE {_PARENT} = ?"  # noqa: S608 - our own
    f" UNION SELECT session_id FROM coding_sessions JOIN below ON {_PARENT} = below.id)"
    " SELECT id FROM below ORDER BY id"
)


def below(db: Tx, session_id: str) -> list[Session]:
    """The sessions that one began, and those that they began; the oldest first."""
    rows = db.execute(_BELOW, (session_id,)).fetchall()
    return [needed_session(db, row[0]) for row in rows]


def ancestors(db: Tx, session: Session) -> Iterator[Session]:
    """Who began it, and who began that, as far as they were not removed."""
    from coilclaw.features.runner.store import load_session

    parent = load_session(db, session.spec.parent_id) if session.spec.parent_id else None
    while parent is not None:
        yield parent
        parent = load_session(db, parent.spec.parent_id) if parent.spec.parent_id else None


def family_of(db: Tx, session: Session) -> list[Session]:
    """Its root and everything below, the root first."""
    root = next(iter([*ancestors(db, session)][::-1]), session)
    return [root, *below(db, root.session_id)]


def tokens_of_family(db: Tx, session: Session) -> int:
    """What the whole family used of its model, in and out."""
    return sum(each.input_tokens + each.output_tokens for each in family_of(db, session))
