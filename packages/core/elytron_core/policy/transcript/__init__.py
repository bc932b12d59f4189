"""States and views of a turn."""
