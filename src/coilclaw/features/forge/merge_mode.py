"""Making merges stricter: the owner's word is enough, as it is for ESTOP. Loosening goes through the gate."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.settings import ConfigEdit, SettingChange
from coilclaw.runtime.settings import NothingChanges, config_writer, proposal
from coilclaw.store.yolo import set_yolo, yolo_until

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.tx import Tx


async def make_strict(app: "Runtime", *, by: str) -> None:
    """End yolo at once and have every merge asked about from now on."""
    await end_yolo(app, by=by)
    change = SettingChange(key="forge.merge_mode", op="set", value="strict")
    if app.config.forge.merge_mode == "strict":
        return
    try:
        call = proposal(app, (change,))
    except NothingChanges:
        return  # the environment says otherwise, and comes first
    await config_writer(app).write(msgspec.json.decode(call.args_bytes, type=ConfigEdit))


async def end_yolo(app: "Runtime", *, by: str) -> None:
    """Merge as the configuration says from now on."""

    def write(tx: "Tx") -> None:
        set_yolo(tx, None)
        add_event(tx, app.clock, "merge_mode", "bot", {"mode": app.config.forge.merge_mode, "by": by})

    if yolo_until(app.db.reader) is not None:
        await app.db.write(write)
