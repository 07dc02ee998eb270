"""Until when pull requests merge without a question. ESTOP ends it for good, so the stop's own record clears it."""

from datetime import datetime

from coilclaw.packets.ids import from_stamp, stamp
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

_YOLO = "forge.yolo_until"


def yolo_until(db: Tx) -> datetime | None:
    """Until when pull requests merge without a question; None when the owner never said so."""
    word = read_meta(db, _YOLO)
    return from_stamp(word) if word else None


def yolo_now(db: Tx, now: datetime) -> datetime | None:
    """The same while it lasts; None when pull requests are asked about."""
    until = yolo_until(db)
    return until if until is not None and now < until else None


def set_yolo(tx: Tx, until: datetime | None) -> None:
    """Let pull requests merge without a question until then, or no longer."""
    write_meta(tx, _YOLO, "" if until is None else stamp(until))
