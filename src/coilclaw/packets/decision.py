"""The gate's decision on a call and its vocabulary."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.settings import SettingChange

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
Risk: TypeAlias = Literal["R0", "R1", "R2", "R3"]
RiskWord: TypeAlias = Literal["low", "medium", "high"]
RiskClass: TypeAlias = Literal["READ", "WRITE", "EXFILTRATION"]
Lane: TypeAlias = Literal["A", "B", "C"]
Autonomy: TypeAlias = Literal["readonly", "supervised", "full"]
Destination: TypeAlias = Literal["internal", "workspace", "machine", "external"]
"""Where an effect lands: our own rows, the owner's workspace, this machine otherwise, or outside it."""

RISK_WORDS: dict[Risk, RiskWord] = {"R0": "low", "R1": "low", "R2": "medium", "R3": "high"}


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rule applied: its id, a stable code, one sentence, and what would change the verdict."""

    rule: str
    code: str
    text: str
    change: str = ""
    allow: tuple[SettingChange, ...] = ()
    """The settings that would change the verdict, if any."""


HELD_BACK = "POLICY_BLOCKED_UNTRUSTED_TURN"
"""The code of a send denied because its turn read untrusted content."""
STANDING = "STANDING_ANSWER"
"""The code of a decision made by a standing answer; its rule is `answer.` and the answer's id."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's decision on one call, with its reasons (the PolicyDecisionPacket)."""

    verdict: Verdict
    risk: Risk
    risk_word: RiskWord
    risk_class: RiskClass
    lane: Lane
    code: str
    rule: str
    reasons: tuple[str, ...]
    recommended_changes: tuple[str, ...]
    policy_hash: str
    risk_level: Risk
    allowed: bool
    requires_approval: bool
    job_id: str | None = None
    allows: tuple[SettingChange, ...] = ()
    """What the owner could change so that this call is no longer denied; empty if something else blocks it too,
    or if untrusted content is involved."""

    skills: tuple[str, ...] = ()
    """The skills its turn worked under, each as NAME@HASH."""

    @property
    def answer(self) -> str:
        """The standing answer that let the call run without asking; empty when none did."""
        return self.rule.removeprefix("answer.") if self.code == STANDING and self.verdict == "allow" else ""

    @classmethod
    def of(
        cls,
        verdict: Verdict,
        reasons: tuple[Reason, ...],
        *,
        risk: Risk,
        risk_class: RiskClass,
        lane: Lane,
        policy_hash: str,
        job_id: str | None = None,
        allows: tuple[SettingChange, ...] = (),
        skills: tuple[str, ...] = (),
    ) -> "Decision":
        """Build a decision whose derived fields cannot disagree with the verdict."""
        first = reasons[0]
        return cls(
            verdict=verdict,
            risk=risk,
            risk_word=RISK_WORDS[risk],
            risk_class=risk_class,
            lane=lane,
            code=first.code,
            rule=first.rule,
            reasons=tuple(reason.text for reason in reasons),
            recommended_changes=tuple(dict.fromkeys(reason.change for reason in reasons if reason.change)),
            policy_hash=policy_hash,
            risk_level=risk,
            allowed=verdict == "allow",
            requires_approval=verdict == "ask",
            job_id=job_id,
            allows=allows,
            skills=skills,
        )
