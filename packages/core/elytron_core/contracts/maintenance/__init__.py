"""Maintenance: finished turns, jobs, the embedding of memories, and compaction of the journal."""
