"""Use cases made of several operations."""

__all__: list[str] = []
