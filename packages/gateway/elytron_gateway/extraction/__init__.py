"""Text out of files that nobody vouches for: what a file is, and its text in chunks, read in a process of its own."""

from elytron_gateway.extraction.reading import Chunk, Extraction, Unreadable, read_chunks
from elytron_gateway.extraction.sniffing import ALLOWED, MEDIA, media_type, readable_types

__all__ = ["ALLOWED", "MEDIA", "Chunk", "Extraction", "Unreadable", "media_type", "read_chunks", "readable_types"]
