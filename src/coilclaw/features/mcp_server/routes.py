"""MCP over Streamable HTTP at `/mcp`: a message a POST, answered with JSON. There is no stream to GET."""

from typing import Any

from litestar import Controller, Request, Response, delete, post
from litestar.di import NamedDependency

from coilclaw.features.mcp_server.rpc import RpcError, error_of, read_message
from coilclaw.features.mcp_server.session import VERSIONS, McpSession
from coilclaw.features.mcp_server.sessions import McpSessions
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.token_recheck import must_stay
from coilclaw.server.problems import Trouble

SESSION, VERSION = "mcp-session-id", "mcp-protocol-version"


class McpController(Controller):
    """The one address of the protocol. It is described in docs/mcp-server.md, not in the OpenAPI document."""

    path = "/mcp"
    include_in_schema = False

    @post("/", status_code=200)
    async def message(
        self,
        request: Request[Any, Any, Any],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        mcp_sessions: NamedDependency[McpSessions],
    ) -> Response[bytes]:
        """Take one message and answer it."""
        _check_caller(caller)
        _check_accept(request.headers.get("accept", "*/*"))
        session_id = request.headers.get(SESSION, "")
        try:
            message = read_message(await request.body())
            if message.method == "initialize" and message.id is not None and not session_id:
                session_id, session = mcp_sessions.begin(caller)
            else:
                session = _session(mcp_sessions, caller, session_id)
                _check_version(session, request.headers.get(VERSION))
        except RpcError as error:
            return Response(error_of(error), status_code=400, media_type="application/json")
        answer = await session.answer(message)
        must_stay(core, caller)
        if not session.version:
            mcp_sessions.end(caller.device_id, session_id)  # it did not come about
        headers = {SESSION: session_id} if message.method == "initialize" and session.version else {}
        if answer is None:
            return Response(b"", status_code=202, media_type="application/json")
        return Response(answer, media_type="application/json", headers=headers)

    @delete("/", status_code=204)
    async def end(
        self,
        request: Request[Any, Any, Any],
        caller: NamedDependency[Caller],
        mcp_sessions: NamedDependency[McpSessions],
    ) -> None:
        """End a session; calls under way finish."""
        _check_caller(caller)
        session_id = request.headers.get(SESSION, "")
        _session(mcp_sessions, caller, session_id)
        mcp_sessions.end(caller.device_id, session_id)


def _check_caller(caller: Caller) -> None:
    """A browser's cookie is for the panel alone: its pages have the owner's word, which a client has not."""
    if caller.way != "bearer":
        raise Trouble(
            403,
            "BEARER_NEEDED",
            "MCP clients sign in with a token of their own.",
            remedy="Send `Authorization: Bearer TOKEN`; docs/mcp-server.md says how to get one.",
        )


def _check_accept(accept: str) -> None:
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    if not kinds & {"application/json", "application/*", "*/*"}:
        raise Trouble(
            406,
            "NOT_ACCEPTABLE",
            "this address answers with JSON.",
            remedy="Send `Accept: application/json, text/event-stream`.",
        )


def _session(mcp_sessions: McpSessions, caller: Caller, session_id: str) -> McpSession:
    if not session_id:
        raise Trouble(
            400, "NO_SESSION", "the request names no session.", remedy="Send initialize first, then its Mcp-Session-Id."
        )
    session = mcp_sessions.find(caller, session_id)
    if session is None:
        raise Trouble(404, "NOT_FOUND", "there is no such session.", remedy="Send initialize to begin a new one.")
    return session


def _check_version(session: McpSession, version: str | None) -> None:
    if version is not None and version != session.version:
        raise Trouble(
            400,
            "BAD_PROTOCOL_VERSION",
            "this is not the protocol version of the session.",
            remedy=f"Send `MCP-Protocol-Version: {session.version or VERSIONS[0]}`.",
        )
