"""The page `/agent`: one file without a build, which loads nothing from anywhere else. Its key stays in its tab."""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter.http.responses import shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_agent.service.agent_service import AgentService

_PATH: Final = "/agent"
_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)
_DESCRIPTION: Final = SurfaceDescription(
    "agent_page",
    "The page on which a user talks with the agent.",
    None,
    "text/html",
    ("If-None-Match",),
    answer="The page.",
    group="pages",
)


def page_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the page. It is public, and what it shows is not."""
    body = service.settings.page if service.settings.page is not None else _usual_page()
    etag, policy = f'"{hashlib.sha256(body).hexdigest()[:32]}"', page_policy(body)

    async def page(request: Request) -> Response:
        service.settings.require_on()
        headers = {
            "ETag": etag,
            "Content-Security-Policy": policy,
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
        }
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)

    yield shown_surface(_PATH, page, access=SurfaceAccess.PUBLIC, methods=("GET",), told=_DESCRIPTION)


@cache
def _usual_page() -> bytes:
    return (files("elytron_agent.service.page") / "chat_page.html").read_bytes()


def page_policy(body: bytes, /) -> str:
    """Return the policy that lets the page's own scripts and styles run, by their digests, and nothing else."""
    allowed = {"script": ["'none'"], "style": ["'none'"]}
    for kind, inner in _INLINE.findall(body):
        digest = base64.b64encode(hashlib.sha256(inner).digest()).decode()
        allowed[kind.decode()] = [*filter("'none'".__ne__, allowed[kind.decode()]), f"'sha256-{digest}'"]
    return (
        f"default-src 'none'; script-src {' '.join(allowed['script'])}; style-src {' '.join(allowed['style'])};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
