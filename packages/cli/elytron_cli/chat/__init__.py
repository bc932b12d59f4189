"""A conversation with an agent at the terminal: its output, and its slash commands."""
