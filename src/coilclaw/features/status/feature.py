"""Status: the routes of the overview, usage, the doctor, providers, ESTOP, the gateway and metrics; the ESTOP watch."""

import time
from typing import TYPE_CHECKING

from coilclaw.features import Feature
from coilclaw.features.status.estop_watch import estop_watch

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore


def status_part(serving: "Serving") -> "Part":
    """The routes about the product itself, with every request measured."""
    from coilclaw.features.records.chain_rounds import ChainRounds
    from coilclaw.features.status.doctor import Doctor
    from coilclaw.features.status.overview import OverviewCounts
    from coilclaw.features.status.providers import ConfiguredProviders
    from coilclaw.features.status.routes.doctor import DoctorController
    from coilclaw.features.status.routes.estop import EstopController
    from coilclaw.features.status.routes.gateway import GatewayController
    from coilclaw.features.status.routes.metrics import MetricsController
    from coilclaw.features.status.routes.overview import OverviewRoutes
    from coilclaw.features.status.routes.providers import ProvidersController
    from coilclaw.features.status.routes.usage import UsageController
    from coilclaw.features.status.server_status import ServerStatus
    from coilclaw.features.status.usage_cost import UsageReports
    from coilclaw.server.metrics import Meters, Names
    from coilclaw.server.part import Part

    runtime = serving.runtime
    meters = Meters(serving.core, Names(tools=runtime.tools, providers=runtime.config.providers.models))
    runtime.measure = meters.measure
    return Part(
        controllers=(
            UsageController,
            DoctorController,
            ProvidersController,
            EstopController,
            GatewayController,
            MetricsController,
            OverviewRoutes,
        ),
        given={
            "usage": UsageReports(runtime),
            "doctor": Doctor(runtime),
            "providers": ConfiguredProviders(runtime),
            "server_status": ServerStatus(runtime),
            "chain_rounds": ChainRounds(time.monotonic),
            "meters": meters,
            "overview": OverviewCounts(runtime),
        },
        around=meters.around,
    )


def _chores(runtime: "Runtime", _: "Conveyor") -> "tuple[Chore, ...]":
    return (estop_watch(runtime),)


FEATURE = Feature(part=status_part, chores=_chores)
