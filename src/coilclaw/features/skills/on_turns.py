"""How turns and jobs consult skills. It is asked of every turn: without skills nothing else of them is imported."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coilclaw.gate.skills import Guidance, OnTurn, TurnSkills
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.skill import SkillUse
    from coilclaw.runtime.runtime import Runtime


def turn_skills(runtime: "Runtime") -> "TurnSkills":
    """How turns of a home consult skills."""
    from coilclaw.gate.skills import NO_GUIDANCE, TurnSkills

    def match(words: str) -> "OnTurn | None":
        if not _any_skills(runtime):
            return None
        from coilclaw.features.skills.consult import on_message

        return on_message(runtime, words)

    async def guide(turn: "Turn") -> "Guidance":
        if not _any_skills(runtime):
            return NO_GUIDANCE
        from coilclaw.features.skills.consult import guide

        return await guide(runtime, turn)

    return TurnSkills(match=match, guide=guide)


async def job_skills(runtime: "Runtime", turn_id: str, goal: str, intent: str) -> "tuple[SkillUse, ...]":
    """How a job does, before its first model call."""
    if not _any_skills(runtime):
        return ()
    from coilclaw.features.skills.consult import of_job

    return await of_job(runtime, turn_id, goal, intent)


def _any_skills(runtime: "Runtime") -> bool:
    """One look at a folder: without skills nothing of them is imported."""
    try:
        with os.scandir(runtime.workspace / "skills") as entries:
            return any(entry.is_dir(follow_symlinks=False) for entry in entries)
    except OSError:
        return False
