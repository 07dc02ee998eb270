"""coilclaw mcp serve."""

import asyncio

import click

from coilclaw.cli.open_home import opened


@click.command()
def serve() -> None:
    """Offer this agent's tools to an MCP client that starts this command.

    Speaks the Model Context Protocol on stdin and stdout; the log goes to stderr. The tools are those of `[mcp.serve]
    tools`. Every call passes the gate: what needs your approval waits for it, in the panel or in `coilclaw approvals`.
    """
    from coilclaw.features.mcp_server.stdio import serve_stdio, take_stdout

    own = take_stdout()
    with opened() as app:
        app.announce("mcp")
        asyncio.run(serve_stdio(app, 0, own))
