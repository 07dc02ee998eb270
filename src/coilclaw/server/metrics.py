"""Counters, gauges and histograms for Prometheus.

Totals come from the database on demand, so that every process counts and restarts lose nothing; waits and
boxes are read from it too. Only what leaves no row is measured in this process: decisions, providers
and requests. Labels are our own names; anything else counts as `other`.
"""

import asyncio
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily

from coilclaw.ledger.audit import last_number
from coilclaw.ledger.chain import last_link
from coilclaw.ledger.totals import (
    OTHER,
    Totals,
    boxes_after,
    count_new,
    is_counted,
    keep_totals,
    load_totals,
    waits_after,
)
from coilclaw.server.core import Core
from coilclaw.store.read_connection import reading_apart
from coilclaw.store.sizes import sizes_of
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

DECISION_BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5)
WAIT_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600)
BOX_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60)
PROVIDER_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MOST_CODES = 200
AT_ONCE = 10_000
"""Answers and commands read per scrape."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """The allowed label values."""

    tools: Collection[str]
    providers: Collection[str]


class _Counted:
    """The totals as counters."""

    def __init__(self, names: Names) -> None:
        self.totals = Totals()
        self._names = names

    def describe(self) -> list[CounterMetricFamily]:
        """Nothing to describe while the registry is built."""
        return []

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every total, including zeros."""
        yield CounterMetricFamily("coilclaw_conversations", "Conversations started.", value=self.totals.conversations)
        calls = CounterMetricFamily(
            "coilclaw_tool_calls", "Calls that ended, by tool and receipt.", labels=["tool", "status"]
        )
        unused = dict.fromkeys((f"allowed {tool}" for tool in self._names.tools), 0)
        for key, number in sorted({**unused, **self.totals.calls}.items()):
            status, _, tool = key.partition(" ")
            calls.add_metric([tool, status], number)
        yield calls
        denials = CounterMetricFamily("coilclaw_tool_denials", "Calls that were denied, by code.", labels=["code"])
        for code, number in sorted((self.totals.denials or {"": 0}).items()):  # a missing label equals an empty one
            denials.add_metric([code], number)
        yield denials
        errors = CounterMetricFamily(
            "coilclaw_provider_errors", "Times a model provider failed to answer.", labels=["provider"]
        )
        faultless = dict.fromkeys(self._names.providers, 0)
        for name, number in sorted({**faultless, **self.totals.provider_errors}.items()):
            errors.add_metric([name], number)
        yield errors


class Meters:
    """All metrics of one server, in their own registry."""

    def __init__(self, core: Core, names: Names) -> None:
        self._core = core
        self._names = names
        self._looking = asyncio.Lock()
        self._registry = CollectorRegistry()
        self._counted = _Counted(names)
        self._registry.register(self._counted)
        self._audit_from = last_number(core.db.reader)
        self._receipts_from = last_link(core.db.reader)[0]
        self._decision = self._histogram("decision", "Time from a call to the gate's decision.", DECISION_BUCKETS)
        self._waits = self._histogram(
            "approval_wait", "Time from a proposal to the owner's answer.", WAIT_BUCKETS, "answer"
        )
        self._boxes = self._histogram("box", "Duration of boxed commands.", BOX_BUCKETS, "tier")
        self._providers = self._histogram(
            "provider", "Duration of model provider responses.", PROVIDER_BUCKETS, "provider"
        )
        self._requests = self._histogram(
            "request", "Duration of requests, to the end of the response; for streams, to its start.", REQUEST_BUCKETS,
            "route", "method", "status",
        )  # fmt: skip
        self._gauges = {
            "pending_approvals": self._gauge("pending_approvals", "Actions waiting for the owner."),
            "open_jobs": self._gauge("open_jobs", "Jobs that have not ended."),
            "streams": self._gauge("streams", "Open event streams."),
            "estop": self._gauge("estop", "1 while ESTOP is engaged."),
        }
        self._valid = self._gauge(
            "receipt_chain_valid", "1 while the receipt chain is valid; NaN until first verified."
        )
        self._valid.set(math.nan)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"coilclaw_{name}_seconds", about, labels, buckets=buckets, registry=self._registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"coilclaw_{name}", about, registry=self._registry)

    # In this process

    def measure(self, what: str, of: str, seconds: float) -> None:
        """Record how long a decision or a provider's answer took; unknown names are ignored."""
        if what == "decision":
            self._decision.observe(seconds)
        elif what == "provider":
            self._providers.labels(of if of in self._names.providers else OTHER).observe(seconds)

    def around(self, app: "ASGIApp") -> "ASGIApp":
        """The application with every request measured, by route."""

        async def measured(scope: "Scope", receive: "Receive", send: "Send") -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            started, status, streamed = time.perf_counter(), 500, False

            async def sent(message: "Message") -> None:
                nonlocal status, streamed
                if message["type"] == "http.response.start":
                    status = message["status"]
                    kind = dict(message.get("headers", ())).get(b"content-type", b"")
                    if kind.startswith(b"text/event-stream"):
                        streamed = True
                        self._requested(scope, status, time.perf_counter() - started)
                await send(message)

            try:
                await app(scope, receive, sent)
            finally:
                if not streamed:
                    self._requested(scope, status, time.perf_counter() - started)

        return measured

    def _requested(self, scope: "Scope", status: int, seconds: float) -> None:
        told = cast("dict[str, object]", scope)
        route = str(told.get("path_template") or "none")  # only our own routes have one, so their number is limited
        method = str(told.get("method", ""))
        self._requests.labels(route, method if method in METHODS else OTHER, str(status)).observe(seconds)

    # From the database

    async def page(self, *, chain_valid: bool | None, streams: int) -> bytes:
        """All metrics in Prometheus's format."""
        async with self._looking:
            await self._count()
            core = self._core
            sizes = sizes_of(core.db.reader)
            self._gauges["pending_approvals"].set(sizes.waiting)
            self._gauges["open_jobs"].set(sizes.open_jobs)
            self._gauges["streams"].set(streams)
            self._gauges["estop"].set(int(core.estop.engaged()))
            if chain_valid is not None:
                self._valid.set(int(chain_valid))
            return generate_latest(self._registry)

    async def _count(self) -> None:
        core = self._core
        if self._counted.totals == Totals():
            self._counted.totals = load_totals(core.db.reader)
        if is_counted(core.db.reader, self._counted.totals):
            return
        totals = await asyncio.to_thread(self._read_new)
        self._counted.totals = totals
        await core.db.write(lambda tx: keep_totals(tx, totals))

    def _read_new(self) -> Totals:
        with reading_apart(self._core.db.path) as db:
            totals = count_new(
                db,
                self._counted.totals,
                tools=self._names.tools,
                codes=MOST_CODES,
                providers=self._names.providers,
            )
            self._observe_new(db, totals)
        return totals

    def _observe_new(self, db: Tx, until: Totals) -> None:
        for waited in waits_after(db, self._audit_from, until.audit, AT_ONCE):
            self._waits.labels(waited.answer).observe(waited.seconds)
        for tier, seconds in boxes_after(db, self._receipts_from, until.receipts, AT_ONCE):
            self._boxes.labels(tier if tier in ("A", "B", "C", "unsafe") else OTHER).observe(seconds)
        self._audit_from, self._receipts_from = until.audit, until.receipts
