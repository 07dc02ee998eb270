"""Coding sessions: their routes, and the follower that runs beside the server."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def runner_part(serving: "Serving") -> "Part":
    """The routes of sessions."""
    from coilclaw.features.runner.follower import Follower
    from coilclaw.features.runner.hub import Hub
    from coilclaw.features.runner.routes.adapters import AdapterRoutes
    from coilclaw.features.runner.routes.http_runner import HttpRunner
    from coilclaw.features.runner.routes.sessions import RunnerRoutes, SessionRoutes
    from coilclaw.features.runner.sessions import sessions_of
    from coilclaw.features.runner.stream import StreamController
    from coilclaw.features.runner.tokens import RunnerTokens, TokensController
    from coilclaw.server.part import Part

    sessions = sessions_of(serving.runtime)
    hub = Hub(serving.runtime, sessions)
    follower = Follower(serving.runtime, serving.core.conveyor, sessions, hub)
    return Part(
        controllers=(SessionRoutes, RunnerRoutes, AdapterRoutes, TokensController, StreamController),
        given={
            "http_runner": HttpRunner(serving, follower.nudge),
            "session_access": hub.access(),
            "runner_tokens": RunnerTokens(serving.runtime.db, serving.runtime.clock),
        },
        beside=(follower.run,),
    )


FEATURE = Feature(part=runner_part)
