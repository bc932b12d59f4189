"""The calls by the names that users of mem0 know."""
