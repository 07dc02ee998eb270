"""What every route is given: storage, time, redaction and the gate."""

from dataclasses import dataclass

import msgspec

from coilclaw.gate.approvals import Approvals
from coilclaw.gate.conveyor import Conveyor
from coilclaw.gate.estop import Estop
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock
from coilclaw.packets.text import one_line
from coilclaw.secrets.redactor import Redactor
from coilclaw.store.database import Database


@dataclass(frozen=True, kw_only=True)
class Core:
    """The parts of one home that the server stands on."""

    db: Database
    clock: Clock
    redactor: Redactor
    conveyor: Conveyor
    approvals: Approvals
    estop: Estop

    def shown(self, value: object) -> Json:
        """A value as plain JSON without secrets; should redaction break, nothing of it."""
        try:
            return self.redactor.value(msgspec.to_builtins(value))
        except Exception:  # fail closed: what cannot be redacted is not shown
            return {"withheld": "redaction failed"}

    def named(self, text: str) -> str:
        """A name that others may have given, as it leaves: one line without secrets, and nothing in it hides."""
        return one_line(self.said(text))

    def whole(self, text: str) -> str:
        """A text that is asked about: without the values we know to be secrets, and nothing else hidden in it."""
        try:
            return self.redactor.registered(text)
        except Exception:  # fail closed
            return "[withheld: redaction failed]"

    def said(self, text: str) -> str:
        """A text without secrets; should redaction break, nothing of it."""
        try:
            return self.redactor.text(text)
        except Exception:  # fail closed
            return "[withheld: redaction failed]"
