"""Bounds of what the server says of itself."""

from typing import Final

OPENAPI_BYTES: Final = 150_000
"""Bytes of the description that clients are generated from."""
