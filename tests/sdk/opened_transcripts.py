"""The only transcript of a source, opened for a test."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from elytron.importers.detection import FoundTranscript, open_transcripts


@contextmanager
def opened(path: Path) -> Generator[FoundTranscript]:
    """Yield the only transcript at `path`."""
    with open_transcripts(path) as source:
        (transcript,) = source.transcripts
        yield transcript
