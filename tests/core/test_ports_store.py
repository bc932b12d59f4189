"""What every engine rejects before writing anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    DeleteChange,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
    require_ref,
    validate_batch,
)
from elytron_core.ports.store_checks import CheckReport, DamageKind, StoreProblem

REF = DocumentRef("facts", "0a")
ENTRY = EntryDraft(JournalAction.WRITE, REF)


def batch(
    *,
    space: str = "ada",
    entries: tuple[EntryDraft, ...] = (ENTRY,),
    puts: tuple[PutChange, ...] = (),
    deletes: tuple[DeleteChange, ...] = (),
    requires: tuple[RequireRevision, ...] = (),
    key: str | None = None,
    sealed: bool = False,
    is_import: bool = False,
) -> Batch:
    idempotency = BatchKey(key, "0", b"") if key is not None else None
    return Batch(SpaceId(space), Instant(0), entries, puts, deletes, requires, idempotency, sealed, is_import=is_import)


LARGEST = b"x" * limits.DOCUMENT_BYTES
SEALED = b"x" * (limits.DOCUMENT_BYTES + limits.SEAL_BYTES)
MOST = tuple(EntryDraft(JournalAction.WRITE, DocumentRef("facts", f"{at:x}")) for at in range(limits.BATCH_CHANGES))
IMPORTED = (*MOST, *[ENTRY] * (limits.IMPORT_CHANGES - len(MOST)))


@pytest.mark.parametrize(
    "given",
    [
        batch(),
        batch(
            puts=(PutChange(REF, b"", 0), PutChange(DocumentRef("slots", "0a"), b"x", 7)),
            deletes=(DeleteChange(DocumentRef("facts", "0b"), 1),),
        ),
        batch(requires=(RequireRevision(REF, 0), RequireRevision(REF, 0))),
        batch(puts=(PutChange(REF, LARGEST, 0),)),
        batch(puts=(PutChange(REF, SEALED, 0),), sealed=True),
        batch(entries=MOST),
        batch(entries=(*MOST, ENTRY), sealed=True),
        batch(entries=IMPORTED, is_import=True),
        batch(entries=(*IMPORTED, ENTRY), is_import=True, sealed=True),
        batch(key="k" * limits.IDEMPOTENCY_KEY_CHARS),
        batch(space="s" * limits.SPACE_CHARS),
    ],
    ids=lambda given: "",
)
def test_a_batch_within_the_rules_is_accepted(given: Batch) -> None:
    validate_batch(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (batch(space=""), "space is empty"),
        (batch(space="a\n"), "space has control characters, lone surrogates or surrounding white space"),
        (batch(entries=()), "entries are missing: every batch needs a journal entry"),
        (batch(puts=(PutChange(REF, b"", -1),)), "expects is below 0"),
        (batch(deletes=(DeleteChange(REF, 0),)), "expects is below 1 for a delete"),
        (batch(puts=(PutChange(REF, b"", 0), PutChange(REF, b"", 0))), "batch changes the same document twice"),
        (
            batch(puts=(PutChange(REF, b"", 1),), deletes=(DeleteChange(REF, 1),)),
            "batch changes the same document twice",
        ),
        (
            batch(puts=(PutChange(DocumentRef("Facts", "0a"), b"", 0),)),
            "collection must be up to 32 lower-case letters and underscores",
        ),
        (
            batch(deletes=(DeleteChange(DocumentRef("facts", "tea"), 1),)),
            "key must be up to 96 hex digits, dots and dashes",
        ),
        (
            batch(requires=(RequireRevision(DocumentRef("facts", ""), 1),)),
            "key must be up to 96 hex digits, dots and dashes",
        ),
        (
            batch(entries=(EntryDraft(JournalAction.WRITE, DocumentRef("", "0a")),)),
            "collection must be up to 32 lower-case letters and underscores",
        ),
        (batch(key=""), "idempotency key is empty"),
    ],
    ids=lambda given: "",
)
def test_a_batch_that_breaks_a_rule_is_rejected(given: Batch, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        validate_batch(given)
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (batch(entries=(*MOST, ENTRY)), limits.BATCH_CHANGES),
        (batch(entries=MOST, requires=(RequireRevision(REF, 1),)), limits.BATCH_CHANGES),
        (batch(entries=(*MOST, ENTRY, ENTRY, ENTRY), sealed=True), limits.BATCH_CHANGES),
        (batch(entries=(*IMPORTED, ENTRY), is_import=True), limits.IMPORT_CHANGES),
        (batch(puts=(PutChange(REF, LARGEST + b"x", 0),)), limits.DOCUMENT_BYTES),
        (batch(puts=(PutChange(REF, SEALED + b"x", 0),), sealed=True), limits.DOCUMENT_BYTES + limits.SEAL_BYTES),
        (batch(key="k" * (limits.IDEMPOTENCY_KEY_CHARS + 1)), limits.IDEMPOTENCY_KEY_CHARS),
        (batch(space="s" * (limits.SPACE_CHARS + 1)), limits.SPACE_CHARS),
    ],
    ids=lambda given: "",
)
def test_a_batch_over_a_limit_is_rejected_with_the_limit(given: Batch, limit: int) -> None:
    with pytest.raises(LimitExceeded) as raised:
        validate_batch(given)
    assert raised.value.limit == limit


def is_taken(ref: DocumentRef) -> bool:
    try:
        require_ref(ref)
    except ElytronError:
        return False
    return True


@given(st.text("ab_Z1 ", max_size=4), st.text("0af.-gA/\n", max_size=4))
def test_a_document_reference_has_a_plain_collection_and_a_hex_key(collection: str, key: str) -> None:
    named = collection[:1].isalpha() and collection.islower() and set(collection) <= set("ab_")
    keyed = bool(key) and key[0] in "0af" and set(key) <= set("0af.-")
    assert is_taken(DocumentRef(collection, key)) is (named and keyed)


@pytest.mark.parametrize(
    ("ref", "taken"),
    [
        (DocumentRef("c" * 32, "0" * 96), True),
        (DocumentRef("c" * 33, "0"), False),
        (DocumentRef("c", "0" * 97), False),
        (DocumentRef("c\n", "0"), False),
        (DocumentRef("c", "0\n"), False),
    ],
)
def test_a_document_reference_is_bounded(ref: DocumentRef, taken: bool) -> None:
    assert is_taken(ref) is taken


def test_a_check_that_found_nothing_is_ok() -> None:
    assert CheckReport(1, 2, 3, 4).ok
    assert not CheckReport(1, 2, 3, 4, (StoreProblem(DamageKind.BLOB, None, "a blob"),)).ok
