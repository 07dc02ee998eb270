"""The forge: its routes and its chores."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore


def forge_part(serving: "Serving") -> "Part":
    """The routes of pull requests."""
    from coilclaw.features.forge.http_forge import HttpForge
    from coilclaw.features.forge.routes import BotRoutes, ForgeWebhookRoutes, IntelRoutes, PullRoutes
    from coilclaw.server.part import Part

    controllers = (PullRoutes, BotRoutes, ForgeWebhookRoutes, IntelRoutes)
    return Part(controllers=controllers, given={"http_forge": HttpForge(serving)})


def forge_chores(runtime: "Runtime", conveyor: "Conveyor") -> "tuple[Chore, ...]":
    """What a worker does for the forge now and then."""
    import asyncio

    from coilclaw.work.worker import Chore

    async def tidy() -> int:
        from coilclaw.features.forge.forge import LocalForge

        return await asyncio.to_thread(LocalForge(runtime).tidy)

    async def settle() -> int:
        from coilclaw.features.forge.pulls import Pulls

        return await Pulls(runtime, conveyor).settle_plain()

    async def daily() -> int:
        from coilclaw.features.forge.daily import export_day

        return await export_day(runtime, conveyor)

    async def heads() -> int:
        from coilclaw.features.forge.heads import anchor_new

        return await anchor_new(runtime)

    settles = Chore(name="forge_settle", every=1.0, run=settle)
    if not runtime.config.forge.enabled:  # sessions make pull requests all the same
        return (settles,)
    return (
        *_github_chores(runtime, conveyor),
        Chore(name="forge_tidy", every=30.0, run=tidy),
        settles,
        Chore(name="forge_heads", every=60.0, run=heads),
        Chore(name="forge_daily", every=300.0, run=daily),
    )


def _github_chores(runtime: "Runtime", conveyor: "Conveyor") -> "tuple[Chore, ...]":
    if runtime.config.forge.kind != "github":
        return ()
    from coilclaw.features.forge.github.mirror import GitHubMirror
    from coilclaw.work.worker import Chore

    return (Chore(name="github_sync", every=5.0, run=GitHubMirror(runtime, conveyor).upkeep),)


FEATURE = Feature(part=forge_part, chores=forge_chores)
