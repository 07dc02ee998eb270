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
    """The parts of one home that the server uses."""

    db: Database
    clock: Clock
    redactor: Redactor
    conveyor: Conveyor
    approvals: Approvals
    estop: Estop

    def shown(self, value: object) -> Json:
        """A value as plain JSON without secrets; withheld if redaction fails."""
        try:
            return self.redactor.value(msgspec.to_builtins(value))
        except Exception:  # fail closed
            return {"withheld": "redaction failed"}

    def named(self, text: str) -> str:
        """A name that others may have chosen: one line, redacted, every character visible."""
        return one_line(self.said(text))

    def whole(self, text: str) -> str:
        """A text to approve: without registered secrets, everything else visible."""
        try:
            return self.redactor.registered(text)
        except Exception:  # fail closed
            return "[withheld: redaction failed]"

    def said(self, text: str) -> str:
        """A text without secrets; withheld if redaction fails."""
        try:
            return self.redactor.text(text)
        except Exception:  # fail closed
            return "[withheld: redaction failed]"
