"""Hooks of coding assistants: their events, what they are answered, and a record of what that did."""
