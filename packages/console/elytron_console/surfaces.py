"""The console's surfaces: its page and assets, under a strict content security policy, and its routes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import CallTransport
from elytron_adapter.http.responses import shown_surface
from elytron_adapter.surface import Family, Surface, SurfaceAccess, SurfaceDescription, SurfaceProtocol
from elytron_console.host import ConsoleHost
from elytron_console.journal import JournalReader
from elytron_console.routes.member_routes import (
    agent_page_surfaces,
    journal_surfaces,
    operation_surfaces,
    path_surfaces,
    session_surfaces,
    skill_surfaces,
)
from elytron_console.routes.memory_routes import ego_graph_surface, erasure_surface, transfer_surfaces
from elytron_console.routes.operator_routes import device_surfaces, server_surfaces, smoke_surfaces, spending_surfaces
from elytron_console.sessions import ROOT, ConsoleEndpoint

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_INDEX: Final = "index.html"


def page_surfaces() -> tuple[Surface, ...]:
    """Return the page and its parts. They are public: what is stored is behind the routes that they ask."""
    page = SurfaceDescription(
        "console", "Serve the console.", given="text/html", headers=("If-None-Match",), answer="The page.",
        group="pages",
    )  # fmt: skip
    home = SurfaceDescription(
        "console_home", "Redirect to the console.", status=307, answer="Redirects to the console.", group="pages"
    )
    return (
        shown_surface(ROOT, _index_page, access=SurfaceAccess.PUBLIC, methods=("GET",), description=page),
        shown_surface(f"{ROOT}/", _slash_page, access=SurfaceAccess.PUBLIC, methods=("GET",), description=home),
        Surface(f"{ROOT}/static", _static_app, SurfaceAccess.PUBLIC, kind=SurfaceProtocol.MOUNT),
    )


async def _index_page(request: Request) -> Response:
    return _asset_response(_INDEX, request.headers)


async def _slash_page(_request: Request) -> Response:
    return RedirectResponse(ROOT)


async def _static_app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1008, "reason": "the console has no WebSocket"})
        return
    name = scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")
    is_there = scope["method"] in {"GET", "HEAD"} and name in static_assets() and name != _INDEX
    answer = _asset_response(name, Headers(scope=scope)) if is_there else Response(status_code=404)
    await answer(scope, receive, send)


def _asset_response(name: str, headers: Headers) -> Response:
    """Return a part under its ETag, or 304 for a caller that has it."""
    body = static_assets()[name]
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    headers_sent = {**_HEADERS, "ETag": etag}
    if headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers_sent)
    return Response(body, media_type=_TYPES[_file_ending(name)], headers=headers_sent)


@cache
def static_assets() -> Mapping[str, bytes]:
    """Return every part of the page by its path below the folder of the parts."""
    return dict(_assets_below(files("elytron_console") / "static", ""))


def _assets_below(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    assets: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            assets += _assets_below(entry, f"{prefix}{entry.name}/")
        elif _file_ending(entry.name) in _TYPES:
            assets.append((f"{prefix}{entry.name}", entry.read_bytes()))
    return assets


def _file_ending(name: str) -> str:
    return f".{name.rpartition('.')[2]}"


def console_surfaces(host: ConsoleHost | None = None, /) -> Family:
    """Return the family that shows the console of `host`."""
    console_host = host or ConsoleHost()

    def family(entrance: CallerAdmission) -> Iterable[Surface]:
        keys = entrance.keys
        door, journal = ConsoleEndpoint(entrance), JournalReader(entrance, keys)
        agents = tuple(console_host.agents(entrance)) if console_host.agents is not None else ()
        surfaces = (
            *page_surfaces(),
            *session_surfaces(entrance, door, keys, has_agents=bool(agents)),
            *path_surfaces(entrance, door),
            *operation_surfaces(entrance, door),
            *journal_surfaces(door, journal),
            erasure_surface(entrance, door),
            ego_graph_surface(entrance, door),
            *transfer_surfaces(entrance, door, journal),
            *skill_surfaces(entrance, door),
            *agent_page_surfaces(door, journal, agents),
            *spending_surfaces(entrance, door, journal),
            *server_surfaces(entrance, door, console_host, keys, journal),
            *smoke_surfaces(entrance, door, console_host),
            *device_surfaces(door, keys),
        )
        return tuple(replace(surface, transport=CallTransport.CONSOLE.value) for surface in surfaces)

    return family
