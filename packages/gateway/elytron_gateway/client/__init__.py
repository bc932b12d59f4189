"""The gateway's client, async and blocking: one attempt per call, no key in any error."""

from elytron_gateway.client.clients import Failure, MemoryGatewayClient, NoAnswer, SyncMemoryGatewayClient

__all__ = ["Failure", "MemoryGatewayClient", "NoAnswer", "SyncMemoryGatewayClient"]
