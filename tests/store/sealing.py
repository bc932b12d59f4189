"""Shared helpers of the sealed store's tests: an inner store that records its calls and allows interference."""

import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from typing import cast

from elytron_conformance.examples import ADA, AT, source
from elytron_core.clock import FrozenClock
from elytron_core.ids import RandomIds, SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
    Store,
)
from elytron_core.ports.store_checks import CheckReport
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sealed.records import KEYRING, NAMES
from elytron_store.sealed.store import SealedStore

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
KEYS = LocalKeys({"old": OLD}, current="old")
BOTH = LocalKeys({"old": OLD, "new": NEW}, current="new")
NEW_ONLY = LocalKeys({"new": NEW}, current="new")

Hook = Callable[[], Awaitable[None]]


async def seal(inner: Store, *, keys: LocalKeys = KEYS) -> SealedStore:
    clock = FrozenClock()
    return await SealedStore.open(inner, keys=keys, ids=RandomIds(clock), clock=clock)


def erasing(store: Store) -> Hook:
    """Return a hook that erases Ada's space through `store`, to interrupt a call."""

    async def erase() -> None:
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))

    return erase


class Witness(MemoryStore):
    """A memory store that records everything in `told`, and can be interrupted before a call."""

    def __init__(self) -> None:
        super().__init__()
        self.told = bytearray()
        self.calls: list[str] = []
        self.batches: list[Batch] = []
        self._hooks: list[tuple[str, Callable[[object], bool], Hook]] = []

    def before(self, call: str, hook: Hook, *, when: Callable[[object], bool] = lambda _: True) -> None:
        """Run `hook` once before the next `call` whose first argument `when` accepts."""
        self._hooks.append((call, when, hook))

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self.batches.append(batch)
        await self._note("commit", batch, batch)
        return await super().commit(batch)

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        await self._note("get", refs, space, refs)
        return await super().get(space, refs)

    async def scan(
        self,
        space: SpaceId,
        collection: str,
        /,
        *,
        prefix: str = "",
        after: str = "",
        limit: int,
        descending: bool = False,
    ) -> Sequence[Document]:
        await self._note("scan", collection, space, collection, prefix, after)
        return await super().scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        await self._note("journal", space, space)
        return await super().journal(space, after=after, limit=limit)

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        await self._note("spaces", after, after)
        return await super().spaces(after=after, limit=limit)

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        await self._note("write_blob", key, space, key)

        async def heard() -> AsyncIterator[bytes]:
            async for chunk in chunks:
                self.told += chunk
                yield chunk

        return await super().write_blob(space, key, heard())

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        await self._note("read_blob", key, space, key)
        async for chunk in super().read_blob(space, key):
            yield chunk

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        await self._note("erase", erasure, erasure)
        return await super().erase(erasure)

    async def check(self) -> CheckReport:
        await self._note("check", None)
        return await super().check()

    async def _note(self, call: str, first: object, *given: object) -> None:
        self.calls.append(call)
        for thing in given:
            self.told += _bytes_of(thing)
        for number, (wanted, when, hook) in enumerate(self._hooks):
            if wanted == call and when(first):
                del self._hooks[number]
                await hook()
                return


async def inner_space(inner: Store) -> SpaceId:
    """Return the only space of `inner` except the keyring."""
    (found,) = [space for space in await inner.spaces(limit=10) if space != KEYRING]
    return found


async def keyring(inner: Store, collection: str) -> list[Document]:
    """Return the keyring's documents of a collection, without the key of names."""
    return [kept for kept in await inner.scan(KEYRING, collection, limit=100) if kept.ref != NAMES]


async def raw(inner: Store, space: SpaceId, ref: DocumentRef) -> Document:
    """Return a document as the inner store has it."""
    (found,) = await inner.get(space, [ref])
    assert found is not None
    return found


async def plant(inner: Store, space: SpaceId, document: Document) -> None:
    """Put `document` into the inner store at exactly its revision, whatever exists."""
    (found,) = await inner.get(space, [document.ref])
    told = (EntryDraft(JournalAction.WRITE, document.ref),)
    if found is not None:
        await inner.commit(
            Batch(space=space, at=AT, entries=told, deletes=(DeleteChange(document.ref, found.revision),), sealed=True)
        )
    for expects in range(document.revision):
        await inner.commit(
            Batch(
                space=space, at=AT, entries=told, puts=(PutChange(document.ref, document.body, expects),), sealed=True
            )
        )


async def raw_blob(inner: Store, space: SpaceId, key: str) -> bytes:
    return b"".join([chunk async for chunk in inner.read_blob(space, key)])


async def plant_blob(inner: Store, space: SpaceId, key: str, body: bytes) -> None:
    await inner.write_blob(space, key, source([body[at : at + 1000] for at in range(0, len(body), 1000)]))


def _bytes_of(thing: object) -> bytes:
    if isinstance(thing, bytes):
        return thing
    if isinstance(thing, str):
        return thing.encode()
    if isinstance(thing, (tuple, list)):
        return b"|".join(_bytes_of(part) for part in cast("Sequence[object]", thing))
    if dataclasses.is_dataclass(thing):
        return b"|".join(_bytes_of(getattr(thing, field.name)) for field in dataclasses.fields(thing))
    return repr(thing).encode()
