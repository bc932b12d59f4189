"""An MCP file server with the six specified tools, over real HTTP or stdio; it can be told to fail."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

WRITE_BYTES = 2_000_000
FILE_BYTES = 10_000_000
LIST_MOST = 256
TOOLS = ("file_stat", "file_read", "file_write", "file_list", "file_search", "file_delete")


class Refused(Exception):
    def __init__(self, code: str, *, retryable: bool = False) -> None:
        super().__init__(code)
        self.code, self.retryable = code, retryable


@dataclass
class Fault:
    """A failure of the next call of `tool` on a path that ends in `path_end` or contains `path_part`."""

    tool: str
    code: str = ""
    retryable: bool = False
    path_part: str = ""
    torn_at: int | None = None
    """Number of bytes written before it fails."""
    crash: bool = False
    """The server ends in the middle of the call."""
    hang: bool = False
    """No answer comes."""
    after: bool = False
    """The call is executed before it fails."""


@dataclass
class FileServer:
    """The files under `root` and the received calls."""

    root: Path
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    faults: list[Fault] = field(default_factory=list[Fault])
    crash: Callable[[], None] = lambda: os._exit(9)
    tenant: str = "everyone"

    def answer(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((tool, arguments))
        fault = self._fault(tool, arguments)
        done: dict[str, Any] | None = None
        if fault is not None and fault.torn_at is not None:
            self._write({**arguments, "content": arguments["content"][: fault.torn_at]})
        elif fault is None or fault.after:
            done = getattr(self, f"_{tool.removeprefix('file_')}")(arguments)
        if fault is None:
            assert done is not None
            return done
        if fault.crash:
            self.crash()
        if fault.hang or fault.crash:
            raise TimeoutError
        raise Refused(fault.code, retryable=fault.retryable)

    def _fault(self, tool: str, arguments: dict[str, Any]) -> Fault | None:
        for fault in self.faults:
            if fault.tool == tool and fault.path_part in arguments.get("path", ""):
                self.faults.remove(fault)
                return fault
        return None

    def _place(self, arguments: dict[str, Any]) -> Path:
        path = arguments.get("path", "")
        parts = path.split("/")
        if path and (not path.startswith("/") or path.endswith("/") or "//" in path or {".", ".."} & set(parts)):
            raise Refused("INVALID_PATH")
        if len(path) > 512 or any(char.isspace() for char in path):
            raise Refused("INVALID_PATH")
        return self.root / self.tenant / arguments["project"] / path.removeprefix("/")

    def _write(self, arguments: dict[str, Any]) -> dict[str, Any]:
        data = arguments["content"].encode()
        if len(data) > WRITE_BYTES:
            raise Refused("PAYLOAD_TOO_LARGE")
        place = self._place(arguments)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_file() and place.stat().st_size + len(data) > FILE_BYTES:
            raise Refused("PAYLOAD_TOO_LARGE")
        with place.open("ab" if arguments["mode"] == "APPEND" else "wb") as file:
            file.write(data)
        return {"bytes_written": len(data)}

    def _read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        if not place.is_file():
            raise Refused("NOT_FOUND")
        data = place.read_bytes()[arguments["offset"] :]
        data = data if arguments["length"] < 0 else data[: arguments["length"]]
        return {"content": data.decode("utf-8", "replace"), "content_encoding": "utf-8"}

    def _stat(self, arguments: dict[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        size = place.stat().st_size if place.is_file() else 0
        return {"exists": place.exists(), "type": "FILE" if place.is_file() else "DIRECTORY", "size": size}

    def _list(self, arguments: dict[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        if not place.is_dir():
            raise Refused("NOT_FOUND")
        limit = min(arguments["limit"], LIST_MOST)
        found = sorted(place.iterdir())
        entries = [self._entry(arguments, path) for path in found[:limit]]
        return {"entries": entries, "has_more": len(found) > limit}

    def _entry(self, arguments: dict[str, Any], path: Path) -> dict[str, Any]:
        kind = "FILE" if path.is_file() else "DIRECTORY"
        size = path.stat().st_size if path.is_file() else 0
        return {"name": path.name, "path": f"{arguments['path']}/{path.name}", "type": kind, "size": size}

    def _search(self, arguments: dict[str, Any]) -> dict[str, Any]:
        prefix = arguments["path_prefix"]
        base = self.root / self.tenant / arguments["project"]
        chunks: list[dict[str, Any]] = []
        for path in sorted(base.rglob("*")):
            name = "/" + path.relative_to(base).as_posix()
            text = path.read_text() if path.is_file() and name.startswith(prefix) else ""
            if arguments["query"] in text:
                chunks.append({
                    "file_path": name, "file_seek_start_bytes": 0, "file_seek_end_bytes": len(text),
                    "chunk_content": text, "score": 1.0,
                })  # fmt: skip
        return {"chunks": chunks[: arguments["limit"]]}

    def _delete(self, arguments: dict[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        if place.is_file():
            place.unlink()
            return {"deleted_count": 1}
        if not place.is_dir():
            raise Refused("NOT_FOUND")
        inside = sorted(place.rglob("*"), reverse=True)
        if inside and not arguments["recursive"]:
            raise Refused("NOT_EMPTY")
        for path in (*inside, place):
            path.unlink() if path.is_file() else path.rmdir()
        return {"deleted_count": len(inside) + 1}


def mcp_server(files: FileServer) -> Server[Any]:
    """Return an MCP server with the six tools over `files`."""

    async def call(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            found, is_error = files.answer(params.name, params.arguments or {}), False
        except Refused as refused:
            found = {"code": refused.code, "message": "SECRET-OF-THE-SERVER", "retryable": refused.retryable}
            is_error = True
        except TimeoutError:
            await asyncio.Event().wait()
            raise
        return CallToolResult(content=[TextContent(type="text", text=json.dumps(found))], is_error=is_error)

    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=name, input_schema={"type": "object"}) for name in TOOLS])

    return Server("files", on_call_tool=call, on_list_tools=listed)


@dataclass
class Serving:
    """A server on its own port, and its files."""

    files: FileServer
    port: int
    keys: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


@contextlib.asynccontextmanager
async def serving(files: FileServer, *, keys: dict[str, str] | None = None, port: int = 0) -> AsyncGenerator[Serving]:
    """Serve `files` during the block; with `keys`, each opens the files of its tenant, and no other is known."""
    app = mcp_server(files).streamable_http_app(max_request_body_size=8_000_000)
    known = keys if keys is not None else {}

    async def dispatch(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if keys is not None and key not in known:
            return PlainTextResponse("no", status_code=401)
        files.tenant = known.get(key, "everyone")
        return await call_next(request)

    from starlette.middleware.base import BaseHTTPMiddleware

    app.add_middleware(BaseHTTPMiddleware, dispatch=dispatch)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0, ws="none")
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield Serving(files, listening.getsockname()[1], known)
    finally:
        server.should_exit = True
        server.force_exit = True
        await task


async def serve_over_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    """Serve a folder over stdio, or over HTTP on a port: `mcp_file_server.py FOLDER [PORT]`.

    If the folder contains a file `die`, the server ends in the next append to a log, after the number of bytes in it.
    """
    files = FileServer(Path(sys.argv[1]))
    if len(sys.argv) == 2:
        asyncio.run(serve_over_stdio(mcp_server(files)))
    else:
        answer = files.answer

        def dying(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            die = files.root / "die"
            if die.exists() and tool == "file_write" and "/spaces/" in arguments["path"]:
                files.faults.append(Fault(tool, torn_at=int(die.read_text()), crash=True))
                die.unlink()
            return answer(tool, arguments)

        files.answer = dying

        async def serve() -> None:
            async with serving(files, port=int(sys.argv[2])) as server:
                print(server.port, flush=True)
                await asyncio.Event().wait()

        asyncio.run(serve())


if __name__ == "__main__":
    main()
