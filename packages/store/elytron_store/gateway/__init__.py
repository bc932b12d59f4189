"""The store port over HTTP: a space, or a whole store, on an Elytron server."""

from elytron_store.gateway.store import GatewayStore

__all__ = ["GatewayStore"]
