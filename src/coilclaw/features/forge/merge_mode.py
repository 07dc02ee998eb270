"""Making merges stricter: an action with a receipt like every other change, which needs no proof. Loosening does."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import ToolCall
from coilclaw.packets.errors import UsageError
from coilclaw.packets.settings import ConfigEdit, SettingChange
from coilclaw.runtime.settings import NothingChanges, config_writer, notes, proposal
from coilclaw.store.yolo import set_yolo, yolo_until

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.tx import Tx

TIGHTEN = "bot_tighten"
STRICT = (SettingChange(key="forge.merge_mode", op="set", value="strict"),)


def tightening(app: "Runtime") -> ToolCall | None:
    """The call that has every merge asked about from now on; None when that is so already."""
    if app.config.forge.merge_mode == "strict":
        return ending_yolo(app)
    try:
        edit = msgspec.json.decode(proposal(app, STRICT).args_bytes, type=ConfigEdit)
    except NothingChanges as error:
        told = " ".join(notes(app, STRICT))
        raise UsageError(f"config.toml already says strict. {told}", remedy="Unset the variable.") from error
    return ToolCall.of(TIGHTEN, {"before": edit.before, "after": edit.after})


def ending_yolo(app: "Runtime") -> ToolCall | None:
    """The call that has merges asked about as the configuration says; None when they are."""
    return None if yolo_until(app.db.reader) is None else ToolCall.of(TIGHTEN, {"before": "", "after": ""})


async def tighten(app: "Runtime", before: str, after: str) -> str:
    """End yolo, then write the mode strict into the configuration, if both hashes are given: what became of it."""

    def write(tx: "Tx") -> None:
        set_yolo(tx, None)
        add_event(tx, app.clock, "merge_mode", "bot", {"mode": "strict" if after else app.config.forge.merge_mode})

    await app.db.write(write)
    if not after:
        return f"Yolo is over; the merge mode is {app.config.forge.merge_mode}."
    await config_writer(app).write(ConfigEdit(changes=STRICT, before=before, after=after))
    return "You approve every merge."
