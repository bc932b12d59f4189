"""Outbound connections: HTTP clients, judged addresses, and bounds of what other servers answer."""
