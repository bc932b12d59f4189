"""Core blocks: bounded texts that are always in an agent's context, and the tools that edit them and search memory."""
