"""Import Letta agents from agent files (.af) into a memory, and export agents to such files."""
