"""Whether something may become a belief, and on whose word."""
