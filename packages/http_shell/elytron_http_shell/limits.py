"""Bounds of what the server says of itself, and of what ends it."""

from typing import Final

OPENAPI_BYTES: Final = 150 * 1024
"""Bytes of the description that clients are generated from."""
SHUTDOWN_BODY_BYTES: Final = 16_384
"""Bytes of a request that ends the server."""
