"""Devices: the routes of pairing, signing in and out, devices and passkeys."""

import os
from typing import TYPE_CHECKING

from coilclaw.features import Feature
from coilclaw.features.devices.code_exchange import Pairing

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def pairing_of(app: "Runtime") -> Pairing:
    """What gives pairing codes out, at the terminal as over HTTP."""
    config = app.config.server
    return Pairing(clock=app.clock, minutes=config.pairing_minutes, token_days=config.token_days, random=os.urandom)


def devices_part(serving: "Serving") -> "Part":
    """The routes of pairing, signing in and out, devices and passkeys."""
    from coilclaw.features.devices.github_sign_in import GitHubSignIn
    from coilclaw.features.devices.pairing import Reception
    from coilclaw.features.devices.routes.devices import DevicesController
    from coilclaw.features.devices.routes.pairing import PairingController
    from coilclaw.features.devices.routes.passkeys import PasskeysController
    from coilclaw.features.devices.routes.signed_in import SignInController
    from coilclaw.gate.enrolment import Enrolment
    from coilclaw.packets.ids import stamp
    from coilclaw.server.part import Part

    runtime = serving.runtime
    enrolment = Enrolment(runtime.owner_proof, runtime.clock)

    def window(device_id: str) -> str | None:
        ends = enrolment.window_ends(runtime.db.reader, device_id)
        return None if ends is None else stamp(ends)

    pairing = pairing_of(runtime)
    reception = Reception(
        db=runtime.db,
        clock=runtime.clock,
        pairing=pairing,
        proofs=runtime.owner_proof,
        hosts=serving.hosts,
        page_keys=serving.page_keys,
        window=window,
        token_days=runtime.config.server.token_days,
        revoked=serving.revoked,
    )
    return Part(
        controllers=(PairingController, SignInController, DevicesController, PasskeysController),
        given={
            "reception": reception,
            "enrolment": enrolment,
            "github_sign_in": GitHubSignIn(runtime, pairing),
        },
    )


FEATURE = Feature(part=devices_part)
