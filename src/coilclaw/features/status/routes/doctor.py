"""The doctor over HTTP: everything the agent relies on, probed by behaviour."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from coilclaw.features.status.doctor import Doctor
from coilclaw.packets.box import Probe
from coilclaw.server.core import Core

State: TypeAlias = Literal["ok", "warn", "fail"]
Short: TypeAlias = Annotated[
    bool, QueryParameter(description="Only the essentials; false tries every wall of every box, which takes seconds.")
]


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor found."""

    state: State
    """The worst of all probes; with `fail`, something the agent cannot do without does not hold."""
    probes: list[Probe]
    checked_at: str


class DoctorController(Controller):
    """The doctor."""

    path = "/v1/doctor"
    tags = ("doctor",)

    @get(operation_id="getDoctor")
    async def check(self, core: NamedDependency[Core], doctor: NamedDependency[Doctor], short: Short = True) -> Checkup:
        """Probe everything the agent relies on, with a remedy for each fault."""
        probes, checked_at = await doctor.check(short=short)
        states = {probe.state for probe in probes}
        worst: State = "fail" if "fail" in states else "warn" if "warn" in states else "ok"
        shown = [
            Probe(
                name=core.said(each.name),
                state=each.state,
                detail=core.said(each.detail),
                remedy=core.said(each.remedy),
            )
            for each in probes
        ]
        return Checkup(state=worst, probes=shown, checked_at=checked_at)
