"""Memories on a server."""

from elytron.remote.memory import RemoteConnecting, RemoteMemory, SyncRemoteMemory, connect

__all__ = ["RemoteConnecting", "RemoteMemory", "SyncRemoteMemory", "connect"]
