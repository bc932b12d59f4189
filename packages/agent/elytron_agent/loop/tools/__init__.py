"""Tools of an agent beside its memory: its loop's own, a web search, vision, and subagents."""
