"""Readers of transcripts that other programs wrote, and of notes: chats, exports, Markdown, plain text."""

from elytron.transcripts.detect import Format, Transcript, Transcripts, open_transcripts
from elytron.transcripts.shape import LeftOut, Omission, Said

__all__ = ["Format", "LeftOut", "Omission", "Said", "Transcript", "Transcripts", "open_transcripts"]
