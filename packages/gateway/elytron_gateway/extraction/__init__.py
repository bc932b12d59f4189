"""Text from untrusted files: a file's type, and its text in chunks, read in a child process."""

from elytron_gateway.extraction.child_process import Chunk, Extraction, Unreadable, read_chunks
from elytron_gateway.extraction.file_type import ALLOWED, MEDIA, media_type, readable_types

__all__ = ["ALLOWED", "MEDIA", "Chunk", "Extraction", "Unreadable", "media_type", "read_chunks", "readable_types"]
