"""The operations as an MCP server, over stdio and streamable HTTP. Heavy imports happen on first use."""

from elytron_mcp_shell.app import McpApp, mcp_app, require_message
from elytron_mcp_shell.stdio import mcp_server, serve_stdio
from elytron_mcp_shell.tools import DEFAULT_SETS, ToolSet

__all__ = ["DEFAULT_SETS", "McpApp", "ToolSet", "mcp_app", "mcp_server", "require_message", "serve_stdio"]
