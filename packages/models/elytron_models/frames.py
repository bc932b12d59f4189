"""Frames of a streamed answer: server-sent events and lines of JSON, cut out of chunks of bytes."""

from typing import Protocol

from elytron_core import limits

_BOM = b"\xef\xbb\xbf"
_LINE_COST = 64
"""Size that a line of an event counts beside its bytes: empty ones take memory too."""


class FrameTooLarge(Exception):
    """A line or an event has more bytes than one may have."""


class Frames(Protocol):
    """Cuts chunks of bytes into the payloads of frames."""

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the payloads that `chunk` completes. Raises FrameTooLarge."""
        ...

    def end(self) -> list[bytes]:
        """Return the payload that only lacked its last line ending. Raises FrameTooLarge."""
        ...


class Lines:
    """Lines without their endings, of which there are three: LF, CR LF and CR."""

    def __init__(self, limit: int = limits.MODEL_EVENT_BYTES, /) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._after_cr = False
        self._is_first = True

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the lines that `chunk` completes. Raises FrameTooLarge."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        lines[0] = self._begun() + lines[0]
        if max(map(len, lines)) > self._limit:
            raise FrameTooLarge
        self._keep(rest)
        return [self._bare(line) for line in lines]

    def end(self) -> list[bytes]:
        """Return the line that has no ending, if there is one."""
        rest = self._begun()
        return [self._bare(rest)] if rest else []

    def _begun(self) -> bytes:
        rest = bytes(self._rest)
        self._rest.clear()
        return rest

    def _bare(self, line: bytes) -> bytes:
        if self._is_first:
            self._is_first = False
            return line.removeprefix(_BOM)
        return line

    def _keep(self, rest: bytes) -> None:
        self._rest += rest
        if len(self._rest) > self._limit:
            raise FrameTooLarge


class EventFrames:
    """The data of server-sent events. Names, ids and comments are passed over: each dialect's data names itself."""

    def __init__(self, limit: int = limits.MODEL_EVENT_BYTES, /) -> None:
        self._limit = limit
        self._lines = Lines(limit)
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the data of the events that `chunk` completes. Raises FrameTooLarge."""
        return [data for line in self._lines.feed(chunk) if (data := self._take(line))]

    def end(self) -> list[bytes]:
        """Return the data of an event that only lacked its empty line. Raises FrameTooLarge."""
        return [data for line in [*self._lines.end(), b""] if (data := self._take(line))]

    def _take(self, line: bytes) -> bytes:
        if not line:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            return data
        field, _, value = line.partition(b":")
        if field == b"data":
            self._size += len(value) + _LINE_COST
            if self._size > self._limit:
                raise FrameTooLarge
            self._data.append(value.removeprefix(b" "))
        return b""


class LineFrames:
    """Lines of JSON; empty ones are passed over."""

    def __init__(self, limit: int = limits.MODEL_EVENT_BYTES, /) -> None:
        self._lines = Lines(limit)

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the lines that `chunk` completes. Raises FrameTooLarge."""
        return [line for line in self._lines.feed(chunk) if line.strip()]

    def end(self) -> list[bytes]:
        """Return the last line if it lacks its ending."""
        return [line for line in self._lines.end() if line.strip()]
