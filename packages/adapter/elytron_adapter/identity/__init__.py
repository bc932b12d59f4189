"""Identity of callers: principals, keys, and the limit on wrong keys."""
