"""The maintenance passes, one module each, and their order."""

__all__: list[str] = []
