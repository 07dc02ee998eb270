"""The common JSON form of MCP servers, `{"mcpServers": {NAME: {"command": …, "args": […], "env": {…}}}}`."""

import re
from pathlib import Path
from typing import cast

from coilclaw.config.mcp import McpServer
from coilclaw.features.guests.program import absolute_command
from coilclaw.packets.canonical import Json, NotCanonical, parse_object
from coilclaw.packets.errors import UsageError

_KNOWN = {"command", "args", "env", "url", "headers", "type", "transport"}


def read_common_form(name: str, text: str) -> tuple[McpServer, list[str]]:
    """The server of that name, and what of its entry is left out, a sentence each."""
    try:
        whole = parse_object(text)
    except NotCanonical as error:
        raise UsageError(f"this is not JSON: {error}.") from error
    servers = whole.get("mcpServers", whole)
    entry = servers.get(name) if isinstance(servers, dict) else None
    if not isinstance(entry, dict):
        names = ", ".join(servers) if isinstance(servers, dict) else ""
        raise UsageError(f"there is no server {name!r} in it.", remedy=f"It has: {names or 'none'}.")
    left = [f"{key}, which CoilClaw does not use." for key in entry if key not in _KNOWN]
    if "sse" in (entry.get("type"), entry.get("transport")):
        raise UsageError(
            f"the server {name!r} speaks the old kind `sse`, which CoilClaw does not.",
            remedy="Ask for its address of Streamable HTTP.",
        )
    if isinstance(url := entry.get("url"), str):
        headers = {key: _secret_name(name, key) for key in _keys(entry.get("headers"))}
        left += [_secret("header", key, value) for key, value in headers.items()]
        return McpServer(kind="http", url=url, headers=headers), left
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise UsageError(f"the server {name!r} has neither a command with arguments nor a url.")
    env = _keys(entry.get("env"))
    if odd := [key for key in env if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", key)]:
        raise UsageError(f"the variable {odd[0][:80]!r} cannot be given: a name has capital letters, digits and _.")
    left += [_secret("variable", key, key) for key in env]
    words = absolute_command((command, *cast("list[str]", args)), str(Path.cwd()))
    return McpServer(command=words, env=tuple(env)), left


def _keys(given: Json) -> list[str]:
    return list(given) if isinstance(given, dict) else []


def _secret_name(server: str, header: str) -> str:
    """The secret of a header, the server's own: nearly all of them are called Authorization."""
    name = f"{server}_{header}".upper().replace("-", "_")
    return name if name[:1].isalpha() else f"MCP_{name}"


def _secret(kind: str, key: str, secret: str) -> str:
    return f"the value of the {kind} {key}: store it with `coilclaw secret set {secret}`."
