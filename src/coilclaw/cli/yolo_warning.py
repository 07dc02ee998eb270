"""The red line that is shown wherever merges are not asked about."""

from typing import TYPE_CHECKING

from coilclaw.cli.output import moment, print_line
from coilclaw.packets.ids import stamp
from coilclaw.store.yolo import yolo_now

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime


def warn_of_yolo(app: "Runtime") -> None:
    """Say in red that pull requests merge without a question, while that is so."""
    until = yolo_now(app.db.reader, app.clock())
    if until is not None and not app.estop.engaged():
        words = f"YOLO: pull requests merge without asking you until {moment(stamp(until))}."
        print_line(words, style="red", err=True)
