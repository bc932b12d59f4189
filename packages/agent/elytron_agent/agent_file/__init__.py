"""Agent files (.af): agents of Letta, read into a memory and written from it."""
