"""Planes of what was said: turns, candidates, continuity, summaries."""
