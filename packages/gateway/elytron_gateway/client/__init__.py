"""The gateway's client, async and blocking, and a host's memory over it: one attempt per call, no key in any error."""

from elytron_gateway.client.clients import Failure, MemoryGatewayClient, NoAnswer, SyncMemoryGatewayClient
from elytron_gateway.client.runs import (
    Ending,
    Exchange,
    GatewayPlace,
    GatewayRuns,
    Recalled,
    RunEvent,
    RunEventKind,
    RunMemory,
)

__all__ = [
    "Ending",
    "Exchange",
    "Failure",
    "GatewayPlace",
    "GatewayRuns",
    "MemoryGatewayClient",
    "NoAnswer",
    "Recalled",
    "RunEvent",
    "RunEventKind",
    "RunMemory",
    "SyncMemoryGatewayClient",
]
