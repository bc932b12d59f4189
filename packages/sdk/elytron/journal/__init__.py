"""A space's journal followed, announced, fingerprinted and verified."""
