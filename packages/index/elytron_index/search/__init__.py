"""Scoring of one query."""
