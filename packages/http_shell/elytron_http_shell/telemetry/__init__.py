"""Logs, metrics and spans of a server."""
