"""Requests and answers about what is known."""
