"""What an agent has beside its memory: tools of its loop, a web search, eyes, and subagents."""
