"""Configuration, rules and hooks for hosts of agents."""
