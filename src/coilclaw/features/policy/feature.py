"""Policy: the routes of the rules in force and of policy files."""

from typing import TYPE_CHECKING

from coilclaw.config import FileStamp, stamp_of
from coilclaw.features import Feature
from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    import asyncio

    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore

LOOK_SECONDS = 0.5


def policy_part(serving: "Serving") -> "Part":
    """The routes of the policy; its files are files of the owner, so they need the part of owner files."""
    from coilclaw.features.policy.policies import Policies
    from coilclaw.features.policy.routes.policies import PoliciesController
    from coilclaw.features.policy.routes.policy import PolicyController
    from coilclaw.features.policy.routes.settings import SettingsController
    from coilclaw.features.policy.settings import ProposedSettings
    from coilclaw.server.part import Part

    return Part(
        controllers=(PolicyController, PoliciesController, SettingsController),
        given={"policies": Policies(serving.runtime), "settings": ProposedSettings(serving)},
        beside=(lambda stop: _watch(serving.runtime, stop),),
    )


async def _watch(runtime: "Runtime", stop: "asyncio.Event") -> None:
    """Keep the configuration of a server in step with its file, with or without a worker in this process."""
    import asyncio
    from contextlib import suppress

    look = config_watch(runtime)
    while not stop.is_set():
        with suppress(CoilclawError):  # a database that is busy now is told of it later
            await look.run()
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), look.every)


def config_watch(runtime: "Runtime") -> "Chore":
    """A chore that notices a changed config.toml and tells the audit. A look at nothing new is one stat."""
    from coilclaw.work.worker import Chore

    told: list[FileStamp] = []

    async def look() -> int:
        runtime.live.refresh()
        stamp = stamp_of(runtime.home)
        if told == [stamp]:
            return 0
        done = await runtime.live.record()
        told[:] = [stamp]
        return done

    return Chore(name="config_watch", every=LOOK_SECONDS, run=look)


def _chores(runtime: "Runtime", _: "Conveyor") -> "tuple[Chore, ...]":
    return (config_watch(runtime),)


FEATURE = Feature(part=policy_part, chores=_chores)
