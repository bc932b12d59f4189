"""Commands of a conversation."""
