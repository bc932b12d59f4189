"""The registry of operations and the way from an envelope to a response, for every transport."""

__all__: list[str] = []
