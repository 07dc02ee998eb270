"""Taking a skill up within a turn: it narrows what is left of the turn, and nothing takes that back."""

from typing import TYPE_CHECKING

from coilclaw.features.jobs.job_spec import rules_of, unmet_in_turn
from coilclaw.features.skills.skill_files import UNTRUSTED, SkillFiles
from coilclaw.gate.skills import MOST_USED, record_use, uses_of
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.job import Starter
from coilclaw.packets.skill import SkillUse

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


async def take_up(runtime: "Runtime", name: str, starter: Starter) -> SkillUse:
    """Have a turn work under a skill, as its file is now; ToolError when it cannot be used."""
    try:
        file = SkillFiles(runtime).one(name)
    except UsageError as error:
        raise _refused(error.message, error.remedy, "NO_SKILL") from error
    if file.passed_over == UNTRUSTED:
        sources = ", ".join(file.labels)
        raise _refused(
            f"the skill {name} contains untrusted content ({sources}), so it is not used.",
            "Ask the owner to read it and vouch for it.",
            "SKILL_UNTRUSTED",
        )
    if file.read.skill is None:
        raise _refused(f"the skill {name} is invalid: {file.read.faults[0]}", "Tell the owner.", "SKILL_INVALID")
    turn_id = starter.turn_id
    known = uses_of(runtime.db.reader, turn_id)
    if len(known) >= MOST_USED:
        raise _refused(f"a turn works under at most {MOST_USED} skills.", "Go on with those you took.", "TOO_MANY")
    use = file.read.skill.use("taken")
    if wrong := unmet_in_turn(starter.constraints, (*known, use), rules_of(runtime)):
        raise _refused(f"{'; '.join(wrong)}.", "Tell the owner, and go on without it.", "SKILL_PRECONDITION")
    await runtime.db.write(lambda tx: record_use(tx, runtime.clock, turn_id, use))
    return use


def _refused(message: str, remedy: str, code: str) -> ToolError:
    return ToolError(message, remedy=remedy, code=code, begun=False)
