"""All engines match one simple model, step by step, down to the class and data of each error.

`ELYTRON_HYPOTHESIS=long` runs it far more often and longer.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.store.mcp_file_server import FileServer
from tests.store.mcp_rig import opened as opened_on_tools
from tests.transports.live import Live

from elytron_adapter.http.store import store_surfaces
from elytron_conformance.examples import AT, blob, source
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import Conflict, ElytronError, IdempotencyConflict, NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    ERASURE_REF,
    Batch,
    BatchKey,
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
    RequireRevision,
    Store,
)
from elytron_core.ports.store_checks import CheckReport
from elytron_store.memory import MemoryStore
from elytron_store.store_urls import open_store

LONG = settings.default is not None and settings.default.max_examples > 100
SPACES = st.sampled_from([SpaceId("ann"), SpaceId("anna"), SpaceId("\u00e4%/..")])
REFS = st.builds(
    DocumentRef, st.sampled_from(["facts", "turns"]), st.sampled_from(["0", "00", "0a", "a-1", "a.1", "ff"])
)
BLOB_KEYS = st.sampled_from(["aa", "ab"])
BODIES = st.sampled_from([b"", b"body", b"\x00\xff", bytes(5_000)])
MISSED = st.sampled_from([None, None, None, 0, 1])
"""The unmet requirement of a batch. At most one: of several, an engine may report any."""
CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "delete", "require"]), REFS, BODIES),
    max_size=4,
    unique_by=lambda change: change[1],
)
DIGESTS = st.sampled_from(["d", "e"])
ONCE = st.none() | st.builds(BatchKey, st.sampled_from(["k", "K"]), DIGESTS, st.sampled_from([b"", b"yes"]))

ON_TOOLS = "mcp:"
"""The store on an MCP file server in this process."""
Change = tuple[str, DocumentRef, bytes]
Outcome = tuple[str, object]


@dataclass
class ModelSpace:
    """The content of a space, independent of any storage."""

    documents: dict[DocumentRef, Document] = field(default_factory=dict[DocumentRef, Document])
    journal: list[JournalEntry] = field(default_factory=list[JournalEntry])
    answered: dict[str, tuple[str, CommitReceipt]] = field(default_factory=dict[str, tuple[str, CommitReceipt]])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def revision(self, ref: DocumentRef) -> int:
        return self.documents[ref].revision if ref in self.documents else 0

    def commit(self, batch: Batch) -> CommitReceipt:
        once = batch.idempotency
        if once is not None and once.key in self.answered:
            digest, committed = self.answered[once.key]
            if digest != once.digest:
                raise IdempotencyConflict
            return replace(committed, replayed=True)
        wanted = [(change.ref, change.expects) for change in (*batch.puts, *batch.deletes)]
        for ref, expected in (*wanted, *((demand.ref, demand.revision) for demand in batch.requires)):
            if self.revision(ref) != expected:
                raise Conflict(what="", expected=expected, found=self.revision(ref))
        first = len(self.journal) + 1
        for entry in batch.entries:
            self.tell(batch.at, entry.action, entry.ref, entry.digest)
        for put in batch.puts:
            self.documents[put.ref] = Document(put.ref, put.expects + 1, put.body)
        for delete in batch.deletes:
            del self.documents[delete.ref]
        committed = CommitReceipt(first, len(self.journal), answer=b"" if once is None else once.answer)
        if once is not None:
            self.answered[once.key] = once.digest, committed
        return committed

    def erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        refs, keys = set(erasure.refs), set(erasure.blobs)
        gone = [self.documents.pop(ref) for ref in refs if ref in self.documents]
        blobs = [self.blobs.pop(key) for key in keys if key in self.blobs]
        scrubbed = [entry for entry in self.journal if entry.ref in refs and entry.digest]
        self.journal = [replace(entry, digest="") if entry.ref in refs else entry for entry in self.journal]
        for ref in dict.fromkeys(erasure.named or ()):
            self.tell(erasure.at, JournalAction.DELETE, ref, "")
        self.tell(erasure.at, JournalAction.ERASE, ERASURE_REF, "")
        return ErasureReceipt(len(gone), len(blobs), len(scrubbed), len(self.journal))

    def tell(self, at: Instant, action: JournalAction, ref: DocumentRef, digest: str) -> None:
        self.journal.append(JournalEntry(len(self.journal) + 1, at, action, ref, digest))


@pytest.fixture(scope="module", autouse=True)
def shared() -> Iterator[None]:
    """Serve a store that the machine's last engine reaches over HTTP."""
    with Live(further=(store_surfaces,)) as live:
        Engines.shared = live.url.replace("http://", "gateway+http://")
        yield


class Engines(RuleBasedStateMachine):
    """Drives the model and every engine through the same steps."""

    shared = ""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[SpaceId, ModelSpace] = {}
        self.at = AT
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stores: list[Store] = []

    @initialize()
    def open(self) -> None:
        root = Path(self.folder.name)
        self.urls = [f"file://{root}/files", f"sqlite://{root}/m.db", ON_TOOLS, self.shared]
        self.stores = [MemoryStore(), *(self.opened(url) for url in self.urls)]

    @rule(space=SPACES, changes=CHANGES, missed=MISSED, entries=st.integers(0, 2), once=ONCE)
    def commit(
        self, space: SpaceId, changes: Sequence[Change], missed: int | None, entries: int, once: BatchKey | None
    ) -> None:
        known = self.model.get(space, ModelSpace())
        expected = {ref: known.revision(ref) + (place == missed) for place, (_, ref, _) in enumerate(changes)}
        told = tuple(EntryDraft(JournalAction.WRITE, ref, f"{place}") for place, (_, ref, _) in enumerate(changes))
        batch = Batch(
            space=space,
            at=self.at,
            entries=told + (EntryDraft(JournalAction.LIFECYCLE, DocumentRef("turns", "0")),) * entries,
            puts=tuple(PutChange(ref, body, expected[ref]) for kind, ref, body in changes if kind == "put"),
            deletes=tuple(DeleteChange(ref, expected[ref]) for kind, ref, _ in changes if kind == "delete"),
            requires=tuple(RequireRevision(ref, expected[ref]) for kind, ref, _ in changes if kind == "require"),
            idempotency=once,
        )
        refused = not batch.entries or any(delete.expects < 1 for delete in batch.deletes)
        self.all_do(lambda store: store.commit(batch), None if refused else lambda: known.commit(batch))
        if known.journal:
            self.model[space] = known

    @rule(space=SPACES, changes=CHANGES)
    def commit_what_holds(self, space: SpaceId, changes: Sequence[Change]) -> None:
        known = self.model.get(space, ModelSpace())
        fitting = [change for change in changes if change[0] != "delete" or known.revision(change[1])]
        self.commit(space, fitting, None, 1, None)

    @rule(space=SPACES, ref=REFS, body=BODIES)
    def put(self, space: SpaceId, ref: DocumentRef, body: bytes) -> None:
        self.commit(space, [("put", ref, body)], None, 0, None)

    @rule(by=st.integers(-5, 1_000))
    def time_passes(self, by: int) -> None:
        self.at = Instant(self.at + by)

    @rule(space=SPACES, refs=st.lists(REFS, max_size=5))
    def get(self, space: SpaceId, refs: list[DocumentRef]) -> None:
        known = self.model.get(space, ModelSpace())
        self.all_do(lambda store: in_a_list(store.get(space, refs)), lambda: [known.documents.get(ref) for ref in refs])

    @rule(
        space=SPACES,
        prefix=st.sampled_from(["", "0", "a", "a.", "%"]),
        after=st.sampled_from(["", "0", "09", "a-1", "zz"]),
        limit=st.integers(0, 7),
        descending=st.booleans(),
    )
    def scan(self, space: SpaceId, prefix: str, after: str, limit: int, *, descending: bool) -> None:
        def wanted() -> list[Document]:
            known = self.model.get(space, ModelSpace()).documents
            keys = sorted((ref.key for ref in known if ref.collection == "facts"), reverse=descending)
            behind = [key for key in keys if not after or (key < after if descending else key > after)]
            return [known[DocumentRef("facts", key)] for key in behind if key.startswith(prefix)][:limit]

        self.all_do(
            lambda store: in_a_list(
                store.scan(space, "facts", prefix=prefix, after=after, limit=limit, descending=descending)
            ),
            wanted if limit else None,
        )

    @rule(space=SPACES, after=st.integers(0, 12), limit=st.integers(1, 12))
    def journal(self, space: SpaceId, after: int, limit: int) -> None:
        known = self.model.get(space, ModelSpace())
        self.all_do(
            lambda store: in_a_list(store.journal(space, after=after, limit=limit)),
            lambda: known.journal[after : after + limit],
        )

    @rule(space=SPACES, key=BLOB_KEYS, parts=st.lists(BODIES, max_size=3))
    def write_blob(self, space: SpaceId, key: str, parts: list[bytes]) -> None:
        def write() -> int:
            self.space(space).blobs[key] = b"".join(parts)
            return sum(len(part) for part in parts)

        self.all_do(lambda store: store.write_blob(space, key, source(parts)), write)

    @rule(space=SPACES, key=BLOB_KEYS)
    def read_blob(self, space: SpaceId, key: str) -> None:
        def read() -> bytes:
            known = self.model.get(space, ModelSpace()).blobs
            if key not in known:
                raise NotFound(what="blob", name=key)
            return known[key]

        self.all_do(lambda store: blob(store, key, space=space), read)

    @rule(space=SPACES, refs=st.lists(REFS, max_size=3), keys=st.lists(BLOB_KEYS, max_size=2))
    def erase(self, space: SpaceId, refs: list[DocumentRef], keys: list[str]) -> None:
        named = tuple(refs[::2])
        erasure = ErasureTarget(space=space, at=self.at, refs=tuple(refs), blobs=tuple(keys), named=named)
        self.all_do(lambda store: store.erase(erasure), lambda: self.space(space).erase(erasure))

    @rule(space=SPACES, whole=st.sampled_from([False, False, True]))
    def erase_space(self, space: SpaceId, *, whole: bool) -> None:
        if not whole:
            return  # rarely, or no space would live long enough to hold much
        gone = self.model.pop(space, ModelSpace())
        wanted = ErasureReceipt(len(gone.documents), len(gone.blobs), len(gone.journal), 0)
        self.all_do(lambda store: store.erase(ErasureTarget(space=space, at=self.at, whole_space=True)), lambda: wanted)

    @rule()
    def spaces(self) -> None:
        async def listed(store: Store) -> set[SpaceId]:
            return set(await store.spaces(limit=limits.SCAN_MAX))

        self.all_do(listed, lambda: set(self.model))

    @rule(repairs=st.booleans())
    def check(self, *, repairs: bool) -> None:
        known = self.model.values()
        wanted = CheckReport(
            spaces=len(known),
            documents=sum(len(space.documents) for space in known),
            entries=sum(len(space.journal) for space in known),
            blobs=sum(len(space.blobs) for space in known),
        )
        self.all_do(lambda store: store.repair() if repairs else store.check(), lambda: wanted)

    @rule()
    def reopen(self) -> None:
        """The durable ones are closed and reopened."""
        for place, url in enumerate(self.urls, 1):
            self.runner.run(self.stores[place].close())
            self.stores[place] = self.opened(url)

    def teardown(self) -> None:
        for space in self.model:
            # The server outlives the run, and its store must be empty for the next.
            self.runner.run(self.stores[-1].erase(ErasureTarget(space=space, at=self.at, whole_space=True)))
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()
        self.folder.cleanup()

    def space(self, space: SpaceId) -> ModelSpace:
        return self.model.setdefault(space, ModelSpace())

    def opened(self, url: str) -> Store:
        if url == ON_TOOLS:
            return self.runner.run(opened_on_tools(FileServer(Path(self.folder.name) / "tools"), FrozenClock()))
        return self.runner.run(open_store(url, clock=FrozenClock()))

    def all_do(self, call: Callable[[Store], Awaitable[object]], model: Callable[[], object] | None) -> None:
        """Make `call` on every store and require the outcome of `model`; without a model, the same refusal."""
        found = [self.runner.run(outcome_of(call, store)) for store in self.stores]
        wanted = found[0] if model is None else modelled(model)
        assert model is not None or wanted[0] != "answer"
        assert found == [wanted] * len(found)


async def in_a_list(call: Awaitable[Sequence[object]]) -> list[object]:
    return list(await call)


async def outcome_of(call: Callable[[Store], Awaitable[object]], store: Store) -> Outcome:
    try:
        return "answer", await call(store)
    except ElytronError as error:
        return told(error)


def modelled(model: Callable[[], object]) -> Outcome:
    try:
        return "answer", model()
    except ElytronError as error:
        return told(error)


def told(error: ElytronError) -> Outcome:
    """Return an error's class and the relevant part of its data."""
    match error:
        case IdempotencyConflict():
            return error.key, None
        case Conflict():
            return error.key, (error.expected, error.found)
        case _:
            return error.key, None


TestEngines = Engines.TestCase
TestEngines.settings = settings(max_examples=2_000 if LONG else 6, stateful_step_count=60 if LONG else 30)
