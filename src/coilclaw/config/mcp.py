"""The section `[mcp]`: outside programs whose tools you let in, and what CoilClaw offers to others."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from coilclaw.config.notify import EnvName

GuestDomain = Annotated[str, Meta(min_length=1, max_length=253)]
GuestFolder = Annotated[str, Meta(min_length=1, max_length=4096)]


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server. Its tools can be used after you approved them: `coilclaw mcp approve NAME`."""

    kind: Literal["stdio", "http"] = "stdio"
    """`stdio` is a program on this machine, run in a box; `http` is a server that is reached by its address."""
    command: tuple[Annotated[str, Meta(max_length=4096)], ...] = ()
    """The program and its arguments, for stdio."""
    url: Annotated[str, Meta(max_length=2048)] = ""
    """The address of its endpoint, for http."""
    env: tuple[EnvName, ...] = ()
    """Names of secrets that it gets as environment variables, for stdio. It gets no others."""
    headers: dict[str, str] = {}
    """Headers that it gets, each with the name of the secret that is its value, for http."""
    oauth_hosts: tuple[GuestDomain, ...] = ()
    """Hosts of its authorization server, for an http server that you sign in to: `coilclaw mcp sign-in NAME`."""
    oauth_scopes: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()
    """What to ask for when signing in. Empty: what the server gives by default."""
    oauth_client_id: Annotated[str, Meta(max_length=500)] = ""
    """Your client there. Empty: it makes one for us, if it does that."""
    domains: tuple[GuestDomain, ...] = ()
    """Hosts that a stdio server may reach. Each must be among `security.allowed_domains` too."""
    read: tuple[GuestFolder, ...] = ()
    """Folders outside the workspace that a stdio server may read."""
    write: tuple[GuestFolder, ...] = ()
    """Folders outside the workspace that a stdio server may change. What it changes there cannot be undone."""
    tools_allow: tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...] = ("*",)
    """Which of its tools may be used at all."""
    call_seconds: Annotated[float, Meta(ge=0.05, le=3600)] = 60.0
    """How long one call may take."""
    idle_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """How long it keeps running without being used."""
    memory_mb: Annotated[int, Meta(ge=16, le=65_536)] = 1024
    """How much memory a stdio server may use."""


ServedTool = Annotated[
    str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", title='the name of a tool such as "file_read"')
]

NEVER_OFFERED = frozenset(
    """
    adapter_change attachment_save bot_pack bot_public bot_tighten bot_yolo evolve_merge evolve_rollback evolve_route
    file_show file_vouch gcal_list_events gmail_create_draft_reply gmail_get_full gmail_get_snippet gmail_search_threads
    gmail_send_draft google_connect google_disconnect guest_approve guest_look guest_sign_in main_accept patrol_run
    pr_merge pr_publish project_add project_vouch quarantine_release session_command session_deploy session_draft
    session_end session_fetch session_push session_secret session_start session_write settings_change sop_approval
    """.split()  # noqa: SIM905  a dozen quoted words are harder to read
)
"""What only the runtime calls, and what decides for the owner. The gate refuses these to clients in any case."""


class McpServe(msgspec.Struct, frozen=True, kw_only=True):
    """CoilClaw as an MCP server, for `coilclaw mcp serve` and `/mcp`."""

    tools: tuple[ServedTool, ...] = (
        "time", "file_list", "file_read", "file_search", "memory_search", "notes_read", "notes_write",
    )  # fmt: skip
    """The tools that MCP clients may call, of those that `[channels.cli]` allows; any other is denied. What asks you
    still asks you. Tools that approve, govern or are the runtime's own cannot be listed."""


class Mcp(msgspec.Struct, frozen=True, kw_only=True):
    """The Model Context Protocol."""

    servers: dict[str, McpServer] = {}
    """MCP servers, each a table `[mcp.servers.NAME]`."""
    serve: McpServe = McpServe()
    """CoilClaw as a server."""


def guests_dir(workspace: Path) -> Path:
    """Where guests have their own folders: next to the workspace, because boxes hide the home."""
    return workspace.with_name(f"{workspace.name}-guests")


def server_faults(name: str, server: McpServer) -> list[tuple[str, str]]:
    """What is wrong with a server: each key (empty for the table itself), and a sentence."""
    found: list[tuple[str, str]] = []
    if name != name.lower():
        found.append(("", "the name of a server is lower-case; its tools are called NAME.tool"))
    if server.kind == "stdio":
        found += [(key, "is for http servers only") for key in _HTTP_ONLY if getattr(server, key)]
        if not server.command or not server.command[0]:
            found.append(("command", 'is missing; name the program and its arguments, such as ["my-server", "--flag"]'))
        return found
    given = [key for key in ("command", "env", "domains", "read", "write") if getattr(server, key)]
    found += [(key, "is for stdio servers only") for key in given]
    if fault := _url_fault(server.url):
        found.append(("url", fault))
    if server.oauth_hosts and any(header.lower() == "authorization" for header in server.headers):
        found.append(("headers", "names Authorization, which signing in sets; remove one of them"))
    for header, secret in server.headers.items():
        if not _plain(header) or header.lower() in _OURS or not _plain(secret.replace("_", "-")):
            found.append(("headers", "names a header, and the secret that holds its value, such as Authorization"))
    return found


_HTTP_ONLY = ("url", "headers", "oauth_hosts", "oauth_scopes", "oauth_client_id")
_OURS = frozenset({"host", "content-type", "content-length", "accept", "mcp-session-id", "mcp-protocol-version"})


def _plain(word: str) -> bool:
    return 0 < len(word) <= 64 and word.isascii() and word.replace("-", "").isalnum()


def _url_fault(url: str) -> str:
    from coilclaw.config.webhooks import webhook_url_fault

    return webhook_url_fault(url).replace("secret_env", "headers").replace("/hook", "/mcp")
