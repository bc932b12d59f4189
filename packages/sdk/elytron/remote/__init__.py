"""Memories on a server."""

from elytron.remote.connection import Connecting, connect
from elytron.remote.memory import RemoteMemory, SyncRemoteMemory

__all__ = ["Connecting", "RemoteMemory", "SyncRemoteMemory", "connect"]
