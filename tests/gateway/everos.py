"""A server with EverOS's contract: paths, envelopes, and errors, with memories in a list."""

import asyncio
import socket
from dataclasses import dataclass, field
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Json = dict[str, Any]


@dataclass
class EverOs:
    """State of the server in one test. While `refusing` is set, every call gets that status, with its code.

    `rubbish` replaces an answer. While `holding`, the server accepts messages and does not answer; `reached` is set by
    then. Repeats under one idempotency key are accepted once. A search is answered when `together` of them have
    arrived.
    """

    buffered: list[Json] = field(default_factory=list[Json])
    episodes: list[Json] = field(default_factory=list[Json])
    refusing: tuple[int, str] | None = None
    rubbish: bytes | None = None
    reads_no_files: int | None = None
    answering: int | None = None
    """Number of calls answered before it refuses."""
    holding: bool = False
    together: int = 0
    reached: Event = field(default_factory=Event)
    keys: list[str] = field(default_factory=list[str])
    calls: list[str] = field(default_factory=list[str])
    url: str = ""

    async def health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"}, status_code=200 if self.refusing is None else 503)

    async def add(self, request: Request) -> Response:
        if (refused := self._refused("add")) is not None:
            return refused
        body: Json = await request.json()
        if self.reads_no_files is not None and any(isinstance(one["content"], list) for one in body["messages"]):
            return JSONResponse({"error": {"code": "UNSUPPORTED_FORMAT"}}, status_code=self.reads_no_files)
        key = request.headers.get("idempotency-key", "")
        messages: list[Json] = [] if key in self.keys else body["messages"]
        self.keys.append(key)
        for message in messages:
            self.buffered.append(message | {name: body[name] for name in ("session_id", "app_id", "project_id")})
        self.reached.set()
        while self.holding:
            await asyncio.sleep(0.01)
        return _told({"message_count": len(body["messages"]), "status": "accumulated"})

    async def flush(self, request: Request) -> Response:
        if (refused := self._refused("flush")) is not None:
            return refused
        body: Json = await request.json()
        mine = [one for one in self.buffered if one["session_id"] == body["session_id"]]
        self.buffered = [one for one in self.buffered if one not in mine]
        if mine:
            owner = body["session_id"].partition("~")[0]
            text = " ".join(str(one["content"]) for one in mine)
            known = {"id": f"{owner}_ep_{len(self.episodes)}", "user_id": owner, "episode": text, "summary": text[:50]}
            self.episodes.append(known | {name: body[name] for name in ("session_id", "app_id", "project_id")})
        return _told({"status": "extracted" if mine else "no_extraction"})

    async def search(self, request: Request) -> Response:
        if (refused := self._refused("search")) is not None:
            return refused
        while self.calls.count("search") < self.together:
            await asyncio.sleep(0.01)
        body: Json = await request.json()
        filters: Json = body.get("filters") or {}
        wanted: Any = filters.get("session_id")
        names = list(wanted["in"]) if isinstance(wanted, dict) else [wanted]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        words = set(body["query"].lower().split())

        def passes(item: Json) -> bool:
            return wanted is None or item["session_id"] in names

        found: list[Json] = [
            item | {"score": 1.0, "atomic_facts": []}
            for item in self.episodes
            if item["user_id"] == body["user_id"] and passes(item) and words & set(item["episode"].lower().split())
        ]
        waiting = [item | {"id": "m_1"} for item in self.buffered if item["session_id"] == wanted]
        return _told({"episodes": found, "profiles": [], "unprocessed_messages": waiting})

    def _refused(self, call: str) -> Response | None:
        self.calls.append(call)
        if self.rubbish is not None:
            return Response(self.rubbish, media_type="text/html")
        if self.answering is not None:
            self.answering -= 1
        if self.refusing is None or (self.answering is not None and self.answering >= 0):
            return None
        status, code = self.refusing
        return JSONResponse({"request_id": "0" * 32, "error": {"code": code, "message": "said"}}, status_code=status)


class EverOsServer:
    """Serves `current`, the state of one test, during the block."""

    def __init__(self) -> None:
        self.current = EverOs()

    def begin(self) -> EverOs:
        """Return a state without memories, and serve it from now on."""
        self.current = EverOs(url=self.url)
        return self.current

    def __enter__(self) -> Self:
        app = Starlette(
            routes=[
                Route("/{call}", self._answer, methods=["GET"]),
                Route("/api/v2/memory/{call}", self._answer, methods=["POST"]),
            ]
        )
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self._thread = Thread(target=lambda: asyncio.run(self._server.serve(sockets=[listening])), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=100)
        assert not self._thread.is_alive()

    async def _answer(self, request: Request) -> Response:
        now = self.current
        calls = {"health": now.health, "add": now.add, "flush": now.flush, "search": now.search}
        return await calls[request.path_params["call"]](request)


def _told(data: Json) -> Response:
    return JSONResponse({"request_id": "0" * 32, "data": data})
