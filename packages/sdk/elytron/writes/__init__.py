"""Writes of each plane as one batch."""

__all__: list[str] = []
