"""The wiring: the features listed, and what a server, a worker and an open home are made of. Nothing is discovered."""

from collections.abc import Awaitable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from coilclaw.runtime.extensions import Extensions, JobKind

if TYPE_CHECKING:
    from coilclaw.features import Feature
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.gate.grants import FollowUp
    from coilclaw.gate.skills import TurnSkills
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import Action
    from coilclaw.packets.box import Probe
    from coilclaw.packets.forge import PullRequest
    from coilclaw.packets.http import HttpRequest, HttpResponse
    from coilclaw.packets.ports import Tool, Transport
    from coilclaw.packets.skill import SkillUse
    from coilclaw.runtime.checkup import Reader
    from coilclaw.runtime.job_forge import JobForge
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.door.rates import Rates
    from coilclaw.server.panel import Panel
    from coilclaw.server.serving import MakePart
    from coilclaw.server.site import Site
    from coilclaw.tools.reach_out import Post
    from coilclaw.work.worker import Chore, Worker

FEATURES = (
    "devices",
    "chat",
    "approvals",
    "answers",
    "records",
    "policy",
    "owner_files",
    "skills",
    "jobs",
    "schedules",
    "sops",
    "notifications",
    "projects",
    "guests",
    "forge",
    "runner",
    "patrols",
    "mail",
    "evolve",
    "mcp_server",
    "status",
)
"""Each a folder of `features` whose `feature.py` has FEATURE. Named, not imported: a command needs few of them."""


def feature(name: str) -> "Feature":
    """What a feature of that name gives."""
    return import_module(f"coilclaw.features.{name}.feature").FEATURE


# An open home


def _reach_out(runtime: "Runtime") -> "Post":
    from coilclaw.features.notifications.feature import reach_out_of

    return reach_out_of(runtime)


def _follow_up(runtime: "Runtime", action: "Action", turn: "Turn") -> "FollowUp":
    from coilclaw.features.schedules.followups import follow_up_of

    return follow_up_of(runtime, action, turn)


async def _put_session_pull(runtime: "Runtime", pull: "PullRequest") -> int:
    from coilclaw.features.forge.session_pulls import put_session_pull
    from coilclaw.packets.card import nobody

    return await put_session_pull(runtime, runtime.conveyor(nobody), pull)


def _session_is_over(runtime: "Runtime", session_id: str) -> bool:
    from coilclaw.features.runner.store import session_is_over

    return session_is_over(runtime.db.reader, session_id)


def _job_kinds() -> Mapping[str, JobKind]:
    from coilclaw.features.patrols.patrol_job import PATROL_JOB
    from coilclaw.features.sops.sop_job import SOP_JOB

    return {"sop": SOP_JOB, "patrol": PATROL_JOB}


def _job_forge(runtime: "Runtime", conveyor: "Conveyor") -> "JobForge | None":
    from coilclaw.features.forge.job_work import job_forge

    return job_forge(runtime, conveyor)


def _audit_on_main(runtime: "Runtime", before: str) -> int | None:
    from coilclaw.features.forge.export import exported_on_main

    return exported_on_main(runtime, before)


def _probes(runtime: "Runtime", reader: "Reader", short: bool) -> "list[Probe]":
    from coilclaw.features.evolve.probes import evolve_probes
    from coilclaw.features.forge.probes import forge_probes
    from coilclaw.features.guests.tools import might_have_guests
    from coilclaw.features.runner.probes import runner_probes

    found = forge_probes(runtime, reader(), ask=not short)
    if might_have_guests(runtime):
        from coilclaw.features.guests.probes import guest_probes

        found = [*found, *guest_probes(runtime, reader(), start=not short)]
    if runtime.config.google.configured:
        from coilclaw.features.mail.probes import mail_probes

        found = [*found, *mail_probes(runtime, ask=not short)]
    return [*found, *runner_probes(runtime, prove=not short), *evolve_probes(runtime, prove=not short)]


async def _resume(runtime: "Runtime", turn_id: str) -> None:
    from coilclaw.features.chat.post_message import resume_here

    await resume_here(runtime, turn_id)


def _skills(runtime: "Runtime") -> "TurnSkills":
    from coilclaw.features.skills.on_turns import turn_skills

    return turn_skills(runtime)


async def _job_skills(runtime: "Runtime", turn_id: str, goal: str, intent: str) -> "tuple[SkillUse, ...]":
    from coilclaw.features.skills.on_turns import job_skills

    return await job_skills(runtime, turn_id, goal, intent)


def feature_tools(runtime: "Runtime | None" = None) -> "tuple[Tool, ...]":
    """The tools of features, each from its `tools.py`; without a home they can only be described."""
    from coilclaw.features.evolve.tools import evolve_tools
    from coilclaw.features.forge.tools import forge_tools
    from coilclaw.features.guests.tools import guest_tools
    from coilclaw.features.jobs.tools import job_tools
    from coilclaw.features.owner_files.vouching import vouch_tools
    from coilclaw.features.patrols.tools import patrol_tools
    from coilclaw.features.projects.tools import project_tools
    from coilclaw.features.runner.tools import runner_tools
    from coilclaw.features.schedules.tools import schedule_tools
    from coilclaw.features.skills.tools import skill_tools

    made = (
        schedule_tools, job_tools, project_tools, forge_tools, vouch_tools, guest_tools, runner_tools, patrol_tools,
        skill_tools, _mail_tools, evolve_tools,
    )  # fmt: skip
    return tuple(each for tools in made for each in tools(runtime))


def _mail_tools(runtime: "Runtime | None") -> "tuple[Tool, ...]":
    if runtime is not None and not runtime.config.google.configured:
        return ()
    from coilclaw.features.mail.tools import mail_tools

    return mail_tools(runtime)


def _tools_version(runtime: "Runtime") -> object:
    from coilclaw.features.guests.tools import tools_version

    google = runtime.config.google if runtime.config.google.configured else None
    more = (google, "sessions" if runtime.config.repos else None)
    return (tools_version(runtime), *more) if any(more) else tools_version(runtime)


def _send_as(runtime: "Runtime", transport: "Transport", request: "HttpRequest") -> "Awaitable[HttpResponse]":
    from coilclaw.features.mail.send_as import send_as

    return send_as(runtime, transport, request)


_ACTIONS = "coilclaw.features.forge.actions"
EXTENSIONS = Extensions(
    reach_out=_reach_out,
    follow_up=_follow_up,
    resume=_resume,
    tools=feature_tools,
    tools_version=_tools_version,
    job_forge=_job_forge,
    audit_on_main=_audit_on_main,
    probes=_probes,
    job_kinds=_job_kinds,
    session_is_over=_session_is_over,
    put_session_pull=_put_session_pull,
    remote_job=lambda runtime, packet: import_module(f"{_ACTIONS}.remote_jobs").hand_in_here(runtime, packet),
    stop_elsewhere=lambda runtime: import_module(f"{_ACTIONS}.kill_switch").stop_elsewhere(runtime),
    send_as=_send_as,
    skills=_skills,
    job_skills=_job_skills,
)
"""What features add to every home that is opened."""


# The server


def build_server(
    runtime: "Runtime", *more: "MakePart", rates: "Rates | None" = None, panel: "Panel | None" = None
) -> "Site":
    """The whole server: every feature's part, the event stream and the panel behind the one door."""
    from coilclaw.server.events.part import events_part
    from coilclaw.server.panel import Panel
    from coilclaw.server.serving import Serving
    from coilclaw.server.site import build_site

    parts = (events_part, *(feature(name).part for name in FEATURES), *more)
    return build_site(Serving(runtime), parts, rates=rates, panel=panel or Panel.load())


# The worker


def build_worker(runtime: "Runtime", conveyor: "Conveyor", name: str, *, slots: int = 0) -> "Worker":
    """A worker of that name: it claims jobs, carries out what was approved, and does every feature's chores."""
    from coilclaw.features.jobs.background import Background

    chores = [chore for each in FEATURES for chore in feature(each).chores(runtime, conveyor)]
    background = Background(runtime, conveyor)
    return background.worker(name, slots=slots, chores=(*chores, _prune(runtime)))


def _prune(runtime: "Runtime") -> "Chore":
    """Once a day, whichever worker comes first."""
    import asyncio

    import msgspec

    from coilclaw.cli.commands.prune import pruner
    from coilclaw.work.worker import Chore

    async def run() -> int:
        done = await asyncio.to_thread(pruner(runtime).prune_if_due)
        return 0 if done is None or not any(msgspec.structs.astuple(done.gone)) else 1

    return Chore(name="prune", every=600.0, run=run)
