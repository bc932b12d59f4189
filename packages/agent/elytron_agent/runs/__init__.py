"""Stored runs and threads of an agent, the context gathered for a run, and its events."""
