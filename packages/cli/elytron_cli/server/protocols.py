"""MCP and A2A as families of a server's surfaces, where their extras are installed."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from elytron.capabilities import catalog_of
from elytron_a2a_shell import PeerAnswer, PeerMessage, a2a_app
from elytron_a2a_shell.app import CARD_PATH, MESSAGE_PATH, RPC_PATH
from elytron_core.contracts.admin.platform import Capability
from elytron_core.errors import Unsupported
from elytron_mcp_shell import ToolSet, mcp_app, require_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elytron.context import OperationContext
    from elytron_adapter.entry import Entrance
    from elytron_http_shell.doors import Surface
    from elytron_http_shell.routes import Family
    from elytron_proxy import ProxySettings

MCP_PATH = "/mcp"
LLM_PATH = "/llm"
_GROUP = "protocols"
_JSON = "application/json"


def allows(context: "OperationContext", entry: str, /) -> bool:
    """Tell whether the profile of a memory allows `entry`, by the catalog's name, and lets private material through."""
    found: Capability = getattr(catalog_of(context).entry, entry)
    return found.profile_allows and found.privacy_permits


def require_entry(context: "OperationContext", entry: str, /) -> None:
    """Raise Unsupported where the profile of a memory does not allow `entry`."""
    if not allows(context, entry):
        name = context.profile.name.value
        raise Unsupported(f"the profile {name} has no {entry}: take another profile, or open the memory in process")


def speaks_mcp() -> bool:
    """Tell whether the extra "mcp" is installed."""
    return find_spec("mcp") is not None


def speaks_a2a() -> bool:
    """Tell whether the extra "a2a" is installed."""
    return find_spec("a2a") is not None


def mcp_surfaces(sets: frozenset[ToolSet], /, *, is_private: bool = False) -> "Family":
    """Return the family that speaks MCP over streamable HTTP, with the tools of `sets`."""
    from elytron_http_shell.doors import Access, Surface, Told
    from elytron_http_shell.request.bodies import strictly

    def family(entrance: "Entrance") -> "Iterable[Surface]":
        served = mcp_app(entrance, sets=sets, is_private=is_private)
        limit = entrance.dispatcher.runtime.context.profile.budget.http_body_bytes
        app = strictly(served.app, limit=limit, require=require_message)
        told = Told(
            "mcp",
            "Speak MCP over streamable HTTP.",
            _JSON,
            _JSON,
            answer="The protocol's answer.",
            group=_GROUP,
            beside=(202, 400, 406),
        )
        # No session is kept: there is none to listen to (GET) or to end (DELETE), and the protocol lets both be 405.
        return (Surface(MCP_PATH, app, Access.MEMBER, ("POST",), running=served.running, told=told),)

    return family


def a2a_surfaces(address: str | None, /) -> "Family":
    """Return the family that speaks A2A; its card names `address`, or the host that it was asked at."""
    from elytron_http_shell.doors import Access, Surface, Told

    def family(entrance: "Entrance") -> "Iterable[Surface]":
        served = a2a_app(entrance, address=address)
        card = Told("agent_card", "Show the agent card.", headers=("If-None-Match",), answer="The card.", group=_GROUP)
        rpc = Told("a2a", "Speak A2A over JSON-RPC.", _JSON, _JSON, answer="The protocol's answer.", group=_GROUP)
        headers = ("Idempotency-Key",)
        message = Told("a2a_message", "Answer one message of a peer.", PeerMessage, PeerAnswer, headers, group=_GROUP)
        return (
            Surface(CARD_PATH, served.card, Access.PUBLIC, ("GET",), running=served.running, told=card),
            Surface(RPC_PATH, served.rpc, Access.MEMBER, ("POST",), told=rpc),
            Surface(MESSAGE_PATH, served.message, Access.MEMBER, ("POST",), told=message),
        )

    return family


def llm_surfaces(settings: "ProxySettings", /) -> "Family":
    """Return the family that shows model APIs with memory; the proxy itself asks who calls, in each API's own shape."""
    from elytron_http_shell.doors import Access, Kind, Surface
    from elytron_proxy import ProxyApp

    def family(entrance: "Entrance") -> "Iterable[Surface]":
        app = ProxyApp(entrance, settings)
        return (
            Surface(
                LLM_PATH,
                app,
                Access.CREDENTIALS,
                kind=Kind.MOUNT,
                running=app.running,
                is_repeatable=True,
                figures=app.figures.shown,
            ),
        )

    return family
