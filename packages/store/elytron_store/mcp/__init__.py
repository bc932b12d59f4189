"""The store port over the file tools of an MCP server: frames of the file engine, appended to shards of text."""

from elytron_store.mcp.store import McpStore
from elytron_store.mcp.tools import FileEntry, FileHit, ToolFiles, ToolSession, WriteMode, http_session

__all__ = ["FileEntry", "FileHit", "McpStore", "ToolFiles", "ToolSession", "WriteMode", "http_session"]
