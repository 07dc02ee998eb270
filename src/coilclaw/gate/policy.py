"""The decision: pure functions from a call's facts to allow, ask or deny. No rule means deny.

All denies are looked at first, then all asks, which a standing answer may settle, then allow. Every rule has an id, a
code and a sentence.
"""

from coilclaw.gate.asks import ASKS
from coilclaw.gate.decision_input import (
    BACKGROUND,
    OUTSIDE,
    Case,
    Facts,
    Policy,
    Setting,
    describe,
    lane_of,
    mailed,
    risk_of,
)
from coilclaw.gate.denials import DENIES
from coilclaw.gate.merge_modes import answered_in_advance
from coilclaw.gate.standing import lifting, reason_of
from coilclaw.packets.action import Label
from coilclaw.packets.decision import HELD_BACK, Decision, Reason, Verdict
from coilclaw.packets.settings import SettingChange

WHERE: dict[str, str] = {"owner": "in your own words", "search": "in search results", "page": "on a page it opened"}
"""Where an address that needs no question stands."""


_OF_A_MERGE = frozenset({"LANE_B", "LANE_C", "TAINT_INHERITED", "TOOL_ASKS"})
"""The questions of a merge that the owner's mode answers in advance."""


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
        answer = lifting(case, asks)
        if answer is not None:
            return _decision(case, "allow", (reason_of(answer),))
        if answered := _merge_answered(facts, asks):
            return _decision(case, "allow", (Reason(rule="merge.mode", code="MERGE_MODE", text=answered),))
        if strangers := _from_strangers(case):
            return _decision(case, "deny", (_uninvited(strangers), *asks))
        most = case.share(policy.open_proposals)
        if not case.by_owner and facts.open_proposals >= most:
            return _decision(case, "deny", (_queue_full(most), *asks))
        return _decision(case, "ask", asks)
    return _decision(case, "allow", (_why_allowed(case),))


def _merge_answered(facts: Facts, asks: tuple[Reason, ...]) -> str:
    """What the merge mode says to a merge; what a policy file asks is asked in every mode."""
    if facts.merge is None or not all(reason.code in _OF_A_MERGE for reason in asks):
        return ""
    return answered_in_advance(facts.merge)


def _allows(denies: tuple[Reason, ...]) -> tuple[SettingChange, ...]:
    """The settings that would lift a denial; none unless they lift all of it."""
    if not all(reason.allow for reason in denies):
        return ()
    return tuple(dict.fromkeys(change for reason in denies for change in reason.allow))


def _from_strangers(case: Case) -> tuple[Label, ...]:
    """What this turn read that came uninvited, unless the call is its one question about reading on in an account.

    Where nobody follows what a turn does, nobody asked for that either. See docs/decisions/0047.
    """
    reads_on = case.effect == "READ" and case.facts.identity is not None and not case.facts.asked_reads
    if reads_on and case.setting.source not in BACKGROUND - OUTSIDE:
        return ()
    return mailed(case.facts.fresh)


def _uninvited(strangers: tuple[Label, ...]) -> Reason:
    return Reason(
        rule="taint.uninvited",
        code=HELD_BACK,
        text=f"This turn read what anybody can put before the owner ({', '.join(strangers)}), so it asks for nothing.",
        change="The owner is shown this call and can put it up for approval; do not propose it again.",
    )


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
        allows=_allows(reasons) if verdict == "deny" else (),
        risk=case.risk,
        risk_class=case.effect,
        lane=case.lane,
        policy_hash=case.policy.hash,
        job_id=case.setting.job_id,
        skills=case.setting.skills,
    )
