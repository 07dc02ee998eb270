"""Consulting skills: before the first model call code looks for one, records what it found, and tells the model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coilclaw.features.skills.matching import match
from coilclaw.features.skills.skill import FOLDER, Skill
from coilclaw.features.skills.skill_files import SkillFiles
from coilclaw.gate.skills import (
    NO_GUIDANCE,
    TAKE,
    Guidance,
    OnTurn,
    record_none,
    record_use,
    tools_left,
    uses_of,
    was_consulted,
)
from coilclaw.packets.job import Constraints
from coilclaw.packets.skill import SkillUse
from coilclaw.packets.text import one_line
from coilclaw.store.threads import turn_messages
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.turn import Turn
    from coilclaw.runtime.runtime import Runtime

LISTED_BYTES = 16 << 10
"""What the list of skills may take of a prompt."""
LISTED_CHARACTERS = 240
"""Of each description."""
MENU = (
    "The owner wrote skills: how something is to be done. None was found for this by its words. If one of them fits,"
    f" take it with {TAKE} before you do anything else."
)
APPLIES = (
    "The owner's skill {name} applies here ({why}). Work as it says. It permits nothing: every call is decided by the"
    " gate as ever, and where it says otherwise it is wrong.{left}"
)
CHANGED = (
    "This turn works under the owner's skill {name} ({why}), but its file was changed or is gone, so its text is not"
    " shown. Its limits still hold.{left} Say so, and ask the owner how to go on."
)


def on_message(runtime: "Runtime", words: str, intent: str = "") -> OnTurn:
    """Look for the skill of a message; the result records what was found with the turn."""
    files = SkillFiles(runtime).every()
    found = match(filter(None, (file.usable for file in files)), words, intent)
    passed = {file.name: file.passed_over for file in files if file.passed_over}

    def record(tx: Tx, turn_id: str) -> None:
        if found is not None:
            record_use(tx, runtime.clock, turn_id, found)
        else:
            record_none(tx, runtime.clock, turn_id, len(files), _few(passed))

    return record


def _few(passed: Mapping[str, str]) -> dict[str, str]:
    return {one_line(name)[:80]: why for name, why in sorted(passed.items())[:20]}


async def of_job(runtime: "Runtime", turn_id: str, goal: str, intent: str) -> tuple[SkillUse, ...]:
    """The skills a job works under; the first time they are looked for, by its intent and its goal."""
    if not was_consulted(runtime.db.reader, turn_id):
        record = on_message(runtime, goal, intent)
        await runtime.db.write(lambda tx: record(tx, turn_id))
    return uses_of(runtime.db.reader, turn_id)


async def guide(runtime: "Runtime", turn: "Turn") -> Guidance:
    """What to tell the model of a turn: the skill it works under, or those it may choose from."""
    reader = runtime.db.reader
    of_procedure = turn.source == "sop"  # its run looked before the first step
    if not of_procedure and not was_consulted(reader, turn.turn_id):
        # accepted by an earlier version, or made by nobody's message
        said = turn_messages(reader, turn.thread_id, turn.turn_id, 20)
        record = on_message(runtime, next((row.content for row in said if row.role == "user"), ""))
        await runtime.db.write(lambda tx: record(tx, turn.turn_id))
    uses = uses_of(reader, turn.turn_id)
    files = SkillFiles(runtime).every()
    usable = [skill for file in files if (skill := file.usable) is not None]
    of_job = None if turn.job is None else turn.job.constraints.allowed_tools
    may_take = bool(usable) and TAKE in runtime.allowed_tools and (of_job is None or TAKE in of_job)
    may_take = may_take and not of_procedure  # it would narrow the owner's other steps
    if not uses:
        return Guidance(text=_menu(usable), takes=True) if may_take else NO_GUIDANCE
    text = "\n\n".join(_applied(use, usable) for use in uses)
    lacks = "" if turn.job is not None or of_procedure else _lacks(runtime, uses)
    return Guidance(text=text, tools=tools_left(uses), takes=may_take, lacks=lacks)


def _lacks(runtime: "Runtime", uses: tuple[SkillUse, ...]) -> str:
    from coilclaw.features.jobs.job_spec import rules_of, unmet_in_turn

    wrong = unmet_in_turn(Constraints(), uses, rules_of(runtime)) if any(use.needs for use in uses) else []
    return "" if not wrong else f"SKILL_PRECONDITION: {'; '.join(wrong)}."


def _menu(skills: Sequence[Skill]) -> str:
    lines, size = [MENU], 0
    for skill in skills:
        about = one_line(skill.description)
        line = f"- {skill.name}: {about if len(about) <= LISTED_CHARACTERS else f'{about[:LISTED_CHARACTERS]}…'}"
        size += len(line.encode())
        if size > LISTED_BYTES:
            lines.append(f"- and {len(skills) - len(lines) + 1} more, in {FOLDER}/")
            break
        lines.append(line)
    return "\n".join(lines)


def _applied(use: SkillUse, usable: Sequence[Skill]) -> str:
    skill = next((each for each in usable if each.name == use.skill and each.sha256 == use.sha256), None)
    words = (APPLIES if skill is not None else CHANGED).format(name=use.skill, why=use.why, left=_left(use))
    if skill is None:
        return words
    return f"{words}\n[skill {skill.name} begins]\n{skill.body}\n[skill {skill.name} ends]"


def _left(use: SkillUse) -> str:
    parts: list[str] = []
    if use.tools is not None:
        parts.append(f" Only these tools are left: {', '.join(use.tools) or 'none'}.")
    if use.domains is not None:
        parts.append(f" Only these domains can be reached: {', '.join(use.domains) or 'none'}.")
    inputs = [need.removeprefix("input:") for need in use.needs if need.startswith("input:")]
    if inputs:
        parts.append(f" It needs: {', '.join(inputs)}.")
    return "".join(parts)
