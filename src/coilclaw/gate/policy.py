"""The decision: pure functions from a call's facts to allow, ask or deny. No rule means deny.

All denies are looked at first, then all asks, then allow. Every rule has an id, a code and a sentence.
"""

from coilclaw.gate.asks import ASKS
from coilclaw.gate.case import Case, Facts, Policy, Setting, describe, lane_of, risk_of
from coilclaw.gate.denials import DENIES
from coilclaw.packets.decision import Decision, Reason, Verdict


def decide(facts: Facts, policy: Policy, setting: Setting) -> Decision:
    """Allow, ask or deny, with every reason that speaks for it."""
    lane = lane_of(facts)
    case = Case(
        facts=facts,
        policy=policy,
        setting=setting,
        risk=risk_of(facts, policy, lane),
        lane=lane,
        effect=facts.tool.effect if facts.tool else "WRITE",
    )
    for verdict, rules in (("deny", DENIES), ("ask", ASKS)):
        reasons = tuple(reason for rule in rules for reason in rule(case))
        if reasons:
            return _decision(case, "deny" if verdict == "deny" else "ask", reasons)
    return _decision(case, "allow", (_why_allowed(case),))


def _why_allowed(case: Case) -> Reason:
    return Reason(
        rule=f"autonomy.{case.policy.autonomy}",
        code="ALLOWED",
        text=f"{describe(case, begin=True)} runs by itself when autonomy is {case.policy.autonomy}.",
    )


def _decision(case: Case, verdict: Verdict, reasons: tuple[Reason, ...]) -> Decision:
    return Decision.of(
        verdict,
        reasons,
        risk=case.risk,
        risk_class=case.effect,
        lane=case.lane,
        policy_hash=case.policy.hash,
        job_id=case.setting.job_id,
    )
