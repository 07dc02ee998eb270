"""The house over HTTP: policy, the owner's files, usage, the doctor, providers, ESTOP, the gateway and metrics."""

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from coilclaw.app.fronts.files import Files
from coilclaw.app.fronts.front import Front
from coilclaw.app.fronts.policy import Policies
from coilclaw.packets.errors import ProviderError
from coilclaw.packets.ids import stamp
from coilclaw.server.chain_rounds import ChainRounds
from coilclaw.server.meters import Meters, Names
from coilclaw.server.part import Part
from coilclaw.server.problems import Trouble
from coilclaw.server.redacting import Redacting
from coilclaw.server.routes.doctor import DoctorController
from coilclaw.server.routes.estop import EstopController
from coilclaw.server.routes.gateway import GatewayController, Standing, ToolListed
from coilclaw.server.routes.metrics import MetricsController
from coilclaw.server.routes.policies import PoliciesController
from coilclaw.server.routes.policy import PolicyController
from coilclaw.server.routes.providers import ProviderListed, ProvidersController, ProviderTried
from coilclaw.server.routes.shown_files import ShownFiles
from coilclaw.server.routes.skills import SkillsController
from coilclaw.server.routes.system_prompt import SystemPromptController
from coilclaw.server.routes.usage import UsageBill, UsageBudgets, UsageBy, UsageController, UsageReport
from coilclaw.store.apart import reading_apart

if TYPE_CHECKING:
    from coilclaw.app.app import App
    from coilclaw.app.bills import Bill
    from coilclaw.gate.case import Facts
    from coilclaw.packets.box import Probe
    from coilclaw.packets.ports import Tool

TEST_SECONDS = 30.0
LONGEST_ANSWER = 400


def house_part(front: Front) -> Part:
    """Everything about the house itself."""
    app = front.app
    meters = Meters(front.core, Names(tools=app.tools, providers=app.config.providers.models))
    app.measure = meters.measure
    return Part(
        controllers=(
            PolicyController,
            PoliciesController,
            SkillsController,
            SystemPromptController,
            ShownFiles,
            UsageController,
            DoctorController,
            ProvidersController,
            EstopController,
            GatewayController,
            MetricsController,
        ),
        given={
            "policy_desk": Policies(app),
            "file_desk": Files(front),
            "file_redacting": Redacting(front.core),
            "usage_desk": Usage(app),
            "doctor": Doctor(app),
            "provider_desk": Providers(app),
            "house_desk": House(app),
            "chain_rounds": ChainRounds(time.monotonic),
            "meters": meters,
        },
    )


class Usage:
    """What answers took."""

    def __init__(self, app: "App") -> None:
        self._app = app

    async def report(self, by: UsageBy, days: int) -> UsageReport:
        """What was used in so many days, read apart: a year may be many rows."""
        return await asyncio.to_thread(self._report, by, days)

    def _report(self, by: UsageBy, days: int) -> UsageReport:
        from coilclaw.app.bills import usage_report
        from coilclaw.store.provider_usage import usage_by_provider
        from coilclaw.store.usage import day_began, usage_rows

        app = self._app
        since = day_began(app.clock(), days_ago=days - 1)
        with reading_apart(app.db.path) as db:
            rows = usage_by_provider(db, since) if by == "provider" else usage_rows(db, since, by)
            report = usage_report(app, db, by, since, rows)
        used, daily = report.today.tokens, report.today.daily_tokens
        return UsageReport(
            by=by,
            since=since,
            rows=[_bill(each) for each in report.rows],
            total=_bill(report.total),
            budgets=UsageBudgets(
                daily_tokens=daily,
                used_today=used,
                left_today=max(0, daily - used),
                job_tokens=app.config.budgets.job_tokens,
                turn_tokens=app.config.agent.turn_token_budget,
            ),
        )


def _bill(bill: "Bill") -> UsageBill:
    return msgspec.convert(bill, UsageBill, from_attributes=True)


class Doctor:
    """Examines, one patient at a time: whoever comes meanwhile hears what the first one hears."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._running: dict[bool, asyncio.Task[tuple[list[Probe], str]]] = {}

    async def check(self, *, short: bool) -> tuple[list["Probe"], str]:
        """Every probe, and when that was. It goes on even when the one who asked has left."""
        running = self._running.get(short)
        if running is None or running.done():
            running = self._running[short] = asyncio.ensure_future(asyncio.to_thread(self._examine, short=short))
        return await asyncio.shield(running)

    def _examine(self, *, short: bool) -> tuple[list["Probe"], str]:
        from coilclaw.app.checkup import examine

        with reading_apart(self._app.db.path) as db:
            return examine(self._app, lambda: db, short=short), stamp(self._app.clock())


class Providers:
    """The model providers."""

    def __init__(self, app: "App", seconds: float = TEST_SECONDS) -> None:
        self._app = app
        self._seconds = seconds

    def listed(self) -> list[ProviderListed]:
        """Every configured provider."""
        from coilclaw.app.provider_test import listed_providers

        return [msgspec.convert(each, ProviderListed, from_attributes=True) for each in listed_providers(self._app)]

    async def ask(self, name: str) -> ProviderTried:
        """One short answer, or why there is none."""
        from coilclaw.app.provider_test import try_provider

        try:
            async with asyncio.timeout(self._seconds):
                tried = await try_provider(self._app, name)
        except TimeoutError as error:
            raise Trouble(
                504,
                "PROVIDER_SLOW",
                f"{name} did not answer within {self._seconds:g} seconds.",
                remedy="Try again; if it stays so, look at the server it runs on.",
            ) from error
        except ProviderError as error:
            told = self._app.redact(error.message)
            raise Trouble(502, "PROVIDER_FAILED", told, remedy=self._app.redact(error.remedy)) from error
        return ProviderTried(name=name, model=tried.model, seconds=tried.seconds, text=tried.text[:LONGEST_ANSWER])


class House:
    """How the process stands."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._started_at = stamp(app.clock())
        self._started = time.monotonic()

    def standing(self) -> Standing:
        """How the process stands."""
        from coilclaw.gate.executor import worker_is_running

        app = self._app
        return Standing(
            started_at=self._started_at,
            uptime_seconds=int(time.monotonic() - self._started),
            worker=worker_is_running(app.home.locks_dir),
            autonomy=app.config.security.autonomy,
            policy_broken=bool(app.policy().broken),
            provider=app.config.default_provider,
            model=app.config.default_model,
        )

    def tools(self) -> list[ToolListed]:
        """Every tool, and what a plain call of it would be told."""
        return [self._listed(tool) for tool in self._app.tools.values()]

    def _listed(self, tool: "Tool") -> ToolListed:
        from coilclaw.gate.case import Setting
        from coilclaw.gate.policy import decide

        decision = decide(self._plain(tool), self._app.policy(), Setting(source="chat"))
        return ToolListed(
            name=tool.name,
            description=tool.description,
            effect=tool.effect,
            destination=tool.destination,
            idempotent=tool.idempotent,
            always_ask=tool.always_ask,
            lane=decision.lane,
            risk=decision.risk,
            verdict=decision.verdict,
            reasons=list(decision.reasons),
            parameters=tool.parameters,
        )

    def _plain(self, tool: "Tool") -> "Facts":
        """The facts of a call that touches nothing in particular."""
        from coilclaw.gate.case import Facts, ToolFact

        return Facts(
            tool_name=tool.name,
            tool=ToolFact(
                name=tool.name,
                effect=tool.effect,
                destination=tool.destination,
                always_ask=tool.always_ask,
                opens_pr=tool.opens_pr,
                callers=tool.callers,
            ),
            near_names=(),
            schema_error="",
            estop=self._app.estop.engaged(),
            paths=(),
            command=None,
            url=None,
            secret=False,
            unsafe=False,
            recent_calls=0,
            open_proposals=0,
            fresh=(),
            inherited=(),
        )
