"""Memories on a server."""

from elytron.remote.connecting import Connecting, connect
from elytron.remote.memory import RemoteMemory, SyncRemoteMemory

__all__ = ["Connecting", "RemoteMemory", "SyncRemoteMemory", "connect"]
