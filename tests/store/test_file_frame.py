"""The byte format of a log round-trips, and detects every flipped bit, cut, and move."""

from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_store.file.frame import (
    ACKNOWLEDGED_AT,
    CHECKSUM_BYTES,
    HEADER_BYTES,
    FrameRecord,
    LoggedAnswer,
    LoggedDocument,
    LoggedEntry,
    LogHeader,
    block_bodies,
    decode_block,
    decode_header,
    encode_frame,
    encode_header,
    open_answer,
    open_document,
    seal_answer,
    seal_document,
)

SALT = bytes(range(16))
OFFSET = HEADER_BYTES + 77
COLLECTIONS = st.sampled_from(["facts", "turns"])
KEYS = st.text(alphabet="0123456789abcdef", min_size=1, max_size=8)
ENTRIES = st.builds(LoggedEntry, st.just(Instant(5)), st.sampled_from(JournalAction), COLLECTIONS, KEYS, st.text("ab"))
BODIES = st.lists(st.binary(max_size=40), max_size=4)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def frame_of(bodies: list[bytes], entries: list[LoggedEntry], key: str) -> tuple[FrameRecord, bytes]:
    documents = tuple(LoggedDocument("facts", f"{place:x}", place + 1, len(body)) for place, body in enumerate(bodies))
    answer = LoggedAnswer(key, "digest", 1, 2, Instant(7), 3)
    gone = DocumentRef("facts", "ff")
    record = FrameRecord(documents=documents, deletes=(gone,), first=4, entries=tuple(entries), answers=(answer,))
    sealed = [seal_document(kept, body) for kept, body in zip(documents, bodies, strict=True)]
    return record, encode_frame(record, [*sealed, seal_answer(key, b"yes")], salt=SALT, offset=OFFSET)


@given(bodies=BODIES, entries=st.lists(ENTRIES, max_size=3), key=NAMES)
def test_a_frame_returns_its_record_and_bodies(bodies: list[bytes], entries: list[LoggedEntry], key: str) -> None:
    record, data = frame_of(bodies, entries, key)
    block = decode_block(data, salt=SALT, at=OFFSET)
    assert block is not None
    assert (block.record, block.copy, block.offset, block.end) == (record, 0, OFFSET, OFFSET + len(data))
    second_at = (block.bodies_at - OFFSET) // 2
    second = decode_block(data[second_at:], salt=SALT, at=OFFSET + second_at)
    assert second is not None
    assert (second.record, second.copy, second.offset, second.end) == (record, 1, OFFSET, block.end)
    found: list[bytes | None] = []
    for kept, at in block_bodies(block):
        sealed = data[at - OFFSET : at - OFFSET + CHECKSUM_BYTES + kept.size]
        if isinstance(kept, LoggedDocument):
            found.append(open_document(DocumentRef(kept.collection, kept.key), kept.revision, sealed))
        else:
            found.append(open_answer(kept.key, sealed))
    assert found == [*bodies, b"yes"]


@given(body=st.binary(max_size=40), flip=st.integers(min_value=0))
def test_a_flipped_bit_is_detected_anywhere(body: bytes, flip: int) -> None:
    _, data = frame_of([body], [], "key")
    at, bit = divmod(flip % (8 * len(data)), 8)
    damaged = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
    whole = decode_block(data, salt=SALT, at=OFFSET)
    assert whole is not None
    size = (whole.bodies_at - OFFSET) // 2
    first = decode_block(damaged, salt=SALT, at=OFFSET)
    second = decode_block(damaged[size:], salt=SALT, at=OFFSET + size)
    document = open_document(DocumentRef("facts", "0"), 1, damaged[2 * size : 2 * size + 8 + len(body)])
    answer = open_answer("key", damaged[2 * size + 8 + len(body) :])
    assert [first, second, document, answer].count(None) == 1


@given(cut=st.integers(min_value=0))
def test_a_truncated_block_is_invalid(cut: int) -> None:
    _, data = frame_of([b"body"], [], "key")
    whole = decode_block(data, salt=SALT, at=OFFSET)
    assert whole is not None
    size = (whole.bodies_at - OFFSET) // 2
    assert decode_block(data[: cut % size], salt=SALT, at=OFFSET) is None


def test_a_block_is_bound_to_its_location_and_generation() -> None:
    _, data = frame_of([b"body"], [], "key")
    assert decode_block(data, salt=SALT, at=OFFSET + 1) is None
    assert decode_block(data, salt=bytes(16), at=OFFSET) is None


def test_a_body_is_bound_to_its_document_and_revision() -> None:
    sealed = seal_document(LoggedDocument("facts", "a", 1, 4), b"body")
    assert open_document(DocumentRef("facts", "a"), 1, sealed) == b"body"
    assert open_document(DocumentRef("facts", "a"), 2, sealed) is None
    assert open_document(DocumentRef("facts", "b"), 1, sealed) is None
    assert open_document(DocumentRef("turns", "a"), 1, sealed) is None


@given(name=NAMES, acknowledged=st.integers(0, 2**63))
def test_a_header_round_trips(name: str, acknowledged: int) -> None:
    data = encode_header(SALT, SpaceId(name), acknowledged=acknowledged)
    assert len(data) == HEADER_BYTES
    assert decode_header(data) == LogHeader(SALT, SpaceId(name), acknowledged, sound=True)


@given(flip=st.integers(0, 8 * HEADER_BYTES - 1))
def test_a_header_survives_and_reports_one_flipped_bit(flip: int) -> None:
    data = bytearray(encode_header(SALT, SpaceId("ada"), acknowledged=99_999))
    data[flip // 8] ^= 1 << flip % 8
    assert decode_header(bytes(data)) == LogHeader(SALT, SpaceId("ada"), 99_999, sound=False)


def test_a_header_without_an_intact_copy_is_invalid() -> None:
    data = encode_header(SALT, SpaceId("ada"), acknowledged=99_999)
    assert decode_header(data[1:]) is None
    assert decode_header(b"") is None
    assert decode_header(bytes(HEADER_BYTES)) is None


def test_a_header_without_an_intact_mark_has_no_known_end() -> None:
    data = bytearray(encode_header(SALT, SpaceId("ada"), acknowledged=99_999))
    data[ACKNOWLEDGED_AT] ^= 1
    data[ACKNOWLEDGED_AT + 16] ^= 1
    assert decode_header(bytes(data)) == LogHeader(SALT, SpaceId("ada"), None, sound=False)
