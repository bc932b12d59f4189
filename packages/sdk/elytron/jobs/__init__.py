"""The durable queue, and budgeted calls of a model."""
