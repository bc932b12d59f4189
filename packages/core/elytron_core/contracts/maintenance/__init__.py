"""Maintenance: finished turns and the journal, jobs, and the embedding of memories."""
