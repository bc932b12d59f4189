"""The operations as an MCP server, over stdio and streamable HTTP."""
