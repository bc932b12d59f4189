"""A conversation with an agent at the terminal: what is printed, and what a line that begins with a slash does."""
