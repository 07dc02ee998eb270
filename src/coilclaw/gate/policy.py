"""The decision: pure functions from a call's facts to allow, ask or deny. No rule means deny.

All denies are looked at first, then all asks, then allow. Every rule has an id, a code and a sentence.
"""

from coilclaw.gate.asks import ASKS
from coilclaw.gate.decision_input import Case, Facts, Policy, Setting, describe, lane_of, risk_of
from coilclaw.gate.denials import DENIES
from coilclaw.packets.decision import Decision, Reason, Verdict

WHERE: dict[str, str] = {"owner": "in your own words", "search": "in search results", "page": "on a page it opened"}
"""Where an address that needs no question stands."""


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
    if denies := tuple(reason for rule in DENIES for reason in rule(case)):
        return _decision(case, "deny", denies)
    if asks := tuple(reason for rule in ASKS for reason in rule(case)):
        most = case.share(policy.open_proposals)
        if not case.by_owner and facts.open_proposals >= most:
            return _decision(case, "deny", (_queue_full(most), *asks))
        return _decision(case, "ask", asks)
    return _decision(case, "allow", (_why_allowed(case),))


def _queue_full(most: int) -> Reason:
    return Reason(
        rule="budget.proposals",
        code="TOO_MANY_PROPOSALS",
        text=f"{most} actions are already waiting for the owner, which is the limit.",
        change="Answer some with `coilclaw approvals`, or raise budgets.open_proposals.",
    )


def _why_allowed(case: Case) -> Reason:
    url = case.facts.url
    if url is not None and url.origin in WHERE:  # later decisions of the turn count these by their rule
        return Reason(rule=f"address.{url.origin}", code="ALLOWED", text=f"Its address was found {WHERE[url.origin]}.")
    return Reason(
        rule=f"autonomy.{case.policy.autonomy}",
        code="ALLOWED",
        text=f"{describe(case, begin=True)} runs without asking when autonomy is {case.policy.autonomy}.",
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
