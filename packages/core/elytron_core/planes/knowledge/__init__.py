"""Planes of what is known: facts, skills, records, subjects, the garden."""
