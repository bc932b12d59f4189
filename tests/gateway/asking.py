"""A user's messages and searches, as the API reference writes them."""

from typing import Any

from elytron_gateway import wire
from elytron_gateway.service import MemoryGateway

AT = 1_781_172_177_000
CHAT = "chat:c_456"


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"sender_id": "ada", "role": "user", "timestamp": AT, "content": [{"type": "text", "text": text}]} | more


def add(who: dict[str, str], *texts: str, session: str = CHAT, **more: Any) -> wire.GatewayAddRequest:
    return wire.GatewayAddRequest.model_validate(
        {**who, "session_id": session, "messages": [said(text) for text in texts], **more}
    )


async def texts(gateway: MemoryGateway, who: dict[str, str], query: str, **more: Any) -> list[str]:
    answer = await gateway.search(wire.GatewaySearchRequest.model_validate({**who, "query": query, **more}))
    return [result.text for result in answer.results]
