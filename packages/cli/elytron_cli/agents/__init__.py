"""Configuration, rules and hooks for agent hosts."""
