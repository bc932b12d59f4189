"""The file engine: durable, shared by processes, nothing but a folder."""

from elytron_store.file.store import FileStore

__all__ = ["FileStore"]
