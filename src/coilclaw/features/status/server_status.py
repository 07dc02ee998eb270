"""How the server stands: since when, with which model and policy, with which tools."""

import time
from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Autonomy, Destination, Lane, Risk, RiskClass, Verdict
from coilclaw.packets.ids import stamp

if TYPE_CHECKING:
    from coilclaw.gate.decision_input import Facts
    from coilclaw.packets.ports import Tool
    from coilclaw.runtime.runtime import Runtime


class ToolListed(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, and what a plain call of it would be told."""

    name: str
    description: str
    effect: RiskClass
    destination: Destination
    idempotent: bool
    always_ask: bool
    lane: Lane
    """A: this machine. B: outside it. C: what governs the agent itself. Arguments can raise it."""
    risk: Risk
    """The least it can be; arguments can raise it."""
    verdict: Verdict
    """What the gate says to a plain call now: run, ask the owner, or deny."""
    reasons: list[str]
    parameters: dict[str, Json]
    """JSON Schema of the arguments."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a process stands."""

    started_at: str
    uptime_seconds: int
    worker: bool
    autonomy: Autonomy
    policy_broken: bool
    provider: str
    model: str
    config_fault: str


class ServerStatus:
    """How the process stands, and the tools it has."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._started_at = stamp(app.clock())
        self._started = time.monotonic()

    def holds(self) -> bool:
        """Whether config.toml as it is now is in force."""
        return not self._app.live.fault

    def standing(self) -> Standing:
        """How the process stands."""
        from coilclaw.gate.executor import worker_is_running
        from coilclaw.runtime.provider_test import model_asked

        app = self._app
        return Standing(
            started_at=self._started_at,
            uptime_seconds=int(time.monotonic() - self._started),
            worker=worker_is_running(app.home.locks_dir),
            autonomy=app.config.security.autonomy,
            policy_broken=bool(app.policy().broken),
            provider=app.config.default_provider,
            model=model_asked(app),
            config_fault=app.live.fault,
        )

    def tools(self) -> list[ToolListed]:
        """Every tool, and what a plain call of it would be told."""
        return [self._listed(tool) for tool in self._app.tools.values()]

    def _listed(self, tool: "Tool") -> ToolListed:
        from coilclaw.gate.decision_input import Setting
        from coilclaw.gate.identities import shown_parameters
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
            parameters=shown_parameters(tool),
        )

    def _plain(self, tool: "Tool") -> "Facts":
        """The facts of a call that touches nothing in particular."""
        from coilclaw.gate.decision_input import Facts, ToolFact

        return Facts(
            tool_name=tool.name,
            tool=ToolFact(
                name=tool.name,
                effect=tool.effect,
                destination=tool.destination,
                always_ask=tool.always_ask,
                governs=tool.governs,
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
            private=False,
        )
