"""Agent files (.af): import Letta agents into a memory, and export agents to such files."""
