"""The application: the parts put together, every error as problem+json, OpenAPI beside them."""

from collections.abc import Sequence
from typing import Any

from litestar import Litestar, Request
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig

from coilclaw import __version__
from coilclaw.server.caller import Caller
from coilclaw.server.core import Core
from coilclaw.server.part import Part
from coilclaw.server.problems import answer_with_problem


def caller_of(request: "Request[Any, Any, Any]") -> Caller:
    """Who asks; the door has put it there."""
    return request.scope["state"]["caller"]


def request_key_of(request: "Request[Any, Any, Any]") -> str | None:
    """What stands for the device and its Idempotency-Key, the same whenever the request comes again; None without."""
    return request.scope["state"].get("request_key")


def _always(value: object) -> Provide:
    def give() -> Any:
        return value

    return Provide(give, sync_to_thread=False, use_cache=True)


def build(core: Core, parts: Sequence[Part]) -> Litestar:
    """The routes alone; the door stands before them."""
    given: dict[str, object] = {"core": core}
    for part in parts:
        if doubled := given.keys() & part.given.keys():
            raise ValueError(f"given twice: {', '.join(sorted(doubled))}")
        given |= part.given
    app = Litestar(
        route_handlers=[controller for part in parts for controller in part.controllers],
        dependencies={
            **{name: _always(value) for name, value in given.items()},
            "caller": Provide(caller_of, sync_to_thread=False),
            "request_key": Provide(request_key_of, sync_to_thread=False),
        },
        exception_handlers={Exception: answer_with_problem},
        openapi_config=OpenAPIConfig(title="CoilClaw", version=__version__, path="/v1/openapi", render_plugins=()),
        debug=False,
        logging_config=None,
    )
    app.state["core"] = core
    return app
