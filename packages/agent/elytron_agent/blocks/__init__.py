"""Core blocks: bounded texts that an agent always has before it, and the tools that edit and search memory."""
