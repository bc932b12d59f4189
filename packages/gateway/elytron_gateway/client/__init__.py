"""The gateway's client, async and blocking: one attempt per call, and no key in any error."""

from elytron_gateway.client.clients import CallFailure, MemoryGatewayClient, NoAnswer, SyncMemoryGatewayClient

__all__ = ["CallFailure", "MemoryGatewayClient", "NoAnswer", "SyncMemoryGatewayClient"]
