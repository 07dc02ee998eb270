"""What the runner's routes do: who may see or drive a session, and the session itself."""

import hashlib
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.config.runner import SELF, Org, org_called
from coilclaw.features.runner.checkouts import CheckoutChange
from coilclaw.features.runner.leaving import push_call
from coilclaw.features.runner.org_audit import OrgAuditHead, head_of, org_known
from coilclaw.features.runner.questions import tell_push
from coilclaw.features.runner.recording import Recorded
from coilclaw.features.runner.repo_choice import repo_ref
from coilclaw.features.runner.session_tools import PUSH
from coilclaw.features.runner.sessions import Sessions, sessions_of
from coilclaw.features.runner.sources import sources_of
from coilclaw.features.runner.spec import RepoRef, Size, StartSession
from coilclaw.features.runner.store import Session, busy, load_session, seconds_this_month
from coilclaw.features.runner.tools import START, StartArgs
from coilclaw.features.runner.views import OrgView, SessionView, session_view
from coilclaw.packets.action import Action
from coilclaw.packets.errors import ToolError
from coilclaw.packets.text import visible
from coilclaw.runtime.owner_calls import OwnerCalls, may_go_on
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import NotThere
from coilclaw.store.actions import load_action, result_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.server.serving import Serving

PATCH_BYTES = 512 << 10


class HttpRunner:
    """The sessions of a home for callers over HTTP."""

    def __init__(self, serving: "Serving", nudge: "Callable[[], None]") -> None:
        self.app = serving.runtime
        self._core = serving.core
        self._nudge = nudge

    @property
    def sessions(self) -> Sessions:
        """The sessions."""
        return sessions_of(self.app)

    # Who may

    def org_for(self, caller: Caller, org_id: str | None) -> str | None:
        """The organization that a list is about: a token's own, or the one asked for."""
        return org_id if caller.scope is None else caller.scope.org_id

    def seen(self, caller: Caller, session: Session) -> bool:
        """Whether the caller may see a session."""
        return caller.sees(session.org_id, session.spec.repo.text, session.session_id)

    def found(self, caller: Caller, session_id: str) -> Session:
        """A session that the caller may see; any other is as if it did not exist."""
        session = load_session(self._core.db.reader, session_id)
        if session is None or not self.seen(caller, session):
            raise NotThere("such session", remedy="See GET /runner/v1/sessions.")
        return session

    def may_drive(self, caller: Caller, session_id: str) -> None:
        """Refuse a caller that may only watch."""
        self.found(caller, session_id)
        caller.must_drive()

    # Sessions

    def view(self, caller: Caller, session_id: str) -> SessionView:
        """A session as it is shown."""
        return self.shown(self.found(caller, session_id))

    def shown(self, session: Session) -> SessionView:
        """A session as it is shown."""
        return session_view(self.app, session)

    async def start(self, wanted: StartSession, caller: Caller, key: str | None) -> tuple[Session, str]:
        """Start a session by the word of a paired device; also what approving it takes while it waits."""
        if not caller.sees(wanted.org_id, wanted.repo.text, None):
            raise NotThere("such repository for this token", remedy="Ask for a token with that organization.")
        caller.must_drive()
        if wanted.thread_id or wanted.job_id:
            caller.must_be_device()
        calls = OwnerCalls(self.app, self._core.conveyor)
        known = calls.earlier(START, key)
        if known is None:
            call = self.sessions.start_call(self.sessions.new_id(), wanted)
            action = await calls.make(call, by=caller.by, key=key)
        else:
            action = await calls.go_on(known, by=caller.by)
        self._nudge()
        session_id = msgspec.json.decode(action.call.args_bytes, type=StartArgs).session_id
        if action.status == "PENDING":
            session = await self.sessions.wait_for_owner(session_id, wanted, action_id=action.action_id, by=caller.by)
            return session, self._core.approvals.owner.needed(self._core.db.reader, action.decision.lane, caller.by)
        session = load_session(self._core.db.reader, session_id)
        if session is None or action.status != "EXECUTED":
            result = result_of(self._core.db.reader, action.action_id)
            code, said = ("NOT_STARTED", "it was not started.") if result is None else (result.code, result.output)
            raise ToolError(self._core.said(said), code=code, begun=False)
        return session, ""

    async def ask_to_leave(self, session_id: str, caller: Caller) -> tuple[Action, str]:
        """Ask the owner to take a session's commits out; the same commits are one question."""
        call = await push_call(self.app, self.sessions, session_id, "")
        calls = OwnerCalls(self.app, self._core.conveyor)
        keys = (f"pull:{session_id}:{hashlib.sha256(call.args_bytes).hexdigest()[:16]}:{n}" for n in count())
        key, known = next((key, known) for key in keys if may_go_on(known := calls.earlier(PUSH, key)))
        action = known or await calls.make(
            call, by=caller.by, key=key, at_once=False, also=partial(tell_push, self.app)
        )
        needs = "" if action.status != "PENDING" else self._core.approvals.owner.needed(
            self._core.db.reader, action.decision.lane, caller.by
        )  # fmt: skip
        return action, needs

    async def resize(self, session_id: str, size: Size) -> None:
        """Change the size of a terminal."""
        async with self.sessions.attached(session_id) as keeper:
            await keeper.resize(size.rows, size.columns)

    async def answer(self, session_id: str, action_id: str, caller: Caller, *, allow: bool, note: str) -> SessionView:
        """Answer a question of a session on the one queue."""
        caller.must_be_device()
        action = load_action(self._core.db.reader, action_id)
        if action is None or (action.source, action.source_id) != ("session", session_id):
            raise NotThere("such question of this session", remedy="See GET /v1/approvals.")
        approvals = self._core.approvals
        if allow:
            await approvals.approve(action, by=caller.by, digest=action.digest)
        else:
            await approvals.reject(action, reason=note or "The owner said no.", by=caller.by)
        return self.view(caller, session_id)

    async def difference(
        self, caller: Caller, session_id: str, path: str
    ) -> tuple[tuple[CheckoutChange, ...], str, bool]:
        """What a session changed, and the difference as text."""
        session = self.found(caller, session_id)
        if session.checkout is None:
            raise ToolError("there is no checkout.", code="NO_CHECKOUT", begun=False)
        checkouts = self.sessions.checkouts
        changes = await checkouts.changes(session.checkout)
        patch = await checkouts.diff(session.checkout, path or None)
        text = self._core.said(visible(patch.decode("utf-8", "replace")))  # before it is cut: half a secret is one too
        return changes, text[:PATCH_BYTES], len(text) > PATCH_BYTES

    def recorded(self, caller: Caller, session_id: str, form: Literal["text", "asciicast"]) -> tuple[bytes, str]:
        """The recorded terminal, and its media type."""
        self.found(caller, session_id)
        recorded = Recorded(self.sessions.recording_file(session_id))
        if form == "text":
            return recorded.text().encode(), "text/plain; charset=utf-8"
        return b"".join(recorded.asciicast()), "application/x-asciicast"

    # Around them

    def repos(self, caller: Caller) -> list[RepoRef]:
        """What sessions may work on."""
        found = [repo_ref(each) for each in sources_of(self.app).values()]
        scope = caller.scope
        return found if scope is None else [each for each in found if caller.sees(scope.org_id, each.text, None)]

    def orgs(self, caller: Caller) -> list[OrgView]:
        """Whom sessions are run for."""
        orgs = self.app.config.orgs
        names = sorted({SELF, *orgs}) if caller.scope is None else [caller.scope.org_id]
        return [self._org(name, org) for name in names if (org := org_called(orgs, name)) is not None]

    def audit_head(self, caller: Caller, org_id: str) -> OrgAuditHead:
        """Where an export of an organization's audit ends; only who sees all of the organization may have it."""
        scope = caller.scope
        whole = scope is None or (scope.org_id == org_id and scope.repo_id is None and scope.session_id is None)
        if not whole or not org_known(self.app, org_id):
            raise NotThere("such organization", remedy="See GET /runner/v1/orgs.")
        return head_of(self._core.db.reader, self.app.clock, org_id)

    def _org(self, name: str, org: Org) -> OrgView:
        plan = self.app.config.plans.of(org)
        db = self._core.db.reader
        return OrgView(
            org_id=name,
            plan=org.plan or "free",
            sessions=plan.sessions,
            running=busy(db, name),
            minutes_per_month=plan.minutes_per_month,
            minutes_used=seconds_this_month(db, self.app.clock, name) // 60,
        )
