"""The gateway's client, async and blocking: one attempt per call, typed answers, and no key in any error."""

from elytron_gateway.client.clients import MemoryGatewayClient, SyncMemoryGatewayClient

__all__ = ["MemoryGatewayClient", "SyncMemoryGatewayClient"]
