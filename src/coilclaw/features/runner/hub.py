"""The sessions that this server follows, and what the stream may do with them."""

from contextlib import suppress
from typing import TYPE_CHECKING

from coilclaw.config.runner import org_called
from coilclaw.features.runner.event import SessionEvent
from coilclaw.features.runner.live import LiveSession, SessionAccess, Watched
from coilclaw.features.runner.recording import Recording
from coilclaw.features.runner.repo_choice import repo_ref
from coilclaw.features.runner.sessions import PATIENCE, Sessions
from coilclaw.features.runner.sources import sources_of
from coilclaw.features.runner.states import ENDED
from coilclaw.features.runner.store import Session, events_after, load_session, shown_state
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.ids import from_stamp

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.sandbox.keepers import AttachedTerminal

_PAGE = 200


class Hub:
    """Finds the followed session by its id. Viewers come and go; the follower opens and closes."""

    def __init__(self, app: "Runtime", sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions
        self._lives: dict[str, LiveSession] = {}
        self._keepers: dict[str, AttachedTerminal] = {}
        self._told: dict[str, int] = {}
        self._sizes: dict[str, dict[str, tuple[int, int]]] = {}
        """What viewers can show, by session and viewer."""

    # The follower's side

    def open(self, session: Session) -> LiveSession:
        """Follow a session from where its recording ends."""
        app, began = self._app, from_stamp(session.started_at or session.created_at)
        recording = Recording(self._sessions.recording_file(session.session_id), most=app.config.runner.recording_bytes)

        def now() -> int:
            return max(0, int((app.clock() - began).total_seconds() * 1000))

        live = LiveSession(session.session_id, recording, app.redactor, seq=session.seq, now=now)
        if not recording.offset:
            live.resized(session.spec.size.rows, session.spec.size.columns)
        self._lives[session.session_id] = live
        self._told[session.session_id] = session.seq
        return live

    async def attached(self, session_id: str, keeper: "AttachedTerminal") -> None:
        """What viewers type goes there; those who came before have told their size."""
        self._keepers[session_id] = keeper
        await self._fit(session_id)

    def catch_up(self, session: Session) -> None:
        """Tell viewers what was stored since, by whichever process."""
        live, told = self._lives.get(session.session_id), self._told.get(session.session_id, 0)
        if live is None or session.seq <= told:
            return
        while found := list(events_after(self._app.db.reader, session, told, _PAGE)):
            for event in found:
                live.event(event)
            told = self._told[session.session_id] = found[-1].seq

    def close(self, session_id: str) -> None:
        """Nobody follows it any more."""
        live = self._lives.pop(session_id, None)
        for kept in (self._keepers, self._told, self._sizes):
            kept.pop(session_id, None)
        if live is not None:
            live.end()
            live.recording.close()

    # The viewers' side

    def access(self) -> SessionAccess:
        """What the stream is given."""
        return SessionAccess(
            find=self._find,
            knows=self._knows,
            live=self._lives.get,
            events=self._events,
            send=self._send,
            resize=self._resize,
            redraw=self._redraw,
        )

    def _find(self, session_id: str) -> Watched | None:
        session = load_session(self._app.db.reader, session_id)
        if session is None:
            return None
        repo, keeper = session.spec.repo, self._keepers.get(session_id)
        return Watched(
            session_id=session_id,
            org_id=session.org_id,
            repo_id=repo.text,
            repo_ref=repo,
            state=shown_state(self._app.db.reader, session),
            rows=session.spec.size.rows if keeper is None else keeper.rows,
            columns=session.spec.size.columns if keeper is None else keeper.columns,
            seq=session.seq,
        )

    def _knows(self, org_id: str, repo_id: str | None) -> bool:
        known = org_called(self._app.config.orgs, org_id) is not None
        return known and (
            repo_id is None or repo_id in {repo_ref(each).text for each in sources_of(self._app).values()}
        )

    def _events(self, session_id: str, after: int, most: int) -> list[SessionEvent]:
        session = load_session(self._app.db.reader, session_id)
        return [] if session is None else list(events_after(self._app.db.reader, session, after, most))

    def _keeper(self, session_id: str) -> "AttachedTerminal":
        if keeper := self._keepers.get(session_id):
            return keeper
        session = load_session(self._app.db.reader, session_id)
        if session is not None and session.state not in ENDED:
            raise ToolError(
                "the session is still starting.", remedy="Try again in a moment.", code="SESSION_STARTING", begun=False
            )
        raise ToolError("the session is over.", remedy="Start another one.", code="SESSION_OVER", begun=False)

    async def _send(self, session_id: str, data: bytes) -> None:
        await self._keeper(session_id).send(data, patience=PATIENCE)

    async def _resize(self, session_id: str, viewer: str, rows: int, columns: int) -> None:
        """The smallest viewer wins, here and with terminals that joined by themselves."""
        sizes = self._sizes.setdefault(session_id, {})
        if rows and columns:
            sizes[viewer] = (rows, columns)
        else:
            sizes.pop(viewer, None)
        if sizes:
            await self._fit(session_id)
            return
        del self._sizes[session_id]
        with suppress(CoilclawError):  # it is over, or its keeper is too old to forget it
            await self._keeper(session_id).forget_size()

    async def _fit(self, session_id: str) -> None:
        """Give the terminal the size that all its viewers can show; one that starts gets it when it is there."""
        sizes, keeper = self._sizes.get(session_id, {}).values(), self._keepers.get(session_id)
        if sizes and keeper is not None:
            await keeper.resize(min(each[0] for each in sizes), min(each[1] for each in sizes))

    async def _redraw(self, session_id: str) -> None:
        await self._keeper(session_id).redraw()
