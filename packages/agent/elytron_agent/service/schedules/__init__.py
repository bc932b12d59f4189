"""Schedules of agents: their times, how they are stored, the worker that runs them, and the tools that make them."""
