"""Upstreams of the gateway: the port, an EverOS server, and the backlog for an upstream that is down."""
