"""The application: all parts, every error as problem+json, and the OpenAPI document."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from litestar import Controller, Litestar, Request, Response, get
from litestar.di import NamedDependency, Provide
from litestar.exceptions import WebSocketException
from litestar.openapi import OpenAPIConfig
from litestar.routes import HTTPRoute
from litestar.types import Scope

from coilclaw import __version__
from coilclaw.packets.canonical import Json
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.part import Part
from coilclaw.server.problems import Problem, answer_with_problem
from coilclaw.server.query import Queries


def caller_of(scope: Scope) -> Caller:
    """The caller of a request or WebSocket, set by the door."""
    return cast("dict[str, Any]", scope)["state"]["caller"]


def request_key_of(request: "Request[Any, Any, Any]") -> str | None:
    """Identifies device and Idempotency-Key, the same for a repeated request; None without a key."""
    return request.scope["state"].get("request_key")


def origin_of(request: "Request[Any, Any, Any]") -> str:
    """The origin of our pages under this request's host name, set by the door."""
    return request.scope["state"]["origin"]


def _always(value: object) -> Provide:
    def give() -> Any:
        return value

    return Provide(give, sync_to_thread=False, use_cache=True)


class Described:
    """The OpenAPI document, built on first use."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._lock = asyncio.Lock()
        self._text: bytes | None = None

    async def text(self) -> bytes:
        """The document as JSON."""
        async with self._lock:
            if self._text is None:
                self._text = await asyncio.to_thread(self._make)
            return self._text


class DocumentController(Controller):
    """The API's own description."""

    path = "/v1/openapi.json"
    include_in_schema = False

    @get("/")
    async def document(self, described: NamedDependency[Described]) -> Response[bytes]:
        """The OpenAPI document."""
        return Response(await described.text(), media_type="application/json")


def _given(core: Core, parts: Sequence[Part]) -> dict[str, Provide]:
    given: dict[str, object] = {"core": core}
    for part in parts:
        if doubled := given.keys() & part.given.keys():
            raise ValueError(f"given twice: {', '.join(sorted(doubled))}")
        given |= part.given
    return {
        **{name: _always(value) for name, value in given.items()},
        "caller": Provide(caller_of, sync_to_thread=False),
        "request_key": Provide(request_key_of, sync_to_thread=False),
        "origin": Provide(origin_of, sync_to_thread=False),
    }


def _nothing(_: str, __: dict[str, Json]) -> None:
    """Does nothing."""


def build(core: Core, parts: Sequence[Part], *, say: Callable[[str, dict[str, Json]], None] = _nothing) -> Litestar:
    """The routes without the door. `say` receives unexpected errors."""
    given = _given(core, parts)
    controllers = [controller for part in parts for controller in part.controllers]

    def answer(request: "Request[Any, Any, Any]", error: Exception) -> Response[Problem]:
        told = answer_with_problem(request, error)
        if told.status_code == 500:
            say("request_failed", {"error": type(error).__name__, "place": place_of(error)})
        return told

    async def note(error: Exception, scope: Scope) -> None:
        if scope["type"] == "websocket" and not isinstance(error, WebSocketException):
            say("request_failed", {"error": type(error).__name__, "place": place_of(error)})

    def describe() -> bytes:
        from coilclaw.server.document import completed

        config = OpenAPIConfig(title="CoilClaw", version=__version__, use_handler_docstrings=True)
        described = Litestar(route_handlers=controllers, dependencies=given, openapi_config=config)
        return completed(described.openapi_schema.to_schema(), controllers)

    queries = Queries()
    app = Litestar(
        route_handlers=[*controllers, DocumentController],
        before_request=queries.check,
        dependencies={**given, "described": _always(Described(describe))},
        exception_handlers={Exception: answer},
        after_exception=[note],
        openapi_config=None,
        debug=False,
        logging_config=None,
    )
    queries.learn(app)
    _resolve_in_turn(app)
    app.state["core"] = core
    return app


def _resolve_in_turn(app: Litestar) -> None:
    """Have Litestar resolve dependencies in turn, not each in a task of its own: ours are values, and never wait."""
    models = (
        model for route in app.routes if isinstance(route, HTTPRoute) for _, model in route.route_handler_map.values()
    )
    for model in models:
        model.dependency_batches = [{each} for batch in model.dependency_batches for each in batch]


def place_of(error: BaseException) -> str:
    """Where in the code it happened, without any request content."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
