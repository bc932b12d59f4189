"""Admission of beliefs, and their authority."""
