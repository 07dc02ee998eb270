"""Passkeys for the server, from an App."""

from coilclaw.app.fronts.front import Front
from coilclaw.gate.enrolment import Enrolment
from coilclaw.server.part import Part
from coilclaw.server.routes.passkeys import PasskeysController


def passkeys_part(front: Front) -> Part:
    """The routes of passkeys."""
    enrolment = Enrolment(front.app.owner_proof, front.app.clock)
    return Part(controllers=(PasskeysController,), given={"enrolment": enrolment})
