"""The calls of a memory, one face per family."""
