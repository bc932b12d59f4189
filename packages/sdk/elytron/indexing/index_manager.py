"""The indexes of spaces, kept in step with the journal for all writers.

Documents that this runtime commits wait in a queue and are folded in without being read back.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from elytron.indexing import checkpoints
from elytron.indexing.checkpoints import CatchingUp, CheckpointPolicy, IndexCheckpoint, Progress, end_of
from elytron.indexing.units import (
    CHOICE,
    COVERED,
    INDEXED,
    ParseCache,
    covered_unit,
    embedded_of,
    indexed_value,
    is_renewed,
    label_changes,
    overridden_ref,
    replaced_fact,
    source_of,
    subject_names,
    value_change,
    vectors_ref,
)
from elytron.indexing.waiting_commits import FedCommit, WaitingCommits, count_terms, take_long
from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import forget_answers
from elytron_core.model import Value
from elytron_core.planes.embedding import VECTORS, EmbeddingChoice, ModelReach
from elytron_core.planes.servers.gateway import EDITS, MemoryOverride
from elytron_core.planes.subjects import SUBJECTS, Subject
from elytron_core.ports.models import StatementClassifier
from elytron_core.ports.store import (
    Document,
    DocumentRef,
    JournalAction,
    JournalEntry,
    Store,
    WorkSteps,
    scan_documents,
)
from elytron_core.text.analyser import TextAnalyser
from elytron_index import DocumentChange, EmbeddedDocument
from elytron_index.cache import IndexCache
from elytron_store.secret.sessions import SERVER, calling_as

if TYPE_CHECKING:
    from elytron_index.space_index import SpaceIndex


logger = logging.getLogger(__name__)
PAGE = 200
"""Entries folded at once; other tasks run between pages."""
APPLIED_AT_ONCE = 16
"""Documents added to an index without checking whether other tasks wait."""
FED_AT_ONCE = 256
"""Number of this runtime's documents that are folded together, without waiting for a recall."""
LEAVING_AT_ONCE = 4
"""Maximum indexes waiting to be stored, in addition to those in memory; beyond it, tasks that load others wait."""


@dataclass(slots=True)
class _CachedIndex:
    """An index with the last entry folded into it, which reveals a space that was erased and recreated."""

    index: "SpaceIndex"
    mark: JournalEntry | None = None
    saved: int = 0
    """Watermark of its checkpoint."""
    counted_at: int = -1
    """Watermark at which its size was last counted."""
    stored_at: int = 0
    """Watermark of its last storing while in use."""
    clean: int = 0
    """The last entry up to which erased words have been removed from the index."""
    is_clean: bool = True
    """False while it may still contain words that were erased after that entry."""
    is_loaded: bool = False
    """True until it has caught up, if it came from the checkpoint."""
    timer: asyncio.TimerHandle | None = None
    """Set until its checkpoint, which an erasure removed, is rewritten."""
    rests_until: float = 0.0
    """It is not rewritten before this time of the event loop."""

    def cancel(self) -> None:
        """Do not write its checkpoint."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    @property
    def grown(self) -> int:
        """Growth since its checkpoint."""
        return self.index.watermark - self.saved

    @property
    def is_due(self) -> bool:
        """True if it has grown enough since its checkpoint, or since the last attempt."""
        return checkpoints.is_due(self.index.watermark - max(self.saved, self.stored_at), units=self.index.units)


class SpaceIndexes:
    """The indexes of a runtime: loaded on demand, caught up before each use, bounded in bytes and number.

    An index is a fold over the journal and can always be made again: from its checkpoint, else from the start.
    """

    def __init__(
        self,
        store: Store,
        /,
        *,
        forget: Callable[[SpaceId], None],
        max_bytes: int,
        max_spaces: int,
        statements: StatementClassifier,
        storing: CheckpointPolicy = CheckpointPolicy.AS_THEY_GROW,
        progress: Progress | None = None,
    ) -> None:
        self._store = store
        self._storing = storing
        self._aside = asyncio.Lock()
        self._progress = progress
        self._forget = forget
        self.meet_mark: Callable[[SpaceId], None] | None = None
        self.readings = ParseCache()
        """Parsed documents of these indexes; they are dropped with their index."""
        self._analyser = TextAnalyser()
        self._statements = statements
        self._cache = IndexCache(max_bytes, limit_spaces=max_spaces)
        self._indexes: dict[SpaceId, _CachedIndex] = {}
        self._fed: dict[SpaceId, WaitingCommits] = {}
        # A lock lives as long as a caller has it, so that unused spaces leave none.
        self._locks: WeakValueDictionary[SpaceId, asyncio.Lock] = WeakValueDictionary()
        self._leaving: dict[SpaceId, _CachedIndex] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._until = math.inf  # no checkpoint is begun after this time of the event loop

    @property
    def memory_use(self) -> tuple[int, int]:
        """Return the number of indexes in memory, and their bytes."""
        return len(self._cache), self._cache.size_bytes

    async def current(self, space: SpaceId, /) -> "SpaceIndex":
        """Return the index of `space` with everything committed before this call."""
        cached_index = self._indexes.get(space)
        if cached_index is not None and await self._stands(space, cached_index):
            return cached_index.index
        async with self._lock(space):
            cached_index = self._indexes.get(space) or self._leaving.pop(space, None) or await self._load(space)
            index = await self._bring_up(space, cached_index)
        if len(self._leaving) > LEAVING_AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        return index

    async def _stands(self, space: SpaceId, entry: _CachedIndex) -> bool:
        """Return whether nothing was committed since `entry` was updated; only then is there nothing to wait for."""
        mark_entry = entry.mark
        if mark_entry is None or not entry.is_clean or space in self._fed or self._leaving:
            return False
        entries = await self._store.journal(space, after=mark_entry.sequence - 1, limit=PAGE)
        # After the wait: another caller may have replaced this index, or be folding into it.
        is_current = self._indexes.get(space) is entry and entry.mark is mark_entry and not self._is_locked(space)
        return is_current and len(entries) == 1 and entries[0] == mark_entry and self._cache.get(space) is entry.index

    def feed(self, space: SpaceId, fed_commit: FedCommit, /) -> None:
        """Record what was just committed, so that the fold need not read it from the store again.

        It may be incomplete: what does not connect to the indexed or recorded entries is left to the journal. Much of
        it is folded at once, so that little waits.
        """
        cached_index = self._indexes.get(space)
        commits = self._fed.get(space)
        last_entry = commits.newest if commits is not None else cached_index.mark if cached_index is not None else None
        if fed_commit.first != (last_entry.sequence + 1 if last_entry is not None else 1):
            self._fed.pop(space, None)
            return
        if commits is None:
            commits = self._fed[space] = WaitingCommits()
        commits.add(fed_commit)
        if commits.documents < FED_AT_ONCE or self._is_locked(space):
            return
        if commits.takes_long():
            # Counted again from here, so that not every later commit starts a task.
            commits.documents = 0
            self._start(self._fold_in_turns(space))
            return
        cached_index = cached_index or _CachedIndex(self._empty())
        self._drain(space, cached_index)
        self._keep(space, cached_index)

    async def rebuild(self, space: SpaceId, /) -> "SpaceIndex":
        """Rebuild the index of `space` only from its journal, without a checkpoint."""
        async with self._lock(space):
            return await self._bring_up(space, _CachedIndex(self._empty()))

    def _forget_tokens(self, space: SpaceId | None = None) -> None:
        """Clear the cached words of texts and queries of every space, and the parsed documents of `space`."""
        if space is not None:
            self.readings.forget(space)
        self._analyser.forget()
        forget_answers()

    def _empty(self) -> "SpaceIndex":
        # Imported late: a process that searches nothing needs no numeric library.
        from elytron_index.space_index import SpaceIndex

        return SpaceIndex(self._analyser, labels=self._statements.version)

    def _lock(self, space: SpaceId) -> asyncio.Lock:
        return self._locks.setdefault(space, asyncio.Lock())

    def _is_locked(self, space: SpaceId) -> bool:
        lock = self._locks.get(space)
        return lock is not None and lock.locked()

    def _drain(self, space: SpaceId, cached_index: _CachedIndex) -> None:
        """Fold fed commits that connect to the indexed entries."""
        commits = self._fed.pop(space, None)
        for run in commits.take() if commits is not None else ():
            if run.first == (cached_index.mark.sequence + 1 if cached_index.mark is not None else 1):
                if run.embedding is not None:
                    _compare_chosen(cached_index.index, run.embedding)
                embedded = _fitting_vectors(cached_index.index, run.embedded)
                changes = label_changes(run.changes, self._statements)
                cached_index.index.apply(changes, embedded=embedded, watermark=run.mark.sequence, touched=run.touched)
                cached_index.mark = run.mark

    def _keep(self, space: SpaceId, cached_index: _CachedIndex) -> None:
        if self._cache.get(space) is cached_index.index and cached_index.index.watermark == cached_index.counted_at:
            return
        self._indexes[space] = cached_index
        cached_index.counted_at = cached_index.index.watermark
        if cached_index.index.is_sparse:
            self._start(_compact_index(cached_index.index))
        if self._storing is CheckpointPolicy.AS_THEY_GROW and cached_index.is_due:
            cached_index.stored_at = cached_index.index.watermark
            self._start(self._store_aside(space, cached_index))
        for evicted_space in self._cache.put(space, cached_index.index):
            evicted_index = self._indexes.pop(evicted_space)
            self.readings.forget(evicted_space)
            if checkpoints.is_worth_it(evicted_index.grown):
                self._leaving[evicted_space] = evicted_index
                self._start(self._store_leaving(evicted_space, evicted_index))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        # Whichever call started it: it may concern another space, and returns nothing to the caller.
        with calling_as(SERVER):
            task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store_leaving(self, space: SpaceId, cached_index: _CachedIndex) -> None:
        """Store an index that is being dropped, unless it is used again before."""
        async with self._lock(space):
            if self._leaving.get(space) is cached_index:
                try:
                    await self._store_quietly(space, cached_index, _checkpoint_of(cached_index))
                finally:
                    self._leaving.pop(space, None)

    async def _store_aside(self, space: SpaceId, cached_index: _CachedIndex) -> None:
        """Store a growing index while it is in use, one at a time, unless it is dropped before."""
        async with self._aside:
            now = asyncio.get_running_loop().time
            started_at = now()
            if self._indexes.get(space) is cached_index and started_at < self._until:
                await self._store_quietly(space, cached_index, _checkpoint_of(cached_index))
                cached_index.rests_until = now() + checkpoints.RESTS * (now() - started_at)

    def _store_again(self, space: SpaceId, cached_index: _CachedIndex) -> None:
        """Schedule rewriting a checkpoint that an erasure removed, once for many erasures."""
        cached_index.saved = 0
        is_small = cached_index.index.units < checkpoints.ASIDE_LEAST
        if self._storing is not CheckpointPolicy.AS_THEY_GROW or cached_index.timer is not None or is_small:
            return
        loop = asyncio.get_running_loop()

        def begin() -> None:
            cached_index.timer = None
            if self._indexes.get(space) is cached_index:
                self._start(self._store_aside(space, cached_index))

        cached_index.timer = loop.call_at(max(cached_index.rests_until, loop.time() + checkpoints.SETTLED_S), begin)

    async def _store_quietly(self, space: SpaceId, entry: _CachedIndex, checkpoint: IndexCheckpoint | None) -> None:
        if checkpoint is not None:
            with suppress(ElytronError):  # it only saves time when the index is needed again
                await self._write(space, entry, checkpoint)

    async def _fold_in_turns(self, space: SpaceId) -> None:
        """Fold fed commits in steps, without waiting for a recall."""
        with suppress(ElytronError):  # the recall gets the error
            await self.current(space)

    async def _bring_up(self, space: SpaceId, cached_index: _CachedIndex) -> "SpaceIndex":
        if (commits := self._fed.get(space)) is not None:
            await commits.count(self._analyser, cached_index.index)
        self._drain(space, cached_index)
        old_index, cached_index = cached_index, await self._fold(space, cached_index)
        await _remove_late_checkpoint(self._store, space, old_index, cached_index)
        if not cached_index.is_clean:
            # Erased text must leave no word behind, neither in memory nor in the next checkpoint.
            await _cover_again(self._store, space, cached_index.index)
            await _purge_index(cached_index.index)
            self._forget_tokens()
            cached_index.is_clean = True
            self._store_again(space, cached_index)
        self._keep(space, cached_index)
        return cached_index.index

    async def settle_erasure(self, space: SpaceId, /) -> None:
        """Remove the words of what was just erased from the index of `space`, if it is in memory."""
        if self._indexes.get(space) is None and space not in self._leaving and not self._is_locked(space):
            self.drop(space)
            return
        try:
            await self.current(space)
        except BaseException:
            self.drop(space)
            raise

    def drop(self, space: SpaceId, /) -> None:
        """Drop the index of `space`; the next use rebuilds it."""
        self._forget_tokens(space)
        self._cache.drop(space)
        if (cached_index := self._indexes.pop(space, None)) is not None:
            cached_index.cancel()
        self._leaving.pop(space, None)
        self._fed.pop(space, None)

    async def checkpoint(self, /, *, within_s: float = math.inf) -> int:
        """Store the indexes that have grown, see `_most_grown`; return their number, including those already being
        stored."""
        saved_before = {space: entry.saved for space, entry in self._indexes.items()}
        for entry in self._indexes.values():
            entry.cancel()
        self._until = asyncio.get_running_loop().time() + within_s
        while self._tasks:
            await asyncio.wait(self._tasks)
        for space, entry in _most_grown(self._indexes, until=self._until):
            if (checkpoint := _checkpoint_of(entry)) is not None:
                with calling_as(SERVER):
                    await self._write(space, entry, checkpoint)
        self._until = math.inf
        return sum(entry.saved > saved_before.get(space, entry.saved) for space, entry in self._indexes.items())

    async def _write(self, space: SpaceId, cached_index: _CachedIndex, checkpoint: IndexCheckpoint) -> None:
        if await checkpoint.write(self._store, space):
            cached_index.saved = max(cached_index.saved, checkpoint.frozen.watermark)

    async def _load(self, space: SpaceId) -> _CachedIndex:
        """Return the index in the checkpoint, or an empty one if none can be trusted."""
        self.readings.forget(space)
        checkpoint = await checkpoints.read_checkpoint(self._store, space, self._analyser, self._statements.version)
        if checkpoint is None:
            return _CachedIndex(self._empty())
        index, mark_entry = checkpoint
        return _CachedIndex(index, mark_entry, index.watermark, clean=index.watermark, is_loaded=True)

    async def _fold(self, space: SpaceId, cached_index: _CachedIndex) -> _CachedIndex:
        """Return `cached_index` caught up with the journal, or a new one if its space was recreated."""
        catching_up = CatchingUp(self._store, space, self._progress)
        while True:
            # The mark is read again: if it is another entry now, the space was erased and recreated.
            sequence = cached_index.mark.sequence - 1 if cached_index.mark is not None else 0
            entries = await self._store.journal(space, after=sequence, limit=PAGE)
            is_last = len(entries) < PAGE
            if cached_index.mark is not None:
                # An erasure removes the digest from the entries of what it erases.
                if not entries or entries[0] not in {cached_index.mark, replace(cached_index.mark, digest="")}:
                    self._forget(space)
                    self._forget_tokens(space)
                    cached_index = _CachedIndex(self._empty())
                    continue
                entries = entries[1:]
                sequence += 1
            elif entries:
                # No document that was erased by now is read from here on.
                cached_index.clean = entries[-1].sequence if is_last else await end_of(self._store, space, PAGE)
            await catching_up.at(sequence, entries[-1].sequence if entries else sequence, is_all=is_last)
            if not entries:
                cached_index.clean = sequence
                return cached_index
            unseen = [entry for entry in entries if entry.sequence > cached_index.clean]
            if any(entry.covers > 1 for entry in unseen):
                # A compacted run no longer names what was erased in it.
                self._forget_tokens(space)
                cached_index = _CachedIndex(self._empty())
                continue
            await _fold_page(
                self._store, space, cached_index.index, entries, analyser=self._analyser, statements=self._statements
            )
            actions = {entry.action for entry in unseen}
            self.readings.drop(space, [entry.ref for entry in unseen], with_lists=not actions.isdisjoint(_REMOVALS))
            if JournalAction.ERASE in actions:
                cached_index.index.renew_versions()
                cached_index.is_clean = False
            cached_index.mark = entries[-1]
            if self.meet_mark is not None and any(map(_may_mark, unseen)):
                self.meet_mark(space)


async def _cover_again(store: Store, space: SpaceId, index: "SpaceIndex") -> None:
    """Fold all overrides again: those of erased memories have no words any more."""
    if index.planes().get(COVERED):
        edits = {document.ref: document async for document in scan_documents(store, space, EDITS)}
        index.apply(await _covered_changes(store, space, edits), watermark=index.watermark)


async def _purge_index(index: "SpaceIndex") -> None:
    """Remove words that were erased from `index`."""
    work_steps = WorkSteps()
    for _ in index.own_parts():
        await work_steps.step()
    index.purge()


def _may_mark(entry: JournalEntry) -> bool:
    """Return whether `entry` may be of an erasure that another process began."""
    return entry.ref == REF and entry.action is JournalAction.MAINTENANCE


_REMOVALS: Final = frozenset({JournalAction.ERASE, JournalAction.DELETE})


async def _fold_page(
    store: Store,
    space: SpaceId,
    index: "SpaceIndex",
    entries: Sequence[JournalEntry],
    /,
    *,
    analyser: TextAnalyser,
    statements: StatementClassifier,
) -> None:
    """Fold what a page of the journal names, in its current state."""
    sequences: dict[DocumentRef, int] = {}
    for entry in entries:
        sequences[entry.ref] = entry.sequence if is_renewed(entry.ref) else sequences.get(entry.ref, entry.sequence)
    sources = [ref for ref in sequences if ref.collection in INDEXED]
    vector_refs = dict.fromkeys(ref for ref in sequences if ref.collection == VECTORS)
    # A memory that is shown again brings no vectors: they may have been stored long before.
    vector_refs |= dict.fromkeys(vectors_ref(ref, model) for model in index.models() for ref in sources)
    choices = [CHOICE] if CHOICE in sequences else []
    edits = [ref for ref in sequences if ref.collection == EDITS]
    subjects = [ref for ref in sequences if ref.collection == SUBJECTS]
    documents = await _read_documents(store, space, [*sources, *vector_refs, *choices, *edits, *subjects])
    steps, values = WorkSteps(), dict[DocumentRef, Value]()
    for ref in sources:
        if (document := documents[ref]) is not None:
            values[ref] = indexed_value(document)
            await steps.step()
    replaced_refs = {
        old_ref for value in values.values() if (old_ref := replaced_fact(value)) is not None
    } - values.keys()
    for ref, document in (await _read_documents(store, space, list(replaced_refs))).items():
        if document is not None:
            values[ref] = indexed_value(document)
    changes: list[DocumentChange] = []
    for ref in sources:
        changes.append(value_change(ref, values.get(ref), sequences[ref], values))
        await steps.step()
    changes += [DocumentChange(ref, called=_document_names(documents[ref])) for ref in subjects]
    if edits:
        changes += await _covered_changes(store, space, {ref: documents[ref] for ref in edits})
    if take_long(changes):
        changes = await count_terms(analyser, changes, index)
    # Each document is replaced as a whole; whoever asks for the index waits until it has all of them.
    for start in range(0, len(changes), APPLIED_AT_ONCE):
        labelled_changes = label_changes(changes[start : start + APPLIED_AT_ONCE], statements)
        index.apply(labelled_changes, watermark=index.watermark)
        await steps.step()
    index.apply(
        (),
        embedded=_fitting_vectors(index, [embedded_of(*source_of(ref), documents[ref]) for ref in vector_refs]),
        watermark=entries[-1].sequence,
        touched={entry.ref.collection for entry in entries},
    )
    for document in (documents[ref] for ref in choices):
        _compare_chosen(index, EmbeddingChoice.from_bytes(document.body) if document is not None else None)


async def _covered_changes(
    store: Store, space: SpaceId, edits: Mapping[DocumentRef, Document | None]
) -> list[DocumentChange]:
    """Return the changes for edits: for overrides, the words of the memories beneath them."""
    overrides = {
        ref: MemoryOverride.from_bytes(document.body) for ref, document in edits.items() if document is not None
    }
    edited_refs = {
        ref: edited_ref for ref, edit in overrides.items() if (edited_ref := overridden_ref(edit)) is not None
    }
    documents = await _read_documents(store, space, list(dict.fromkeys(edited_refs.values())))
    units = {
        ref: unit
        for ref, edited_ref in edited_refs.items()
        if (document := documents[edited_ref]) is not None
        and (unit := covered_unit(ref, overrides[ref], document)) is not None
    }
    return [DocumentChange(ref, (units[ref],) if ref in units else ()) for ref in edits]


async def _read_documents(
    store: Store, space: SpaceId, refs: Sequence[DocumentRef]
) -> dict[DocumentRef, Document | None]:
    documents: dict[DocumentRef, Document | None] = {}
    for start in range(0, len(refs), limits.SCAN_MAX):
        page = refs[start : start + limits.SCAN_MAX]
        documents |= zip(page, await store.get(space, page), strict=True)
    return documents


def _document_names(document: Document | None) -> tuple[str, ...]:
    return subject_names(Subject.from_bytes(document.body)) if document is not None else ()


def _compare_chosen(index: "SpaceIndex", choice: EmbeddingChoice | None, /) -> None:
    if choice is None:
        index.compare("")
    else:
        index.compare(choice.tag, is_english=choice.reach is ModelReach.ENGLISH)


def _fitting_vectors(index: "SpaceIndex", embedded: Sequence[EmbeddedDocument]) -> list[EmbeddedDocument]:
    """Return `embedded` without vectors of another dimension than their model's first ones, which nothing compares."""
    dimensions: dict[str, int | None] = {}
    documents: list[EmbeddedDocument] = []
    for embedded_document in embedded:
        vector_sizes = {len(data) for data in embedded_document.vectors.values()}
        dimension = dimensions.setdefault(embedded_document.model, index.dimensions_of(embedded_document.model))
        if dimension is None and vector_sizes:
            dimension = dimensions[embedded_document.model] = min(vector_sizes) // 4
        documents.append(
            embedded_document
            if dimension is None or vector_sizes <= {4 * dimension}
            else EmbeddedDocument(embedded_document.ref, embedded_document.model, {})
        )
    return documents


async def _remove_late_checkpoint(
    store: Store, space: SpaceId, loaded: _CachedIndex, cached_index: _CachedIndex
) -> None:
    """Remove the checkpoint of `loaded` if it contains erased words: a process died that published it too late."""
    if loaded.is_loaded and loaded.mark is not None and (cached_index is not loaded or not cached_index.is_clean):
        with calling_as(SERVER):
            await checkpoints.remove_checkpoint(store, space, loaded.mark.at)
    loaded.is_loaded = False


def _most_grown(indexes: Mapping[SpaceId, _CachedIndex], /, *, until: float) -> Iterator[tuple[SpaceId, _CachedIndex]]:
    """Yield those that have grown since their checkpoint, most grown first; after the first, none after `until`."""
    grown_indexes = sorted(
        (item for item in indexes.items() if item[1].grown), key=lambda item: item[1].grown, reverse=True
    )
    for position, item in enumerate(grown_indexes):
        if position and asyncio.get_running_loop().time() >= until:
            logger.info(
                "%d indexes were left without a new checkpoint: there was no more time", len(grown_indexes) - position
            )
            return
        yield item


def _checkpoint_of(entry: _CachedIndex) -> IndexCheckpoint | None:
    """Return `entry` in its current state, to be stored; None if it is empty, or contains erased words."""
    return IndexCheckpoint(entry.mark, entry.index.freeze()) if entry.mark is not None and entry.is_clean else None


async def _compact_index(index: "SpaceIndex") -> None:
    """Compact `index` in another thread, while it stays in use, unless that is running or no longer needed."""
    compaction = index.begin_compacting() if index.is_sparse else None
    if compaction is None:
        return
    try:
        compacted_state = await asyncio.to_thread(compaction.compacted)
    except BaseException:
        index.abandon_compacting()
        raise
    index.finish_compacting(compacted_state)
