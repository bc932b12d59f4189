"""MCP over streamable HTTP as a surface of a server."""

from collections.abc import Iterable
from typing import Final

from elytron_adapter.entry import Entrance
from elytron_adapter.surface import Access, Family, JsonBody, Surface, Told
from elytron_mcp_shell.app import mcp_app
from elytron_mcp_shell.messages import require_message
from elytron_mcp_shell.tools.tool_sets import DEFAULT_SETS, ToolSet

_PATH: Final = "/mcp"
_JSON: Final = "application/json"
_TOLD: Final = Told(
    "mcp",
    "Speak MCP over streamable HTTP.",
    _JSON,
    _JSON,
    answer="The protocol's answer.",
    group="protocols",
    beside=(202, 400, 406),
)


def mcp_surfaces(sets: frozenset[ToolSet] = DEFAULT_SETS, /, *, is_private: bool = False) -> Family:
    """Return the family that speaks MCP over streamable HTTP, with the tools of `sets`."""

    def family(entrance: Entrance) -> Iterable[Surface]:
        served = mcp_app(entrance, sets=sets, is_private=is_private)
        body = JsonBody(entrance.dispatcher.runtime.context.profile.budget.http_body_bytes, require_message)
        # No session is kept: there is none to listen to (GET) or to end (DELETE), and the protocol lets both be 405.
        return (Surface(_PATH, served.app, Access.MEMBER, ("POST",), running=served.running, told=_TOLD, body=body),)

    return family
