"""Core blocks: bounded texts that are always in an agent's context, with the tools that edit them and search memory."""
