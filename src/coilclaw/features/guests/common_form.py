"""The common JSON form of MCP servers, `{"mcpServers": {NAME: {"command": …, "args": […], "env": {…}}}}`."""

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
    if isinstance(url := entry.get("url"), str):
        headers = _names(entry.get("headers"))
        left += [_secret("header", key, value) for key, value in headers.items()]
        return McpServer(kind="http", url=url, headers=headers), left
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise UsageError(f"the server {name!r} has neither a command with arguments nor a url.")
    env = _names(entry.get("env"))
    left += [_secret("variable", key, key) for key in env]
    words = absolute_command((command, *cast("list[str]", args)), str(Path.cwd()))
    return McpServer(command=words, env=tuple(env)), left


def _names(given: Json) -> dict[str, str]:
    """Variables or headers with the names of the secrets that hold their values."""
    if not isinstance(given, dict):
        return {}
    return {key: key.upper().replace("-", "_") for key in given}


def _secret(kind: str, key: str, secret: str) -> str:
    return f"the value of the {kind} {key}: store it with `coilclaw secret set {secret}`."
