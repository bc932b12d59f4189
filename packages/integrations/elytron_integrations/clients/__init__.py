"""Clients of model APIs with memory around their calls."""
