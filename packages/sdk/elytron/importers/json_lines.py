"""Stream JSON Lines with a size limit per line. Bad lines are reported and skipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from elytron.importers import message_shape
from elytron.importers.message_shape import ReaderPlace, ReadItem, SkippedRecord, SourceReader
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json


@dataclass(frozen=True, slots=True)
class LineFile:
    """An open file of lines. Only its first `size` bytes are read, even if others append to it."""

    file: IO[bytes]
    size: int

    def records(self, place: ReaderPlace, /) -> Iterator[tuple[int, dict[str, Json] | SkippedRecord]]:
        """Yield each line's number with its object or its problem. Blank lines are skipped."""
        self.file.seek(0)
        offset = number = 0
        while offset < self.size and (
            line := self.file.readline(min(limits.IMPORT_LINE_BYTES + 1, self.size - offset))
        ):
            number += 1
            offset += len(line)
            place.now(f"line {number}", offset / self.size)
            if len(line) > limits.IMPORT_LINE_BYTES:
                offset += self._skip_line(line, offset)
                yield number, SkippedRecord(place.words, f"is longer than {limits.IMPORT_LINE_BYTES} bytes", number)
            elif message_shape.strip_mark(line).strip():
                try:
                    yield number, message_shape.object_members(message_shape.foreign_json(line), what="line")
                except (InvalidInput, LimitExceeded) as error:
                    yield number, SkippedRecord(place.words, error.message, number)

    def _skip_line(self, line: bytes, offset: int) -> int:
        """Read to the end of an overlong line and return the number of bytes read."""
        count = 0
        while not line.endswith(b"\n") and (
            line := self.file.readline(min(limits.IMPORT_LINE_BYTES, self.size - offset - count))
        ):
            count += len(line)
        return count


def read_lines(
    source: LineFile, read: SourceReader[dict[str, Json]], home: ConversationKey, place: ReaderPlace, /
) -> Iterator[ReadItem]:
    """Yield what `read` returns for each line. A bad line is reported with its number."""
    for number, record in source.records(place):
        if isinstance(record, SkippedRecord):
            yield record
            continue
        try:
            items = list(read(record, home, place))
        except (InvalidInput, LimitExceeded) as error:
            items = [SkippedRecord(place.words, error.message, number)]
        yield from items
