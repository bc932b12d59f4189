"""Readers of transcripts that other programs wrote, and of notes: chats, exports, Markdown, plain text."""

__all__: list[str] = []
