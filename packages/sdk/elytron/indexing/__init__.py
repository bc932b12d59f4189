"""Each space's index, kept in step with its journal."""
