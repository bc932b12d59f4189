"""The agent card: what other agents read before they speak to this memory. Here the SDK is imported."""

from importlib.metadata import version

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0

from elytron_a2a_shell.messages import SUMMARIES

JSON = "application/json"
TEXT = "text/plain"


def agent_card(rpc_url: str, /) -> AgentCard:
    """Return the card of a memory that answers JSON-RPC at `rpc_url`: a skill for each message.

    Clients of 0.3 look for what they know at the places of their version, which the SDK adds for its interface.
    """
    skills = [
        AgentSkill(id=name, name=name.replace("_", " "), description=summary, tags=["memory"], input_modes=[JSON])
        for name, summary in SUMMARIES.items()
    ]
    bearer = HTTPAuthSecurityScheme(scheme="bearer", description="An access key: ely_<kind>_<id>_<secret>.")
    return AgentCard(
        name="Elytron memory",
        description=(
            "A governed memory for agents: recalls and projects what was said, and judges what is proposed."
            " Send one data part {name, payload, hops}; a text part alone is a recall."
        ),
        version=version("elytron"),
        supported_interfaces=[
            AgentInterface(url=rpc_url, protocol_binding="JSONRPC", protocol_version=spoken)
            for spoken in (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
        ],
        capabilities=AgentCapabilities(streaming=False, push_notifications=False),
        security_schemes={"bearer": SecurityScheme(http_auth_security_scheme=bearer)},
        security_requirements=[SecurityRequirement(schemes={"bearer": StringList()})],
        default_input_modes=[JSON, TEXT],
        default_output_modes=[JSON],
        skills=skills,
    )
