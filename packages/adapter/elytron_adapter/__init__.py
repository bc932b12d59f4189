"""The registry of operations, and the path from an envelope to a response that every transport shares."""

__all__: list[str] = []
