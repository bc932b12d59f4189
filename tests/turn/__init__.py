"""The turn: requests within a window."""
