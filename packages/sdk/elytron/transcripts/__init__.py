"""Readers of transcripts that other programs wrote: JSON Lines, OpenAI messages, ChatGPT and Claude exports."""

from elytron.transcripts.detect import Format, Transcript, open_transcript
from elytron.transcripts.shape import Said

__all__ = ["Format", "Said", "Transcript", "open_transcript"]
