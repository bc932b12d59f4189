"""Hooks of coding assistants: their events, the answers to them, and an activity record."""
