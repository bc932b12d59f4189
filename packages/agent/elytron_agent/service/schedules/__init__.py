"""Schedules of agents: their times, their storage, the worker that runs them, and the tools that create them."""
