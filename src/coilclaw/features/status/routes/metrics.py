"""Metrics for Prometheus."""

from litestar import Controller, Response, get
from litestar.di import NamedDependency

from coilclaw.features.records.chain import ChainWatch
from coilclaw.features.records.chain_rounds import ChainRounds
from coilclaw.server.events.stream import Streams
from coilclaw.server.metrics import Meters

TEXT = "text/plain; version=0.0.4"
"""Prometheus' own; that it is UTF-8 is added to it."""


class MetricsController(Controller):
    """Metrics."""

    path = "/metrics"
    tags = ("gateway",)

    @get(operation_id="getMetrics", media_type="text/plain")
    async def show(
        self,
        meters: NamedDependency[Meters],
        chain_watch: NamedDependency[ChainWatch],
        chain_rounds: NamedDependency[ChainRounds],
        streams: NamedDependency[Streams],
    ) -> Response[str]:
        """Counters, gauges and histograms in Prometheus' text format. Needs a token like everything else."""
        checked = await chain_rounds.last(chain_watch)
        valid = None if checked is None else checked.report.valid
        page = await meters.page(chain_valid=valid, streams=len(streams))
        return Response(page.decode(), media_type=TEXT)
