"""Outbound connections: HTTP clients, checked addresses, and limits on what other servers answer."""
