"""A2A as applications of a server: the card that agents find, JSON-RPC, and the plain route for one message."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from elytron_a2a_shell.peers import PeerAnswer, PeerBridge, PeerMessage, PeerUploads
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import CallTransport
from elytron_adapter.surface import Family, Route, Surface, SurfaceAccess, build_surfaces, own_app
from elytron_core.errors import MissingExtra

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as AsgiScope


CARD_PATH = "/.well-known/agent-card.json"
RPC_PATH = "/a2a"
MESSAGE_PATH = "/a2a/message"


@dataclass(frozen=True, slots=True)
class A2aApp:
    """The applications at `CARD_PATH`, `RPC_PATH` and `MESSAGE_PATH`. `running` is entered while they are served.

    The card is public; the others answer the principal in the scope's state.
    """

    card: "ASGIApp"
    rpc: "ASGIApp"
    message: "ASGIApp"
    running: Callable[[], AbstractAsyncContextManager[None]]


def a2a_app(admission: CallerAdmission, /, *, address: str | None = None, body_bytes: int | None = None) -> A2aApp:
    """Return the applications that answer from `admission`.

    `address` is the server's as others reach it; without it, the card names the host that it was asked at. Bodies are
    cut off at `body_bytes`, else at what the memory's profile takes. Host and origin are for the server around it to
    judge. Raises MissingExtra without the extra "a2a".
    """
    if find_spec("a2a") is None:
        raise MissingExtra(extra="a2a", purpose="speaking A2A")
    context = admission.dispatcher.runtime.context
    if body_bytes is None:
        body_bytes = context.profile.budget.http_body_bytes
    uploads = PeerUploads(clock=context.clock, ids=context.ids)
    bridge = PeerBridge(admission, uploads=uploads)

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        with uploads.temporary_folder():
            yield

    def card() -> "ASGIApp":
        from elytron_a2a_shell.server import card_app

        return card_app(address=address, rpc_path=RPC_PATH, card_path=CARD_PATH)

    def rpc() -> "ASGIApp":
        from elytron_a2a_shell.server import rpc_app

        return rpc_app(bridge, ids=context.ids, body_bytes=body_bytes, rpc_path=RPC_PATH)

    def message() -> "ASGIApp":
        from elytron_a2a_shell.server import message_app

        return message_app(bridge, ids=context.ids, body_bytes=body_bytes)

    return A2aApp(card=_late_app(card), rpc=_late_app(rpc), message=_late_app(message), running=running)


def _late_app(build: Callable[[], "ASGIApp"]) -> "ASGIApp":
    """Return an application built on its first request: the SDK is loaded then, and no server waits for it."""
    built: ASGIApp | None = None

    async def app(scope: "AsgiScope", receive: "Receive", send: "Send") -> None:
        nonlocal built
        if built is None:
            await asyncio.to_thread(import_module, "elytron_a2a_shell.server")
            # Several first requests may wait for the import, and one of them builds.
            built = built or build()
        await built(scope, receive, send)

    return app


_JSON: Final = "application/json"


def a2a_surfaces(address: str | None, /) -> Family:
    """Return the family that speaks A2A; its card names `address`, or the host of the request."""

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        peer_app = a2a_app(admission, address=address)
        routes = (
            Route("GET", CARD_PATH, peer_app.card, "agent_card", "Return the agent card.", access=SurfaceAccess.PUBLIC,
                  headers=("If-None-Match",), outcome="The agent card."),
            Route("POST", RPC_PATH, peer_app.rpc, "a2a", "Send an A2A message over JSON-RPC.", _JSON, _JSON,
                  outcome="The protocol's response."),
            Route("POST", MESSAGE_PATH, peer_app.message, "a2a_message", "Answer one message from a peer.", PeerMessage,
                  PeerAnswer, headers=("Idempotency-Key",)),
        )  # fmt: skip
        return build_surfaces(
            routes, own_app, group="protocols", transport=CallTransport.A2A.value, running=peer_app.running
        )

    return family
