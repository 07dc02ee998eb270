"""Runner tokens: what a program shows instead of its device's token, good for some sessions and a quarter of an hour.

A browser needs none: its page key is the ticket (docs/decisions/0018). It lives in the page's memory, counts only
together with the cookie and our Origin, and a stolen one opens nothing on another device.
"""

import os
from datetime import timedelta

import msgspec
from litestar import Controller, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from coilclaw.features.runner.live import SessionAccess
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.tokens import new_token, token_hash
from coilclaw.server.problems import problems
from coilclaw.store.database import Database
from coilclaw.store.runner_tokens import Access, RunnerTokenRow, add_runner_token, renew_runner_token
from coilclaw.store.tx import Tx

LIFETIME = timedelta(minutes=15)
LONGEST = timedelta(days=1)
"""However often it is renewed: a stolen token is not good for ever."""


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a token is to open."""

    org_id: str
    repo_id: str | None = None
    session_id: str | None = None
    access: Access


class RunnerToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token. It is shown once."""

    token: str
    token_id: str
    expires_at: str


class Renewed(msgspec.Struct, frozen=True, kw_only=True):
    """How long a token is good now."""

    expires_at: str


class RunnerTokens:
    """Issues and renews the runner tokens of one home."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def issue(self, caller: Caller, asked: TokenRequest) -> RunnerToken:
        """A token of the caller's device."""
        now = self._clock()
        token, token_id, expires_at = new_token(os.urandom), new_id("rtk", now), stamp(now + LIFETIME)
        row = RunnerTokenRow(
            token_id=token_id,
            token_hash=token_hash(token),
            device_id=caller.device_id,
            confirmed=caller.confirmed,
            org_id=asked.org_id,
            repo_id=asked.repo_id,
            session_id=asked.session_id,
            access=asked.access,
            expires_at=expires_at,
        )

        def work(tx: Tx) -> None:
            add_runner_token(tx, self._clock, row)
            told: dict[str, Json] = {"device_id": caller.device_id, "org_id": asked.org_id, "access": asked.access}
            add_event(tx, self._clock, "token_issued", token_id, told)

        await self._db.write(work)
        return RunnerToken(token=token, token_id=token_id, expires_at=expires_at)

    async def renew(self, caller: Caller) -> Renewed:
        """Another quarter of an hour for the token that asks."""
        if caller.scope is None:
            raise UsageError("a device's own token needs no renewal.", remedy="Go on using it.")
        now = self._clock()
        expires_at = stamp(now + LIFETIME)

        def work(tx: Tx) -> bool:
            return renew_runner_token(
                tx, caller.token_id, now=stamp(now), expires_at=expires_at, created_after=stamp(now - LONGEST)
            )

        if not await self._db.write(work):
            raise UsageError("this token is too old to be renewed.", remedy="Ask for a new one.")
        return Renewed(expires_at=expires_at)


class TokensController(Controller):
    """Runner tokens."""

    path = "/runner/v1/tokens"
    tags = ("runner",)

    @post("/", operation_id="issueRunnerToken", responses=problems(403, 404, 422))
    async def issue(
        self,
        data: JSONBody[TokenRequest],
        caller: NamedDependency[Caller],
        session_access: NamedDependency[SessionAccess],
        runner_tokens: NamedDependency[RunnerTokens],
    ) -> RunnerToken:
        """A token that opens only these sessions, for 15 minutes at a time, renewable for a day.

        It is good for `/runner/v1` alone, as a bearer token or as the second protocol of a WebSocket. It ends with
        its device.
        """
        caller.must_be_device()
        if data.session_id is not None:
            watched = session_access.find(data.session_id)
            if watched is None or watched.org_id != data.org_id or data.repo_id not in (None, watched.repo_id):
                raise UsageError("that organisation has no such session.", remedy="See GET /runner/v1/sessions.")
        elif not session_access.knows(data.org_id, data.repo_id):
            raise UsageError("there is no such organisation or repository.", remedy="See GET /runner/v1/orgs.")
        return await runner_tokens.issue(caller, data)

    @post("/renew", operation_id="renewRunnerToken", status_code=200, responses=problems(422))
    async def renew(self, caller: NamedDependency[Caller], runner_tokens: NamedDependency[RunnerTokens]) -> Renewed:
        """Another 15 minutes for the runner token that this request is sent with."""
        return await runner_tokens.renew(caller)
