"""Turn hooks: memory around a host's own loop, recalled before each answer and kept after it."""
