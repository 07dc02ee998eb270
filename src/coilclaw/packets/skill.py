"""A skill in use: what was taken up, why, and what it leaves. Kept as it was then, whatever the file holds later."""

import msgspec

USED, NONE = "skill_used", "skill_none"
"""Audit events of a turn: which skill it works under, or that none matched."""


class SkillUse(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that a turn or a job works under. It only narrows."""

    skill: str
    sha256: str
    """Of the SKILL.md that was read."""
    why: str
    """`intent`, `trigger: WORDS`, or `taken` when the model took it."""
    tools: tuple[str, ...] | None
    """The only tools it leaves; None leaves them all."""
    domains: tuple[str, ...] | None
    """The only domains it leaves; None leaves them all."""
    needs: tuple[str, ...] = ()
    """What must hold before the first step of a job: `tool:NAME`, `domain:NAME`, `input:NAME`, `evidence:NAME`."""

    @property
    def told(self) -> str:
        """Name and hash, as decisions and job files name it."""
        return f"{self.skill}@{self.sha256[:12]}"
