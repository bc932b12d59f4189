"""Runs and threads of an agent as they are stored, what is gathered for one, and what happens in one."""
