"""Requests and answers of a conversation."""
