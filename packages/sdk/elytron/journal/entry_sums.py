"""Keyed sums of journal entries: the part of a head that compaction does not change.

Each entry has a number, a digest under the space's secret, and a head is made from their sum. So the one entry that
replaces a compacted run keeps only the sum of the run, and a code that only a holder of the secret can make.
"""

import hmac
from collections.abc import Sequence
from typing import Final

from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import JournalEntry, Run

_SUM_BYTES: Final = 32
_CODE_BYTES: Final = 16
MODULUS: Final = 1 << 8 * _SUM_BYTES


class EntrySums:
    """The numbers that the entries of one space add to its head."""

    def __init__(self, record: SpaceRecord, /) -> None:
        self._record = record
        self._order = record.chain(b"journal order", size=_SUM_BYTES)
        self._content = record.chain(b"journal content", size=_SUM_BYTES)

    def order_of(self, entry: JournalEntry, /) -> int:
        """Return the number for the place of `entry`; for the entry of a run, the sum of the run."""
        run = self.run_sum(entry)
        if run is not None:
            return run
        line = self._order.copy()
        line.update(_place(entry))
        return int.from_bytes(line.digest(), "big")

    def content_of(self, entry: JournalEntry, /) -> int:
        """Return the number for the content of `entry`: 0 if it has no digest any more."""
        if not entry.digest or entry.covers > 1:
            return 0
        line = self._content.copy()
        line.update(_place(entry) + entry.digest.encode())
        return int.from_bytes(line.digest(), "big")

    def run_sum(self, entry: JournalEntry, /) -> int | None:
        """Return the sum that `entry` keeps of its run; None for any other entry, or one made without the secret."""
        if entry.covers == 1:
            return None
        text, code = entry.digest[: 2 * _SUM_BYTES], entry.digest[2 * _SUM_BYTES :]
        expected = self._code(entry.first, entry.sequence, text)
        return int(text, 16) if hmac.compare_digest(expected.encode(), code.encode()) else None

    def run_of(self, entries: Sequence[JournalEntry], /) -> Run:
        """Return `entries`, which follow each other, as the run that one entry is to replace."""
        first, last = entries[0].first, entries[-1].sequence
        text = f"{sum(map(self.order_of, entries)) % MODULUS:0{2 * _SUM_BYTES}x}"
        return Run(first, last, text + self._code(first, last, text))

    def _code(self, first: int, last: int, text: str) -> str:
        code = self._record.chain(b"journal run", size=_CODE_BYTES)
        code.update(f"{first}|{last}|{text}".encode())
        return code.hexdigest()


def _place(entry: JournalEntry) -> bytes:
    return f"{entry.sequence}|{entry.at}|{entry.action}|{entry.ref.collection}|{entry.ref.key}\n".encode()
