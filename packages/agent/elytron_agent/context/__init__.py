"""What a model is given in a run: the parts of its context, their sizes, and how old turns become summaries."""
