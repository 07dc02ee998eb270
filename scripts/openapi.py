"""The OpenAPI document of the whole server, built over a throw-away home; nothing is listened on."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from coilclaw.app import EXTENSIONS, build_server
from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.config import Home, load
from coilclaw.runtime import Runtime


def document() -> dict[str, Any]:
    """What `GET /v1/openapi.json` answers."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        environ = {"HOME": folder}
        make_home(home)
        config = load(home, environ).config
        make_parts(home, config)
        make_workspace(home, config.workspace_dir)
        app = Runtime(home, config, environ, lambda level, event, fields: None, extensions=EXTENSIONS)
        try:
            return asyncio.run(_ask(app))
        finally:
            app.close()


async def _ask(app: Runtime) -> dict[str, Any]:
    """Ask the routes themselves, as a paired device would."""
    site = build_server(app)
    sent: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.append(message.get("body", b""))

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/openapi.json",
        "raw_path": b"/v1/openapi.json",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8377),
        "state": {},
    }
    try:
        await site.routes(scope, receive, send)  # pyright: ignore[reportArgumentType]
    finally:
        site.close()
    return msgspec.json.decode(b"".join(sent))
