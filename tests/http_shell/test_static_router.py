"""The shortcut to a route matches the router, and leaves other paths to it."""

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, Router
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from elytron_http_shell.application import DirectRouter


def answering(name: str):
    async def endpoint(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{name} {dict(request.path_params)} {request.scope['route'].path}")

    return endpoint


class AnyMethod:
    """An endpoint of every method."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(f"any {scope['method']}")(scope, receive, send)


ROUTES = [
    Route("/tea", answering("tea"), methods=["GET"]),
    Route("/tea", answering("pour"), methods=["POST"]),
    Route("/tea", answering("never"), methods=["POST"]),
    Route("/{drink}/cup", answering("cup"), methods=["GET"]),
    Route("/milk/cup", answering("shadowed"), methods=["GET"]),
    Mount("/bar", routes=[Route("/beer", answering("beer"))]),
    Route("/bar/wine", answering("beyond"), methods=["GET"]),
    Route("/any", AnyMethod()),
    Route("/any", answering("covered"), methods=["POST"]),
    Route("/last", answering("last"), methods=["GET"]),
]


@pytest.mark.parametrize("root", ["", "/under"])
@pytest.mark.parametrize(
    "asked",
    [
        ("GET", "/tea"),
        ("HEAD", "/tea"),
        ("POST", "/tea"),
        ("DELETE", "/tea"),
        ("GET", "/tea/"),
        ("GET", "/milk/cup"),
        ("GET", "/bar/beer"),
        ("GET", "/bar/wine"),
        ("GET", "/any"),
        ("POST", "/any"),
        ("GET", "/last"),
        ("GET", "/nothing"),
    ],
)
def test_every_request_is_routed_like_by_the_plain_router(asked: tuple[str, str], root: str) -> None:
    method, path = asked
    plain = TestClient(Router(ROUTES), root_path=root, follow_redirects=False)
    short = TestClient(DirectRouter(Router(ROUTES), routes=ROUTES), root_path=root, follow_redirects=False)
    expected, found = plain.request(method, root + path), short.request(method, root + path)
    assert (found.status_code, found.text, found.headers) == (expected.status_code, expected.text, expected.headers)
