"""Full reads of a space for a report: counts by kind, or every entry and document."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from elytron.context import OperationContext
from elytron.indexing.checkpoints import Progress, end_of
from elytron.journal.verification import DigestAccount, EventFingerprint, HeadChain, StateFingerprint, space_documents
from elytron_core.clock import Instant
from elytron_core.contracts.inspection import HeadStanding, JournalAccount
from elytron_core.errors import SealBroken, SealError, SpaceIncomplete, SpaceLocked, StoreCorrupt, StoreError
from elytron_core.ids import SpaceId
from elytron_core.planes import embedding, tools, transcript
from elytron_core.planes import skills as planes_skills
from elytron_core.planes.space import COLLECTIONS, SpaceRecord
from elytron_core.policy.integrity import JournalHead
from elytron_core.ports import store
from elytron_core.ports.store import Document

if TYPE_CHECKING:
    from elytron_index.space_index import SpaceIndex

_DESCRIBED = (transcript.CONVERSATIONS, embedding.EMBEDDING, planes_skills.SKILLS, tools.REGISTRIES, tools.EXPERIENCES)
"""Collections for which a report says more than the number of documents."""
_STEP = 1_000
"""Number of entries read at once, and of entries and documents between two calls of `progress`."""
_VECTORS_AT_ONCE = 20


@dataclass(slots=True)
class SpaceReading:
    """Result of reading a space so far: counts and a few collections, or everything."""

    recorded_head: JournalHead | None = None
    is_checked: bool = False
    is_whole: bool = False
    exists: bool = False
    is_closed: bool = False
    """True if it is locked, or is being filled: nothing of it was read."""
    sequence: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    state: str = ""
    events: str = ""
    head: str = ""
    standing: HeadStanding | None = None
    account: JournalAccount | None = None
    conversations: list[transcript.Conversation] = field(default_factory=list[transcript.Conversation])
    units: int = 0
    index_bytes: int = 0
    compared: str | None = None
    unembedded: int = 0
    stale: int = 0
    embedded: dict[str, int] = field(default_factory=dict[str, int])
    models: dict[str, str] = field(default_factory=dict[str, str])
    """The names of models, by their tags."""
    skills: list[planes_skills.Skill] = field(default_factory=list[planes_skills.Skill])
    registries: dict[str, tools.AgentToolRegistrySnapshot] = field(
        default_factory=dict[str, tools.AgentToolRegistrySnapshot]
    )
    experiences: dict[str, tools.ToolExperience] = field(default_factory=dict[str, tools.ToolExperience])

    async def read(self, ctx: OperationContext, space: SpaceId, /) -> None:
        """Read the space, up to damage if it is checked; a locked one is then not read at all."""
        try:
            await self._read(ctx, space)
        except (StoreCorrupt, SealBroken):
            if not self.is_checked:
                raise
            self.state = self.events = self.head = ""
            self.standing = self.account = None
        except (SpaceLocked, SpaceIncomplete):
            if not self.is_checked:
                raise
            # That is no damage: the store's own check is all that can be reported.
            self.exists = self.is_closed = True

    @property
    def by_time(self) -> Sequence[transcript.Conversation]:
        """Return the conversations, oldest first."""
        return sorted(self.conversations, key=lambda head: (head.first_at or 0, head.channel, head.conversation))

    @property
    def times(self) -> tuple[Instant | None, Instant | None]:
        """Return when the first and the last message of the space were said."""
        first_times = [head.first_at for head in self.conversations if head.first_at is not None]
        last_times = [head.last_at for head in self.conversations if head.last_at is not None]
        return min(first_times, default=None), max(last_times, default=None)

    async def _read(self, ctx: OperationContext, space: SpaceId) -> None:
        record = await ctx.spaces.find(space)
        self.exists = record is not None
        if record is None or self.is_whole:
            await self._read_all(ctx, space, record)
        else:
            await self._read_described(ctx, space)
        if record is not None:
            index = await ctx.folds.current(space)
            self.sequence = self.sequence or index.watermark
            self.units, self.index_bytes = index.units, index.size_bytes
            await self._count_vectors(ctx, space, record, index)

    async def _read_described(self, ctx: OperationContext, space: SpaceId) -> None:
        counts = {name: await ctx.store.count(space, name) for name in COLLECTIONS}
        self.counts.update({name: count for name, count in counts.items() if count})
        async for document in space_documents(ctx.store, space, collections=_DESCRIBED):
            self._take(document)

    async def _read_all(self, ctx: OperationContext, space: SpaceId, record: SpaceRecord | None) -> None:
        """Read every entry and document with constant memory."""
        head_chain = HeadChain(record, self.recorded_head) if record is not None else None
        digest_account = DigestAccount(record) if record is not None and self.is_checked else None
        state_fingerprint, event_fingerprint, reading_steps = (
            StateFingerprint(),
            EventFingerprint(),
            await _ReadingSteps.begin(ctx, space),
        )
        async for entry in store.scan_entries(ctx.store, space, page=_STEP):
            event_fingerprint.add(entry)
            if head_chain is not None:
                head_chain.add(entry)
            if digest_account is not None:
                digest_account.tell(entry)
            self.sequence = entry.sequence
            reading_steps.take(entry.covers)
        async for document in space_documents(ctx.store, space):
            self.counts[document.ref.collection] += 1
            state_fingerprint.add(document)
            self._take(document)
            if digest_account is not None:
                digest_account.meet(document)
            reading_steps.take()
        if digest_account is not None:
            async for entry in store.scan_entries(ctx.store, space, after=self.sequence):
                digest_account.retell(entry)
            self.account = await asyncio.to_thread(digest_account.report, COLLECTIONS)
        if self.is_whole:
            self.state, self.events = (
                await asyncio.to_thread(state_fingerprint.hexdigest),
                event_fingerprint.hexdigest(),
            )
            self.head = str(head_chain.head) if head_chain is not None else ""
            if self.recorded_head is not None:
                self.standing = head_chain.standing if head_chain is not None else HeadStanding.ABSENT

    async def _count_vectors(
        self, ctx: OperationContext, space: SpaceId, record: SpaceRecord, index: "SpaceIndex"
    ) -> None:
        encoder = ctx.encoders.current
        model = record.model_tag(encoder.info.model) if encoder is not None else index.compared
        if model:
            self.unembedded, self.stale = index.unembedded(model), index.stale(model)
        units = index.models()
        if units.keys() - self.models.keys():
            # Any document with vectors of a model names it.
            async for document in store.scan_documents(ctx.store, space, embedding.VECTORS, page=_VECTORS_AT_ONCE):
                self._take(document)
                if not units.keys() - self.models.keys():
                    break
        self.embedded = {self.models[tag]: count for tag, count in units.items() if tag in self.models}

    def _take(self, document: Document) -> None:
        """Store the documents for which the report says more than that there is one."""
        match document.ref.collection:
            case transcript.CONVERSATIONS:
                head = transcript.Conversation.from_bytes(document.body)
                if head.turns:  # otherwise it only preserves its sequence
                    self.conversations.append(head)
            case embedding.EMBEDDING:
                self.compared = embedding.EmbeddingChoice.from_bytes(document.body).model
            case embedding.VECTORS:
                tag = document.ref.key.rpartition(".")[2]
                if tag not in self.models:
                    self.models[tag] = embedding.VectorSet.from_bytes(document.body).model
            case planes_skills.SKILLS:
                self.skills.append(planes_skills.Skill.from_bytes(document.body))
            case tools.REGISTRIES:
                snapshot = tools.StoredRegistry.from_bytes(document.body).snapshot
                self.registries[snapshot.registry_id] = snapshot
            case tools.EXPERIENCES:
                self.experiences[document.ref.key] = tools.ToolExperience.from_bytes(document.body)
            case _:
                pass


@dataclass(slots=True)
class _ReadingSteps:
    """Reports to the runtime's `progress` how much of a space was read."""

    progress: Progress | None
    total: int = 0
    count: int = 0

    @classmethod
    async def begin(cls, ctx: OperationContext, space: SpaceId, /) -> Self:
        """Return the steps of reading `space`; for a damaged one nothing is reported."""
        total_steps = 0
        if ctx.progress is not None:
            with suppress(StoreError, SealError):
                total_steps = await end_of(ctx.store, space, 1) + sum(
                    [await ctx.store.count(space, name) for name in COLLECTIONS]
                )
        return cls(ctx.progress, total_steps)

    def take(self, count: int = 1, /) -> None:
        count_before, self.count = self.count, self.count + count
        if self.progress is not None and self.count // _STEP > count_before // _STEP:
            self.progress(min(self.count, self.total), self.total)
