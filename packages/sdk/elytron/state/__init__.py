"""State of a runtime between calls."""
