"""What features add to an open home. The wiring hands it in; without it, a home has the kernel alone."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.gate.grants import FollowUp
    from coilclaw.gate.skills import TurnSkills
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import Action
    from coilclaw.packets.box import Probe
    from coilclaw.packets.job import JobLimits, Plan, StepReport
    from coilclaw.packets.ports import Tool
    from coilclaw.packets.skill import SkillUse
    from coilclaw.runtime.checkup import Reader
    from coilclaw.runtime.job_forge import JobForge
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow
    from coilclaw.tools.reach_out import Post


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs whose steps are not the model's own: an input of the job names what they follow."""

    check: "Callable[[Runtime, str], None]"
    """Raises when what the input names cannot be followed."""
    step: "Callable[[Runtime, Conveyor, JobRow, JobLimits], Awaitable[StepReport]]"
    """Does the next step."""
    place: "Callable[[Runtime, str], tuple[int, Plan] | None]"
    """How many steps of a job are over, and the plan that counts them; None before it has begun."""


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """What features add. Everything is a function, so that nothing is imported before it is used."""

    reach_out: "Callable[[Runtime], Post] | None" = None
    """Posts what the agent says to the owner by itself."""
    follow_up: "Callable[[Runtime, Action, Turn], FollowUp] | None" = None
    """Plans a job at a later time, for one call."""
    resume: "Callable[[Runtime, str], Awaitable[None]] | None" = None
    """Goes on with the turn of a call that was answered at a terminal."""
    tools: "Callable[[Runtime], Iterable[Tool]]" = lambda _runtime: ()
    """The tools of features."""
    tools_version: "Callable[[Runtime], object]" = lambda _runtime: None
    """Differs when features have other tools than before."""
    job_forge: "Callable[[Runtime, Conveyor], JobForge | None]" = lambda _runtime, _conveyor: None
    """Trees and pull requests of jobs; None where they work in the workspace."""
    audit_on_main: "Callable[[Runtime, str], int | None]" = lambda _runtime, _before: None
    """Up to which number the audit from before a time is in the bot's repository; None where it need not be."""
    probes: "Callable[[Runtime, Reader], list[Probe]]" = lambda _runtime, _reader: []
    """What the doctor looks at besides the kernel."""
    skills: "Callable[[Runtime], TurnSkills] | None" = None
    """How turns consult skills."""
    job_skills: "Callable[[Runtime, str, str, str], Awaitable[tuple[SkillUse, ...]]] | None" = None
    """How a job does before its first model call, by its turn, goal and intent: what it works under, then on record."""
    job_kinds: "Callable[[], Mapping[str, JobKind]]" = dict
    """By the input that names what such a job follows."""


NO_EXTENSIONS = Extensions()


def skills_of(runtime: "Runtime") -> "TurnSkills":
    """How turns of a home consult skills."""
    from coilclaw.gate.skills import NO_SKILLS

    made = runtime.extensions.skills
    return NO_SKILLS if made is None else made(runtime)
