"""An MCP server in a separate process, with tools that read and write notes."""

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("notes")
notes = ["The ferry leaves at six."]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read() -> str:
    """Read all notes."""
    return "\n".join(notes)


@server.tool(name="write.note")
def write(text: str) -> str:
    """Write a note."""
    if not text:
        raise ValueError("an empty note")
    notes.append(text)
    return "written"


if __name__ == "__main__":
    server.run()
