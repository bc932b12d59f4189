"""A log as text files: each appending is one or more lines of base64, so that a torn one shows by its missing end.

<generation>/<epoch>.<number>.<start>     a shard: bytes of the log from offset `start` on, in lines
<generation>/ready                        the generation is whole, and is the current one
<generation>/gone                         likewise; it says that the space was erased

A generation is `<epoch>.<number>.<id>`. A line that begins with ~ is continued by the next; lines without an end are
ignored. A shard's `start` cuts off what the shards before it hold beyond that: what a dead writer's call appends late
changes nothing.
"""

import binascii
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from elytron_store import limits as store_limits

READY = "ready"
GONE = "gone"
MORE = "~"
_NAME = re.compile(r"(\d{8})\.(\d{6})\.(\d{14})")
_GENERATION = re.compile(r"\d{8}\.\d{6}\.[0-9a-f-]{36}")
_FOREIGN = re.compile(r"[^A-Za-z0-9+/]")


class ShardName(NamedTuple):
    """Identity of a shard: its writer, its number, and its offset in the log."""

    epoch: int
    number: int
    start: int

    def __str__(self) -> str:
        return f"{self.epoch:08}.{self.number:06}.{self.start:014}"


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a log: its folder's name, its shards with their sizes, in order, and whether it ends a space."""

    name: str
    shards: tuple[tuple[ShardName, int], ...]
    is_gone: bool

    @property
    def rank(self) -> tuple[tuple[int, int], str]:
        """Return the time at which it was begun, or last appended to: the current generation has the highest."""
        epoch, number, _ = self.name.split(".")
        return max([(int(epoch), int(number)), *((name.epoch, name.number) for name, _ in self.shards)]), self.name


def shard_name(text: str, /) -> ShardName | None:
    """Return the name of a shard, None if `text` is none."""
    found = _NAME.fullmatch(text)
    return ShardName(int(found[1]), int(found[2]), int(found[3])) if found else None


def is_generation(text: str, /) -> bool:
    """Return whether `text` is the name of a generation's folder."""
    return _GENERATION.fullmatch(text) is not None


def lines(data: bytes, /) -> Iterator[str]:
    """Yield the lines of one appending of `data`."""
    size = store_limits.MCP_LINE_BYTES
    for start in range(0, len(data), size) or (0,):
        part = data[start : start + size]
        sign = MORE if start + size < len(data) else ""
        yield f"{sign}{binascii.b2a_base64(part, newline=False).decode()}\n"


def bytes_in(line: str, /) -> int:
    """Return how many bytes a whole line encodes."""
    body = line.removeprefix(MORE).rstrip("\n")
    return len(body) // 4 * 3 - body[-2:].count("=")


def joined(texts: Iterable[tuple[int, str]], /) -> bytes:
    """Return the bytes of a log from its shards' starts and texts, without what was not finished."""
    data = bytearray()
    end = 0
    for start, text in texts:
        del data[start:]
        data += bytes(start - len(data))  # a lost shard leaves a hole to be found
        end = min(end, start)
        for line in text.split("\n")[:-1]:
            data += _bytes_of(line.removeprefix(MORE))
            if not line.startswith(MORE):
                end = len(data)
    return bytes(data[:end])


def _bytes_of(line: str) -> bytes:
    try:
        return binascii.a2b_base64(line, strict_mode=True)
    except (binascii.Error, ValueError):
        # Damaged: of the right length, so that what follows keeps its place; checksums tell the rest.
        body = _FOREIGN.sub("A", line.rstrip("="))
        return binascii.a2b_base64(body + "A" * (-len(body) % 4))[: bytes_in(line)]
