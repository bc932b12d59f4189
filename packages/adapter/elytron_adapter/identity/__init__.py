"""Who calls: principals, keys, and the limit on wrong keys."""
