"""The maintenance passes."""

__all__: list[str] = []
