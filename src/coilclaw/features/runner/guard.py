"""What stands beside a coding program while a server follows it: its hook desk and its model, on ports of its box."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coilclaw.features.runner.adapters.contract import HOOK_PORT, MCP_PORT, MODEL_PORT, TALK_PORT
from coilclaw.features.runner.adapters.known import adapter_of
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import from_stamp

if TYPE_CHECKING:
    from coilclaw.features.runner.sessions import Sessions
    from coilclaw.features.runner.store import Session
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.ports import Serve
    from coilclaw.runtime.runtime import Runtime

MODEL_CONNECTIONS = 16
FOLLOWED_LATE = 5.0


class ProgramGuard:
    """Of one session; of a shell, nothing."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor", sessions: "Sessions", session: "Session") -> None:
        self._app = app
        self._conveyor = conveyor
        self._sessions = sessions
        self._session = session
        self.desk = None
        if adapter_of(session.spec.provider) is not None:
            from coilclaw.features.runner.hooks import HookDesk

            guarded = sessions.recording_file(session.session_id).with_name("guarded")
            self.desk = HookDesk(app, conveyor, session, self._kill, guarded, self._type)

    def served(self) -> "Mapping[int, tuple[Serve, int]]":
        """Who serves which port, in the order of the box."""
        if self.desk is None:
            return {}
        model = model_of(self._app, self._session)
        if self._session.spec.structured:
            from coilclaw.features.runner.session_mcp import CONNECTIONS, SessionMcp
            from coilclaw.features.runner.structured.serving import ServedTalk

            talk = ServedTalk(self._app, self._session, self.desk, self._kill)
            mcp = SessionMcp(self._app, self._conveyor, self._session.session_id, self.desk)
            return {
                MODEL_PORT: (model, MODEL_CONNECTIONS),
                TALK_PORT: (talk.serve, 1),
                MCP_PORT: (mcp.serve, CONNECTIONS),
            }
        from coilclaw.features.runner.hooks import CONNECTIONS as HOOKS

        return {HOOK_PORT: (self.desk.serve, HOOKS), MODEL_PORT: (model, MODEL_CONNECTIONS)}

    async def watch(self) -> None:
        """Until the session is no longer followed."""
        if self.desk is None:
            return
        began = self._session.started_at
        since = 0.0 if began is None else (self._app.clock() - from_stamp(began)).total_seconds()
        # a server that comes later gives the calls that wait in the backlog their time
        await self.desk.watch(0.0 if since > FOLLOWED_LATE else since)

    async def _type(self, line: str) -> None:
        with contextlib.suppress(CoilclawError):  # it may have ended meanwhile
            await self._sessions.type_in(self._session.session_id, line, line=True)

    async def _kill(self, reason: str) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(self._sessions.kill_unguarded(self._session.session_id, reason))


def model_of(app: "Runtime", session: "Session") -> "Serve":
    """Who answers for the model."""
    from coilclaw.features.runner.model_proxy import ModelProxy

    return ModelProxy(app, session).serve
