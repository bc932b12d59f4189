"""Readers for other programs' transcripts and notes: chats, exports, Markdown and plain text."""

__all__: list[str] = []
