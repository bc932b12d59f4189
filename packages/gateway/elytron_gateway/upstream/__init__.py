"""Upstreams of the gateway: the port, an EverOS server, and the backlog of an upstream that is down."""
