"""Writes to facts, skills and subjects as changes."""
