"""The agent loop: the steps of a run, its stored documents, its tools and its events."""
