"""A small subject to try the door, keys and ETags on: it says back what it was sent, and counts what it did."""

import asyncio

import msgspec
from litestar import Controller, Response, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from coilclaw.server.door.caller import Caller
from coilclaw.server.part import Part
from coilclaw.server.problems import Trouble


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Something said."""

    text: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, by whom, for which request."""

    text: str
    by: str
    request_key: str | None


class Doings:
    """What was done."""

    def __init__(self):
        self.done = []
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.status = 201
        self.pad = ""


class EchoController(Controller):
    """Echo."""

    path = "/v1/echo"

    @get("/", operation_id="readEcho")
    async def read(self, doings: NamedDependency[Doings]) -> dict[str, int]:
        """How often something was said."""
        return {"said": len(doings.done)}

    @post("/", operation_id="sayEcho")
    async def say(
        self,
        data: JSONBody[Said],
        caller: NamedDependency[Caller],
        doings: NamedDependency[Doings],
        request_key: NamedDependency[str | None],
    ) -> Response[Told]:
        """Say something."""
        doings.done.append(data.text)
        told = Told(text=data.text + doings.pad, by=caller.by, request_key=request_key)
        return Response(told, status_code=doings.status)

    @post("/wait", operation_id="waitEcho")
    async def wait(self, doings: NamedDependency[Doings]) -> dict[str, int]:
        """Answer when told to."""
        doings.begun.set()
        await doings.go.wait()
        doings.done.append("waited")
        return {"said": len(doings.done)}

    @put("/{name:str}", operation_id="putEcho")
    async def put(self, name: FromPath[str], doings: NamedDependency[Doings]) -> None:
        """Fail in one of several ways."""
        doings.done.append(name)
        if name == "conflict":
            raise Trouble(409, "CONFLICT", "it does not fit.")
        raise ValueError(f"secret things about {name}")


def echo_part(serving):
    """The part; its doings are `serving.doings`."""
    serving.doings = Doings()
    return Part(controllers=(EchoController,), given={"doings": serving.doings})
