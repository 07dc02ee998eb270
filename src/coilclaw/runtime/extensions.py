"""What features add to an open home. The wiring hands it in; without it, a home has the kernel alone."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.gate.grants import FollowUp
    from coilclaw.gate.skills import TurnSkills
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import Action
    from coilclaw.packets.box import Probe
    from coilclaw.packets.forge import PullRequest
    from coilclaw.packets.http import HttpRequest, HttpResponse
    from coilclaw.packets.job import JobLimits, JobPacket, Plan, StepReport
    from coilclaw.packets.ports import Tool, Transport
    from coilclaw.packets.skill import SkillUse
    from coilclaw.runtime.checkup import Reader
    from coilclaw.runtime.job_forge import JobForge
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow
    from coilclaw.tools.reach_out import Post


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs whose steps do not come from the model: an input of the job names what they follow."""

    check: "Callable[[Runtime, str], None]"
    """Raises when what the input names cannot be followed."""
    step: "Callable[[Runtime, Conveyor, JobRow, JobLimits], Awaitable[StepReport]]"
    """Does the next step."""
    place: "Callable[[Runtime, str], tuple[int, Plan] | None]"
    """How many steps of a job are finished, and the plan that counts them; None before it has begun."""
    writes: bool = True
    """Whether such a job may change the bot's own files, and so has a tree of them."""


async def _sends_for_nobody(_runtime: "Runtime", _transport: "Transport", _request: "HttpRequest") -> "HttpResponse":
    raise ToolError("no account is connected.", code="NOT_CONNECTED", begun=False)


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """What features add. Everything is a function, so that nothing is imported before it is used."""

    reach_out: "Callable[[Runtime], Post] | None" = None
    """Posts messages that the agent starts itself."""
    follow_up: "Callable[[Runtime, Action, Turn], FollowUp] | None" = None
    """Plans a job at a later time, for one call."""
    resume: "Callable[[Runtime, str], Awaitable[None]] | None" = None
    """Continues the turn of a call that was answered at a terminal."""
    tools: "Callable[[Runtime], Iterable[Tool]]" = lambda _runtime: ()
    """The tools of features."""
    tools_version: "Callable[[Runtime], object]" = lambda _runtime: None
    """Differs when features have other tools than before."""
    job_forge: "Callable[[Runtime, Conveyor], JobForge | None]" = lambda _runtime, _conveyor: None
    """Trees and pull requests of jobs; None where they work in the workspace."""
    audit_on_main: "Callable[[Runtime, str], int | None]" = lambda _runtime, _before: None
    """Up to which number the audit from before a time is in the bot's repository; None where it need not be."""
    probes: "Callable[[Runtime, Reader, bool], list[Probe]]" = lambda _runtime, _reader, _short: []
    """What the doctor checks besides the kernel."""
    send_as: "Callable[[Runtime, Transport, HttpRequest], Awaitable[HttpResponse]]" = _sends_for_nobody
    """Sends a request in the name of a connected account."""
    skills: "Callable[[Runtime], TurnSkills] | None" = None
    """How turns consult skills."""
    job_skills: "Callable[[Runtime, str, str, str], Awaitable[tuple[SkillUse, ...]]] | None" = None
    """The same for a job, before its first model call, by its turn, goal and intent: records what it works under."""
    session_is_over: "Callable[[Runtime, str], bool]" = lambda _runtime, _session_id: False
    """Whether a coding session has ended, so that its open requests are void."""
    put_session_pull: "Callable[[Runtime, PullRequest], Awaitable[int]] | None" = None
    """Opens or updates the pull request of a coding session; its number."""
    remote_job: "Callable[[Runtime, JobPacket], Coroutine[None, None, str]] | None" = None
    """Submits a job to run elsewhere; returns the result in words."""
    stop_elsewhere: "Callable[[Runtime], Coroutine[None, None, str | None]] | None" = None
    """Forwards a stop to other places where this home's work runs; why it failed, empty if not, None if nowhere."""
    job_kinds: "Callable[[], Mapping[str, JobKind]]" = dict
    """By the input that names what such a job follows."""


NO_EXTENSIONS = Extensions()


def home_of(runtime: "Runtime | None") -> "Callable[[], Runtime]":
    """The home of a feature's tools, when one of them runs; without a home they can only be described."""

    def home() -> "Runtime":
        if runtime is None:
            raise ToolError("there is no home.", code="NOT_GRANTED", begun=False)
        return runtime

    return home


def skills_of(runtime: "Runtime") -> "TurnSkills":
    """How turns of a home consult skills."""
    from coilclaw.gate.skills import NO_SKILLS

    made = runtime.extensions.skills
    return NO_SKILLS if made is None else made(runtime)
