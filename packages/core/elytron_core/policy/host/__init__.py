"""Profiles, modes and capabilities of the host."""
