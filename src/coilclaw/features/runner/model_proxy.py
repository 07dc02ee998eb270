"""The model of a session, at a port inside its box: the key is added out here, and nothing else passes.

The listener is the box's own, so whoever connects is that session. A request is read strictly, judged against the
session's budgets, written anew and sent through the airlock; the answer streams back as it comes, and what it cost is
added to the session. See docs/decisions/0040.
"""

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from coilclaw.config.prices import MILLION
from coilclaw.config.runner import org_called
from coilclaw.features.runner.box_proxy import JSON, BoxProxy, ModelCall, head_of, length_of
from coilclaw.features.runner.model_http import BadHttp, BoxClient
from coilclaw.features.runner.model_usage import AnswerMeter, CallCost
from coilclaw.features.runner.model_wires import KINDS, SessionWire, kept_headers, key_header
from coilclaw.features.runner.store import Session, Units, needed_session, tick, tokens_this_month
from coilclaw.features.runner.store.family import tokens_of_family
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, EgressRefused, ToolError, TransportError
from coilclaw.packets.http import HttpRequest
from coilclaw.store.tx import Tx
from coilclaw.store.usage import add_usage, day_began, tokens_since

if TYPE_CHECKING:
    from coilclaw.config import ServerModel
    from coilclaw.packets.ports import StreamedResponse
    from coilclaw.runtime.runtime import Runtime

WIRES: Final[dict[str, SessionWire]] = {
    "codex": "responses",
    "claude": "messages",
    "gemini": "generate",
    "fake": "responses",
}
CONNECTIONS: Final = 32
"""At a time; further ones wait."""
_STREAM_SECONDS: Final = 6 * 3600.0
_ANSWER_BYTES: Final = 256 << 20
_ERROR_BYTES: Final = 1 << 20
_TOGETHER: Final = 16
"""Pieces of a stream that leave as one."""
_KEPT: Final = ("retry-after", "request-id", "x-request-id", "x-should-retry")
_EVENTS: Final = "text/event-stream"


def provider_for(app: "Runtime", program: str) -> "tuple[str, ServerModel]":
    """The name and the settings of the provider that answers a coding program; a ToolError if there is none."""
    models, (kind, called) = app.config.providers.models, KINDS[WIRES.get(program, "responses")]
    chosen = getattr(app.config.runner.models, program, "")
    for name, model in models.items():
        if isinstance(model, kind) and name == (chosen or name):
            return name, model
    if chosen:
        raise ToolError(
            f"runner.models.{program}: {chosen} is not a provider of its kind.",
            remedy=f"Name one of kind {called}, or leave it out.",
            code="NO_PROVIDER",
            begun=False,
        )
    raise ToolError(
        f"there is no model for {program}.",
        remedy=f"Add a provider of kind {called} with `coilclaw onboard` or in the panel; see docs/providers.md.",
        code="NO_PROVIDER",
        begun=False,
    )


class ModelProxy(BoxProxy):
    """Serves one session for as long as a server follows it."""

    def __init__(self, app: "Runtime", session: Session) -> None:
        super().__init__(app, WIRES.get(session.spec.provider, "responses"), f"Session {session.session_id}")
        self._id = session.session_id
        self._provider = session.spec.provider

    # -- whether it may

    def _may_go(self, tokens: int) -> None:
        """Raise BadHttp unless the session runs and has tokens left."""
        if self._app.estop.engaged():
            raise BadHttp(400, "ESTOP", "Everything is stopped (ESTOP). Clear it to go on.")
        session = needed_session(self._app.db.reader, self._id)
        if session.state == "PAUSED_BY_HUMAN":
            raise BadHttp(503, "PAUSED", "The session is paused.")
        if session.state != "RUNNING":
            raise BadHttp(400, "OVER", "The session is over.")
        if limit := self._spent(session, tokens + self._reserved):
            raise BadHttp(400, "BUDGET", limit)

    def _spent(self, session: Session, more: int) -> str:
        """Why it may not use more tokens; empty if it may."""
        app, db = self._app, self._app.db.reader
        config = app.config
        most = config.runner.session_tokens
        if most and tokens_of_family(db, session) + more >= most:
            return f"The session's budget of {most} tokens is used up. Raise runner.session_tokens to go on."
        org = org_called(config.orgs, session.org_id)
        if org is None or org.plan is None:
            return f"The organization {session.org_id} is no longer configured."
        most = config.plans.of(org, session.spec.billing.plan).tokens_per_month
        if most and tokens_this_month(db, app.clock, session.org_id) + more >= most:
            return (
                f"This month's {most} tokens of {session.org_id} are used up. Raise plans.{org.plan}.tokens_per_month."
            )
        most = config.budgets.daily_tokens
        if tokens_since(db, day_began(app.clock())) + more >= most:
            return f"Today's budget of {most} tokens is used up. Wait for the next day, or raise budgets.daily_tokens."
        return ""

    def _is_running(self) -> bool:
        return needed_session(self._app.db.reader, self._id).state == "RUNNING"

    # -- the call

    async def _call(self, client: BoxClient, call: ModelCall) -> None:
        name, model = self._server()
        key = self._app.keyring.get(model.api_key_env) if model.api_key_env else ""
        if model.api_key_env and not key:
            raise BadHttp(400, "NO_KEY", f"{name} has no key. Set one with `coilclaw secret set {model.api_key_env}`.")
        key = (key or "").strip()
        if key:
            self._app.redactor.register(model.api_key_env, key)
        content = (("content-type", "application/json"),) if call.route.method == "POST" else ()
        request = HttpRequest(
            principal="provider",
            method=call.route.method,
            url=model.base_url.strip().rstrip("/") + call.path,
            headers=(
                ("accept", "text/event-stream, application/json"),
                *content,
                *kept_headers(self._wire, call.request.header),
                *key_header(self._wire, key),
            ),
            body=call.body,
            timeout_seconds=_STREAM_SECONDS,
            max_bytes=_ANSWER_BYTES,
        )
        meter: AnswerMeter | None = None
        answered = whole = False
        sent = True  # whoever hangs up before the provider answers has asked it all the same
        try:
            async with self._app.transport.stream(request) as answer:
                answered = True
                streamed = _header(answer, "content-type").lower().startswith(_EVENTS)
                if answer.status == 200 and call.route.answers:
                    meter = AnswerMeter(self._wire, streamed=streamed)
                await self._pass_on(client, answer, key.encode(), meter, streamed=streamed)
                whole = True
        except EgressRefused as error:
            sent = answered
            raise BadHttp(502, "EGRESS", f"{name} cannot be reached: {error.message}") from None
        except TransportError as error:
            sent = answered or error.sent
            raise BadHttp(502, "UPSTREAM", f"{name}: {error.message}") from None
        finally:
            if sent:
                if not answered and call.route.answers:
                    meter = AnswerMeter(self._wire, streamed=True)
                cost = None if meter is None else meter.cost(call.model or model.model, len(call.body), whole=whole)
                await asyncio.shield(asyncio.ensure_future(self._record(name, cost)))

    def _server(self) -> "tuple[str, ServerModel]":
        """The configured provider that answers this session."""
        try:
            return provider_for(self._app, self._provider)
        except ToolError as error:
            raise BadHttp(400, "NO_PROVIDER", str(error)) from error

    async def _pass_on(
        self, client: BoxClient, answer: "StreamedResponse", key: bytes, meter: AnswerMeter | None, *, streamed: bool
    ) -> None:
        if answer.status < 200 or 300 <= answer.status < 400:  # followed, it would carry the key elsewhere
            raise BadHttp(502, "REDIRECTED", "The provider redirects, which is not followed. Check its base_url.")
        headers = [(name, value) for name in _KEPT if (value := _plain(_header(answer, name), key))]
        if not streamed:
            data = b"".join([piece async for piece in answer.chunks()])
            data = data.replace(key, _HIDDEN) if key else data
            if meter is not None:
                meter.feed(data)
            elif len(data) > _ERROR_BYTES:
                raise BadHttp(502, "UPSTREAM", "The provider's answer is too long.")
            json = _header(answer, "content-type").lower().startswith(JSON)
            kind = JSON if json else "text/plain; charset=utf-8"
            await client.write(head_of(answer.status, [*headers, ("content-type", kind), length_of(data)]) + data)
            return
        begun = head_of(answer.status, [*headers, ("content-type", _EVENTS), ("transfer-encoding", "chunked")])
        passing = _Passing(client, meter, key, begun)
        async for piece in answer.chunks():
            self._heard = time.monotonic()
            await passing.add(piece)
        await passing.end()

    # -- what is told

    async def _record(self, name: str, cost: CallCost | None) -> None:
        """Add a call to the session, to the month and to what all work used, in one commit."""
        app = self._app
        units, priced = Units(provider_invocations=1), None
        if cost is not None:
            price = app.config.prices.get(cost.model)
            tokens = cost.input_tokens + cost.output_tokens
            if price is not None:
                paid = price.cost(read=cost.input_tokens, cached=cost.cached_tokens, written=cost.output_tokens)
                priced = (paid + MILLION // 2) // MILLION
            units = Units(
                provider_invocations=1,
                input_tokens=cost.input_tokens,
                cached_tokens=cost.cached_tokens,
                output_tokens=cost.output_tokens,
                cost_millionths=priced or 0,
                unpriced_tokens=tokens if price is None else 0,
            )
        said, self.refused = self.refused, Counter[str]()

        def write(tx: Tx) -> None:
            if cost is not None:
                add_usage(
                    tx,
                    app.clock,
                    thread_id=self._id,
                    turn_id=self._id,
                    job_id=None,
                    provider=name,
                    model=cost.model,
                    input_tokens=cost.input_tokens,
                    output_tokens=cost.output_tokens,
                    estimated=cost.estimated,
                    cached_tokens=cost.cached_tokens,
                )
            told: dict[str, Json] = {"refused": dict(said)} if said else {}
            tick(tx, app.clock, self._id, called=units, said=told)

        try:
            await app.db.write(write)
        except CoilclawError as error:
            self.refused += said
            app.warn(f"A model call of session {self._id} could not be recorded: {app.redact(str(error))}")

    async def _tell_limit(self, limit: str) -> None:
        await self._app.db.write(lambda tx: tick(tx, self._app.clock, self._id, said={"limit": limit}))


class _Passing:
    """Passes a stream on: what arrives together leaves together, as soon as nothing more is there."""

    def __init__(self, client: BoxClient, meter: AnswerMeter | None, key: bytes, head: bytes) -> None:
        self._client = client
        self._meter = meter
        self._key = key
        self._head = head
        self._pieces: list[bytes] = []
        self._held = b""
        """What may be the beginning of the key."""

    async def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._pieces.append(piece)
        if len(self._pieces) == 1:  # runs when the reader waits for more, or else has read enough
            asyncio.get_running_loop().call_soon(self._flush)
        elif len(self._pieces) >= _TOGETHER:
            self._flush()
        await self._client.drained()

    async def end(self) -> None:
        """All of it has come."""
        self._flush(last=True)
        self._client.post(self._head + b"0\r\n\r\n")
        self._client.begun = False
        await self._client.drained()

    def _flush(self, *, last: bool = False) -> None:
        data = b"".join(self._pieces)
        self._pieces.clear()
        if self._meter is not None:
            self._meter.feed(data)
        if self._key:
            data = (self._held + data).replace(self._key, _HIDDEN)
            cut = len(data) if last else _beginning(data, self._key)
            self._held, data = data[cut:], data[:cut]
        if data:
            self._client.begun = True
            self._client.post(b"%b%x\r\n%b\r\n" % (self._head, len(data), data))
            self._head = b""


def _beginning(data: bytes, key: bytes) -> int:
    """Where a key may begin that goes on in the next piece; the end of the data if nowhere."""
    at = data.find(key[:1], max(0, len(data) - len(key) + 1)) if key else -1
    while at >= 0 and not key.startswith(data[at:]):
        at = data.find(key[:1], at + 1)
    return at if at >= 0 else len(data)


_HIDDEN: Final = b"[api key]"


def _plain(value: str, key: bytes) -> str:
    """A header of an answer, if it is short, printable and tells no key."""
    tells = key and key.decode("ascii", "replace") in value
    return value if value.isascii() and value.isprintable() and len(value) < 256 and not tells else ""


def _header(answer: "StreamedResponse", name: str) -> str:
    return next((value for key, value in answer.headers if key.lower() == name), "")
