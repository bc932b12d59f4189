"""Secrets, and what may leave a space."""
