"""Example values and short helpers that the claims are written with."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import pytest

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    QUEUE,
    Batch,
    BatchKey,
    CommitReceipt,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    JournalEntry,
    PutChange,
    RequireRevision,
    Store,
    queued_spaces,
)

AT = Instant(1_767_225_600_000)
ADA = SpaceId("ada")
BOB = SpaceId("bob")
JOBS = DocumentRef(QUEUE, "0")
"""The document that holds a space's unfinished jobs."""
NOWHERE = SpaceId("nowhere")
CaseT = TypeVar("CaseT")


class Claims:
    """Base class of every part of the suite; runs the tests on asyncio through the anyio plugin."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"


def fact(number: int) -> DocumentRef:
    """Return the reference of example document `number`; keys sort by number."""
    return DocumentRef("facts", f"{number:04x}")


def entry(ref: DocumentRef, *, action: JournalAction = JournalAction.WRITE, digest: str = "5eed") -> EntryDraft:
    return EntryDraft(action=action, ref=ref, digest=digest)


def batch(
    *changes: PutChange | DeleteChange | RequireRevision,
    space: SpaceId = ADA,
    at: Instant = AT,
    entries: tuple[EntryDraft, ...] | None = None,
    idempotency: BatchKey | None = None,
) -> Batch:
    """Return a batch of `changes`, with one journal entry per change unless `entries` is passed."""
    drafts = tuple(
        entry(change.ref, action=_action(change)) for change in changes if not isinstance(change, RequireRevision)
    )
    return Batch(
        space=space,
        at=at,
        entries=drafts if entries is None else entries,
        puts=tuple(change for change in changes if isinstance(change, PutChange)),
        deletes=tuple(change for change in changes if isinstance(change, DeleteChange)),
        requires=tuple(change for change in changes if isinstance(change, RequireRevision)),
        idempotency=idempotency,
    )


async def put(
    store: Store, ref: DocumentRef, body: bytes = b"body", *, expects: int = 0, space: SpaceId = ADA
) -> CommitReceipt:
    """Commit a single document."""
    return await store.commit(batch(PutChange(ref, body, expects), space=space))


async def delete(store: Store, ref: DocumentRef, *, expects: int, space: SpaceId = ADA) -> CommitReceipt:
    """Commit a single delete."""
    return await store.commit(batch(DeleteChange(ref, expects), space=space))


async def one(store: Store, ref: DocumentRef, *, space: SpaceId = ADA) -> Document | None:
    """Return the document at `ref`, or None."""
    (document,) = await store.get(space, [ref])
    return document


async def documents(store: Store, *, space: SpaceId = ADA, collection: str = "facts") -> Sequence[Document]:
    """Return the documents of a collection in key order."""
    return list(await store.scan(space, collection, limit=limits.SCAN_MAX))


async def journal(store: Store, *, space: SpaceId = ADA) -> Sequence[JournalEntry]:
    """Return the whole journal of a space."""
    return list(await store.journal(space, after=0, limit=limits.JOURNAL_MAX))


async def sequences(store: Store, *, space: SpaceId = ADA) -> Sequence[int]:
    return [journal_entry.sequence for journal_entry in await journal(store, space=space)]


async def spaces(store: Store) -> set[SpaceId]:
    """Return all spaces that the store lists."""
    return set(await store.spaces(limit=limits.SCAN_MAX))


async def spaces_with_jobs(store: Store) -> set[SpaceId]:
    """Return the spaces that the store lists as having unfinished jobs."""
    return {space async for space in queued_spaces(store)}


async def refusals(calls: Mapping[CaseT, Callable[[], Awaitable[object]]]) -> dict[CaseT, type[ElytronError] | None]:
    """Return the error class that each of `calls` raises, or None for a call that succeeds."""
    errors: dict[CaseT, type[ElytronError] | None] = {}
    for case, call in calls.items():
        try:
            await call()
        except ElytronError as error:
            errors[case] = type(error)
        else:
            errors[case] = None
    return errors


async def source(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield `parts` like a caller's stream."""
    for part in parts:
        yield part


async def blob(store: Store, key: str, *, space: SpaceId = ADA) -> bytes:
    """Return the whole content of the blob `key`."""
    return b"".join([chunk async for chunk in store.read_blob(space, key)])


async def write_blob(store: Store, key: str, *parts: bytes, space: SpaceId = ADA) -> int:
    return await store.write_blob(space, key, source(parts))


def _action(change: PutChange | DeleteChange) -> JournalAction:
    return JournalAction.WRITE if isinstance(change, PutChange) else JournalAction.DELETE
