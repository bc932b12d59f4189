"""A2A as surfaces of a server: the card, JSON-RPC, and the plain route for one message."""

from collections.abc import Iterable
from typing import Final

from elytron_a2a_shell.app import CARD_PATH, MESSAGE_PATH, RPC_PATH, a2a_app
from elytron_a2a_shell.messages import PeerAnswer, PeerMessage
from elytron_adapter.entry import Entrance
from elytron_adapter.surface import Access, Family, Surface, Told

_GROUP: Final = "protocols"
_JSON: Final = "application/json"
_CARD: Final = Told("agent_card", "Show the agent card.", headers=("If-None-Match",), answer="The card.", group=_GROUP)
_RPC: Final = Told("a2a", "Speak A2A over JSON-RPC.", _JSON, _JSON, answer="The protocol's answer.", group=_GROUP)
_MESSAGE: Final = Told(
    "a2a_message", "Answer one message of a peer.", PeerMessage, PeerAnswer, ("Idempotency-Key",), group=_GROUP
)


def a2a_surfaces(address: str | None, /) -> Family:
    """Return the family that speaks A2A; its card names `address`, or the host that it was asked at."""

    def family(entrance: Entrance) -> Iterable[Surface]:
        served = a2a_app(entrance, address=address)
        return (
            Surface(CARD_PATH, served.card, Access.PUBLIC, ("GET",), running=served.running, told=_CARD),
            Surface(RPC_PATH, served.rpc, Access.MEMBER, ("POST",), told=_RPC),
            Surface(MESSAGE_PATH, served.message, Access.MEMBER, ("POST",), told=_MESSAGE),
        )

    return family
