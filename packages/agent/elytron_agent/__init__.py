"""Agents that remember: turn hooks, memory strategies, core blocks, and a durable loop."""
