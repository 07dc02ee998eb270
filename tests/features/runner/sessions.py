"""Sessions without processes: what the stream is given, fed by the tests themselves."""

from pathlib import Path

from coilclaw.features.runner.event import RepoRef, SessionEvent
from coilclaw.features.runner.live import LiveSession, SessionAccess, Watched
from coilclaw.features.runner.recording import Recording
from coilclaw.features.runner.stream import StreamController
from coilclaw.features.runner.tokens import RunnerTokens, TokensController
from coilclaw.secrets.redactor import Redactor
from coilclaw.server.part import Part

REPO = RepoRef(provider="local", owner="", name="shop")


class Sessions:
    """The sessions of a test, and what was done to them."""

    def __init__(self, folder: Path, redactor: Redactor):
        self.folder = folder
        self.redactor = redactor
        self.watched = {}
        self.lives = {}
        self.stored = {}
        self.typed = []
        self.sizes = []
        self.redrawn = []

    def start(self, session_id, org_id="self", repo_id="shop", stored=()):
        recording = Recording(self.folder / session_id / "terminal.rec", most=16 << 20)
        live = LiveSession(session_id, recording, self.redactor, now=lambda: 0, seq=len(stored))
        self.watched[session_id] = (org_id, repo_id)
        self.lives[session_id] = live
        self.stored[session_id] = list(stored)
        return live

    def happen(self, session_id, kind="FILE_TOUCHED", **data):
        stored = self.stored[session_id]
        event = SessionEvent(
            type=kind,
            session_id=session_id,
            org_id=self.watched[session_id][0],
            repo_ref=REPO,
            ts=1_730_000_000_000,
            seq=len(stored) + 1,
            data=data,
        )
        stored.append(event)
        if session_id in self.lives:
            self.lives[session_id].event(event)
        return event

    def state(self, session_id):
        told = [each.data.get("state") for each in self.stored[session_id] if each.type == "SESSION_STATE_CHANGED"]
        return told[-1] if told and told[-1] else "RUNNING"

    def find(self, session_id):
        if session_id not in self.watched:
            return None
        org_id, repo_id = self.watched[session_id]
        return Watched(
            session_id=session_id,
            org_id=org_id,
            repo_id=repo_id,
            repo_ref=REPO,
            state=self.state(session_id),
            rows=24,
            columns=80,
            seq=len(self.stored[session_id]),
        )

    def events(self, session_id, after, most):
        return [event for event in self.stored[session_id] if event.seq > after][:most]

    async def send(self, session_id, data):
        self.typed.append((session_id, data))

    async def resize(self, session_id, viewer, rows, columns):
        self.sizes.append((session_id, rows, columns))

    async def redraw(self, session_id):
        self.redrawn.append(session_id)

    def access(self):
        return SessionAccess(
            find=self.find,
            knows=lambda org_id, repo_id: org_id in ("self", "acme") and repo_id in (None, "shop", "site"),
            live=self.lives.get,
            events=self.events,
            send=self.send,
            resize=self.resize,
            redraw=self.redraw,
        )

    def close(self):
        for live in self.lives.values():
            live.recording.close()


def runner_part(serving):
    """The stream and its tokens, over sessions that the test makes: `serving.sessions`."""
    runtime = serving.runtime
    serving.sessions = Sessions(runtime.home.root / "sessions", runtime.redactor)
    return Part(
        controllers=(StreamController, TokensController),
        given={
            "session_access": serving.sessions.access(),
            "runner_tokens": RunnerTokens(runtime.db, runtime.clock),
        },
        close=serving.sessions.close,
    )
