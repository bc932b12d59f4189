"""Context of a model in a run: its parts, their sizes, and how old turns become summaries."""
