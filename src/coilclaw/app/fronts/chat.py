"""Chat, uploads and artifacts for the server, from an App."""

from coilclaw.app.fronts.front import Front
from coilclaw.app.turns.turns import Turns
from coilclaw.app.uploads import Uploads
from coilclaw.server.part import Part
from coilclaw.server.routes.artifacts import Artifacts
from coilclaw.server.routes.files import Files
from coilclaw.server.routes.gateway_chat import GatewayChat
from coilclaw.server.routes.memory import Memory
from coilclaw.server.routes.messages import ThreadMessages
from coilclaw.server.routes.threads import Threads
from coilclaw.server.routes.turns import Turns as TurnRoutes


def chat_part(front: Front, turns: Turns | None = None) -> Part:
    """The part of the server that one talks to; whoever serves it has `talk.run(stop)` run beside it."""
    talk = turns or Turns(front.app, front.background.conveyor)
    return Part(
        controllers=(Threads, ThreadMessages, TurnRoutes, Files, Artifacts, Memory, GatewayChat),
        given={"talk": talk, "uploads": Uploads(front.app)},
    )
