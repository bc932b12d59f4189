"""The store port over the file tools of an MCP server: frames of the file engine, appended to shards of text."""

from elytron_store.mcp.store import McpStore
from elytron_store.mcp.tool_session import ToolSession, http_session
from elytron_store.mcp.tools import FileEntry, FileHit, ToolFiles, WriteMode

__all__ = ["FileEntry", "FileHit", "McpStore", "ToolFiles", "ToolSession", "WriteMode", "http_session"]
