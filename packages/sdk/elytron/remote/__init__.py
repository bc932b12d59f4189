"""Memories on a server."""

from elytron.remote.connection import RemoteConnecting, connect
from elytron.remote.memory import RemoteMemory, SyncRemoteMemory

__all__ = ["RemoteConnecting", "RemoteMemory", "SyncRemoteMemory", "connect"]
