"""The way to a route whose path has no parts that vary: one look, where a list of routes is asked one by one."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send


class Direct:
    """Stands before a router of `routes` and goes where it would go, by method and path; the rest is the router's.

    So the router itself answers for a path that is known under other methods only, or that is below a mount.
    """

    def __init__(self, app: ASGIApp, /, *, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes: dict[tuple[str, str], Route] = {}
        for place, route in enumerate(routes):
            if isinstance(route, Route) and not route.param_convertors:
                for method in route.methods or ():
                    if not any(_takes(earlier, method, route.path) for earlier in routes[:place]):
                        self._routes[method, route.path] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None
        if scope["type"] == "http" and not scope.get("root_path"):
            route = self._routes.get((scope["method"], scope["path"]))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope.update(route=route, endpoint=route.endpoint, path_params={})
        await route.app(scope, receive, send)


def _takes(route: BaseRoute, method: str, path: str) -> bool:
    match, _ = route.matches({"type": "http", "method": method, "path": path, "root_path": "", "headers": []})
    return match is Match.FULL
