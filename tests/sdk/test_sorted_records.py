"""Records sorted in bounded memory, and what is computed with them over all documents of a space."""

import hashlib
import subprocess
import sys
import tempfile
import tracemalloc
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron.journal.sorted_records import SortedRecords
from elytron.journal.verification import StateFingerprint
from elytron_core.ports.store import Document, DocumentRef

MANY = 40_000


def records(count: int) -> list[bytes]:
    random = Random(count)
    return [random.randbytes(2) + number.to_bytes(4, "big") for number in range(count)]


def fingerprint(bodies: list[bytes]) -> str:
    state = StateFingerprint()
    for body in bodies:
        state.add(Document(DocumentRef("turns", "0"), 1, body))
    assert state.count == len(bodies)
    return state.hexdigest()


@given(st.lists(st.binary(max_size=3), max_size=5), st.randoms(use_true_random=False))
def test_a_fingerprint_does_not_depend_on_the_order(bodies: list[bytes], random: Random) -> None:
    shuffled = list(bodies)
    random.shuffle(shuffled)
    assert fingerprint(shuffled) == fingerprint(bodies)


def test_a_fingerprint_counts_duplicates() -> None:
    assert len({fingerprint(bodies) for bodies in ([], [b""], [b"a"], [b"a", b"a"], [b"a", b"b"])}) == 5


def test_a_fingerprint_equals_that_of_the_sorted_digests() -> None:
    bodies = [number.to_bytes(3, "big") for number in range(MANY)]
    digests = sorted(hashlib.sha256(b"turns\0000\0" + body).digest() for body in bodies)
    assert fingerprint(bodies) == hashlib.sha256(b"".join(digests)).hexdigest()


def test_the_memory_of_a_fingerprint_does_not_grow_with_the_documents() -> None:
    peaks: list[int] = []
    for count in (MANY, 4 * MANY):
        tracemalloc.start()
        state = StateFingerprint()
        for number in range(count):
            state.add(Document(DocumentRef("turns", "0"), 1, number.to_bytes(3, "big")))
        state.hexdigest()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("count", [0, 1, 16_384, MANY])
def test_records_are_returned_in_order_on_every_read(count: int) -> None:
    made = records(count)
    ordered = SortedRecords(6)
    for record in made:
        ordered.add(record)
    assert list(ordered) == list(ordered) == sorted(made)
    assert len(ordered) == count
    assert all(one <= other for one, other in pairwise(ordered))


def test_data_in_the_temporary_file_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ordered = SortedRecords(6)
    for number in range(MANY):
        ordered.add(b"canary" if number % 2 else b"%06d" % number)
    assert list(tmp_path.iterdir()) == []
    (stored,) = [
        link.read_bytes() for link in Path("/proc/self/fd").iterdir() if str(link.resolve()).startswith(str(tmp_path))
    ]
    assert len(stored) >= 6 * 32_768
    assert b"canary" not in stored
    assert list(ordered).count(b"canary") == MANY // 2


def test_a_full_temporary_folder_is_reported_as_such(tmp_path: Path) -> None:
    script = f"""
import resource
from elytron.journal.sorted_records import SortedRecords
from elytron_core.errors import StoreUnavailable
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))
ordered = SortedRecords(6)
try:
    for number in range({MANY}):
        ordered.add(b"%06d" % number)
except StoreUnavailable as refused:
    print(refused)
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "temporary files" in answer.stdout
