"""An older copy of the database was restored: everything stops, all devices are signed out, nothing is done twice."""

from typing import TYPE_CHECKING

from coilclaw.packets.ids import stamp
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.ledger.older import Older
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime import Runtime

TOLD = "older_copy"
"""The key of the break that was last reported to the owner."""
CODE = "OLDER_DATABASE"
DOUBT = "The receipts log shows that it was attempted; the database is an older copy and does not know how it ended."
REMEDY = "Restore the newer database, or see SECURITY.md, 'An older database', then clear ESTOP."


def stop_if_older(app: "Runtime") -> None:
    """Engage ESTOP when the rows lack what was signed or logged. Each break is reported once; the owner decides."""
    from coilclaw.ledger.older import find_older
    from coilclaw.store.meta import read_meta

    older = find_older(app.db.reader, app.signing_key, app.config.receipts.path)
    if older is None or read_meta(app.db.reader, TOLD) == older.sign:
        return
    reason = in_words(older)
    app.estop.engage(reason, stamp(app.clock()))
    app.db.write_now(lambda tx: _settle(app, tx, older))
    app.warn(f"{reason} Everything is stopped and every device is signed out. {REMEDY}")


def in_words(older: "Older") -> str:
    """What is wrong with the database, in a sentence."""
    if older.rows >= older.known:
        return "this is a different database: its receipts do not continue from the last signed head."
    if older.rows == 0:
        return f"the database is new or an older copy: it has no receipts, and there were {older.known}."
    return f"the database is an older copy: it ends at receipt {older.rows}, and there were {older.known}."


def _settle(app: "Runtime", tx: Tx, older: "Older") -> None:
    from coilclaw.ledger.audit import add_event
    from coilclaw.store.devices import end_all_tokens
    from coilclaw.store.meta import write_meta

    doubtful = [action_id for action_id in older.attempted if _doubt(app, tx, action_id)]
    add_event(
        tx,
        app.clock,
        "database_older",
        "database",
        {"rows": older.rows, "known": older.known, "unknown": [*doubtful], "signed_out": end_all_tokens(tx)},
    )
    write_meta(tx, TOLD, older.sign)


def _doubt(app: "Runtime", tx: Tx, action_id: str) -> bool:
    """Leave an action that was attempted before to the owner: only the owner can say how it ended."""
    from coilclaw.ledger.audit import add_event
    from coilclaw.packets.action import ToolResult
    from coilclaw.packets.canonical import sha256_hex
    from coilclaw.store.actions import action_state, finish_action, load_action

    action = load_action(tx, action_id)
    if action is None or action.status not in ("PENDING", "APPROVED"):
        return False
    receipt = app.ledger.add(tx, action, "unknown", code=CODE, result_hash=sha256_hex(DOUBT.encode()))
    result = ToolResult(success=False, output=DOUBT, error=DOUBT, code=CODE, receipt_id=receipt.id)
    ended = finish_action(tx, app.clock, action, "UNKNOWN", result, reason=CODE)
    told: dict[str, Json] = {"code": CODE, "receipt_id": receipt.id}
    add_event(tx, app.clock, "tool_unknown", action_id, told, state=action_state(tx, action_id))
    return ended
