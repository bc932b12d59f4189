"""Readers of transcripts that other programs wrote, and of notes: chats, exports, Markdown, plain text."""

from elytron.importers.detection import Format, Transcript, Transcripts, open_transcripts
from elytron.importers.message_shape import LeftOut, Omission, Said

__all__ = ["Format", "LeftOut", "Omission", "Said", "Transcript", "Transcripts", "open_transcripts"]
