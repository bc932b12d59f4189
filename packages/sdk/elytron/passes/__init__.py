"""The parts of maintenance, each in a module of its own, and the order in which they run."""

__all__: list[str] = []
