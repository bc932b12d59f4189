"""Writes to facts, skills, records and subjects as changes."""
