"""The block, its sections and its items."""
