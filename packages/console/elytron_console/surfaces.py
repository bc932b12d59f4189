"""The console's surfaces: its page and assets, under a strict content security policy, and its routes."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import CallTransport
from elytron_adapter.http.responses import answered_by, cached_response, request_app
from elytron_adapter.surface import Family, Route, Surface, SurfaceAccess, SurfaceProtocol, build_surfaces, own_app
from elytron_console.console_host import ConsoleHost
from elytron_console.routes.console_calls import ConsoleService
from elytron_console.routes.member_routes import MEMBER_ROUTES, SKILL_ROUTES, agent_page_routes
from elytron_console.routes.memory_routes import MEMORY_ROUTES
from elytron_console.routes.operator_routes import OPERATOR_ROUTES
from elytron_console.sessions import ROOT

_TRANSPORT: Final = CallTransport.CONSOLE.value
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
    """Return the page and its assets. They are public: stored data is behind the routes that they call."""
    public_access = SurfaceAccess.PUBLIC
    pages = (
        Route("GET", ROOT, _index_page, "console", "Serve the console.", None, "text/html", public_access,
              headers=("If-None-Match",), outcome="The page."),
        Route("GET", f"{ROOT}/", _slash_page, "console_home", "Redirect to the console.", access=public_access,
              status=307, outcome="Redirects to the console."),
    )  # fmt: skip
    route_parts = Route(
        "GET", f"{ROOT}/static", _static_app, "console_static", "Serve the parts of the console.", access=public_access,
        protocol=SurfaceProtocol.MOUNT,
    )  # fmt: skip
    return (
        *build_surfaces(pages, request_app, group="pages", transport=_TRANSPORT),
        *build_surfaces((route_parts,), own_app, transport=_TRANSPORT),
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
    is_static_asset = scope["method"] in {"GET", "HEAD"} and name in static_assets() and name != _INDEX
    answer = _asset_response(name, Headers(scope=scope)) if is_static_asset else Response(status_code=404)
    await answer(scope, receive, send)


def _asset_response(name: str, headers: Headers) -> Response:
    return cached_response(headers, static_assets()[name], media_type=_TYPES[_file_ending(name)], more=_HEADERS)


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

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        agents = tuple(console_host.agents(admission)) if console_host.agents is not None else ()
        console_service = ConsoleService(admission, console_host, has_agents=bool(agents))
        routes = (*MEMBER_ROUTES, *MEMORY_ROUTES, *SKILL_ROUTES, *agent_page_routes(agents), *OPERATOR_ROUTES)
        return (
            *page_surfaces(),
            *build_surfaces(
                routes,
                answered_by(console_service.answer),
                group="console",
                transport=_TRANSPORT,
                credential=console_service.guard.sessions.credential,
            ),
        )

    return family
