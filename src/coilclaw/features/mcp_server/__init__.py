"""CoilClaw as an MCP server: tools for other programs, over stdio and HTTP. Every call passes the gate."""
