"""The policy in force: every flag and limit with where it comes from, and what a call would be told now."""

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from coilclaw.features.policy.policies import Policies
from coilclaw.features.policy.policy_faults import FaultyLine
from coilclaw.features.policy.views import CallToCheck, CheckedCall, EffectivePolicy, EffectiveRule, EffectiveSetting
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller


class PolicyController(Controller):
    """The policy in force."""

    path = "/v1"
    tags = ("policy",)

    @get("/settings/policy", operation_id="getPolicy")
    async def show(self, core: NamedDependency[Core], policies: NamedDependency[Policies]) -> EffectivePolicy:
        """Every flag and limit in force, each with where it comes from, and the rules of the policy files."""
        found = policies.effective()
        return msgspec.structs.replace(
            found,
            broken=core.said(found.broken),
            rules=[
                EffectiveRule(id=core.said(rule.id), verdict=rule.verdict, reason=core.said(rule.reason),
                              when=core.shown(rule.when))
                for rule in found.rules
            ],
            settings=[_without_secrets(core, each) for each in found.settings],
            faults=[core.said(fault) for fault in found.faults],
        )  # fmt: skip

    @post("/policy/check", operation_id="checkPolicy", status_code=200)
    async def check(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        policies: NamedDependency[Policies],
        data: JSONBody[CallToCheck],
    ) -> CheckedCall:
        """The decision a call would get now; with `file`, as if that policy file held that content."""
        checked = await policies.check(data)
        decision = checked.decision
        asks = decision.verdict == "ask"
        return CheckedCall(
            needs=core.approvals.owner.needed(core.db.reader, decision.lane, caller.by) if asks else "",
            decision=msgspec.structs.replace(
                decision,
                reasons=tuple(core.said(each) for each in decision.reasons),
                recommended_changes=tuple(core.said(each) for each in decision.recommended_changes),
            ),
            faults=without_secrets(core, checked.faults),
        )


def _without_secrets(core: Core, each: EffectiveSetting) -> EffectiveSetting:
    """The variable that holds a secret is named, and its name is no secret; every other value passes the redactor."""
    if each.key.endswith("_env"):
        return each
    return msgspec.structs.replace(each, value=core.shown(each.value), next_value=core.shown(each.next_value))


def without_secrets(core: Core, faults: list[FaultyLine]) -> list[FaultyLine]:
    """Faults quote the file they are found in."""
    return [FaultyLine(line=each.line, path=core.said(each.path), text=core.said(each.text)) for each in faults]
