"""Readers of other programs' transcripts and notes: chats, exports, Markdown, plain text."""

__all__: list[str] = []
