"""The loop of an agent: steps of a run, its documents, its tools and its events."""
