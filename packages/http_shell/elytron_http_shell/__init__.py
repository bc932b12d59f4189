"""One ASGI application over the registry of operations."""

from elytron_http_shell.server import create_app

__all__ = ["create_app"]
