"""Turn hooks: recall before each answer of a host's own loop, and store the turn afterwards."""
