"""A store on an MCP file server: a real server on its own port, and a memory stored in its files."""

import asyncio
import json
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent

import elytron
from elytron_core.errors import StoreBusy


def told(found: dict[str, Any], *, failed: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=json.dumps(found))], is_error=failed)


def file_server(root: Path) -> MCPServer:
    """Return a small file server. One for production checks its callers and every path."""
    server = MCPServer("files", log_level="CRITICAL")
    not_found = told({"code": "NOT_FOUND", "retryable": False}, failed=True)

    @server.tool()
    def file_read(project: str, path: str, offset: int = 0, length: int = -1) -> CallToolResult:
        place = root / project / path[1:]
        if not place.is_file():
            return not_found
        return told({"content": place.read_text()[offset:][: length if length >= 0 else None]})

    @server.tool()
    def file_write(project: str, path: str, content: str, mode: str = "APPEND") -> CallToolResult:
        place = root / project / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a" if mode == "APPEND" else "w") as file:
            return told({"bytes_written": file.write(content)})

    @server.tool()
    def file_stat(project: str, path: str) -> CallToolResult:
        place = root / project / path[1:]
        return told({"exists": place.exists(), "size": place.stat().st_size if place.is_file() else 0})

    @server.tool()
    def file_list(project: str, path: str) -> CallToolResult:
        place = root / project / path[1:]
        kinds = {True: "DIRECTORY", False: "FILE"}
        found = [(each, kinds[each.is_dir()]) for each in place.iterdir()] if place.is_dir() else []
        entries = [{"path": f"{path}/{each.name}", "type": kind, "size": each.stat().st_size} for each, kind in found]
        return told({"entries": entries, "has_more": False})

    @server.tool()
    def file_delete(project: str, path: str) -> CallToolResult:
        place = root / project / path[1:]
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        return told({"deleted_count": 1})

    return server


def show(folder: Path) -> None:
    """Print the server's files."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print("/".join(path.relative_to(folder).parts[:3]), path.stat().st_size, "bytes")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listening:
        app = file_server(Path(folder)).streamable_http_app()
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        url = f"mcp+http://127.0.0.1:{listening.getsockname()[1]}/mcp?project=demo"

        async with elytron.open(url) as memory:
            await memory.add("The boiler code is 4417.")
            try:
                await elytron.open(url)
            except StoreBusy as busy:
                print("a second writer:", busy.key)
        async with elytron.open(url) as memory:
            print("found:", (await memory.search("boiler code")).hits[0].text)
        show(Path(folder))

        server.should_exit = server.force_exit = True
        await serving


asyncio.run(main())
