"""Checking and repairing a sealed store."""

import dataclasses

import pytest
from tests.store.sealing import Witness, inner_space, plant, raw, seal

from elytron_conformance.examples import (
    ADA,
    batch,
    fact,
    journal,
    one,
    put,
)
from elytron_core import limits
from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    CommitReceipt,
    Document,
    EntryDraft,
    JournalAction,
    PutChange,
)
from elytron_core.ports.store_checks import CheckReport, DamageKind, StoreProblem
from elytron_store.memory import MemoryStore
from elytron_store.sealed.records import QUARANTINE
from elytron_store.sealed.store import SealedStore

pytestmark = pytest.mark.anyio


class TestChecking:
    """`check` opens everything, and `repair` quarantines what does not open."""

    async def damaged(self) -> tuple[Witness, SealedStore, SpaceId]:
        inner = Witness()
        store = await seal(inner)
        await store.commit(
            batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0), PutChange(fact(3), b"three", 0))
        )
        space = await inner_space(inner)
        kept = await raw(inner, space, fact(2))
        await plant(inner, space, dataclasses.replace(kept, body=kept.body[::-1]))
        return inner, store, space

    async def test_a_check_names_each_document_that_does_not_open_once(self) -> None:
        _, store, _ = await self.damaged()
        wanted = StoreProblem(DamageKind.DOCUMENT, ADA, "document facts/0002")
        for _ in range(2):
            report = await store.check()
            assert report == CheckReport(spaces=1, documents=3, entries=5, blobs=0, problems=(wanted,))

    async def test_a_repair_quarantines_a_document_and_keeps_its_bytes(self) -> None:
        inner, store, space = await self.damaged()
        before = (await raw(inner, space, fact(2))).body
        report = await store.repair()
        assert report.problems == (StoreProblem(DamageKind.DOCUMENT, ADA, "document facts/0002", quarantined=True),)
        assert await one(store, fact(2)) is None
        assert await store.check() == CheckReport(spaces=1, documents=2, entries=7, blobs=0)
        (aside,) = await inner.scan(space, QUARANTINE, limit=2)
        assert aside.body == before
        assert [(entry.action, entry.ref) for entry in (await journal(store))[-2:]] == [
            (JournalAction.MAINTENANCE, fact(2)),
            (JournalAction.MAINTENANCE, aside.ref),
        ]
        assert await put(store, fact(2), b"anew") == CommitReceipt(8, 8)

    async def test_a_repair_preserves_concurrent_writes(self) -> None:
        inner, store, space = await self.damaged()

        async def rewrite() -> None:
            await plant(inner, space, dataclasses.replace(await raw(inner, space, fact(2)), revision=2))

        inner.before("commit", rewrite)
        report = await store.repair()
        assert report.problems == (StoreProblem(DamageKind.DOCUMENT, ADA, "document facts/0002"),)

    async def test_damage_in_the_inner_store_hides_nothing_else(self) -> None:
        inner, store, _ = await self.damaged()

        async def corrupt() -> None:
            raise StoreCorrupt(what="document facts/0001")

        inner.before("scan", corrupt, when=lambda collection: collection == "facts")
        inner.before("get", corrupt, when=lambda refs: refs == [fact(1)])
        assert (await store.check()).problems == (StoreProblem(DamageKind.DOCUMENT, ADA, "document facts/0002"),)
        inner.before("journal", corrupt)
        assert (await store.check()).ok

    async def test_problems_of_the_inner_store_are_reported_for_the_real_space(self) -> None:
        class Complaining(MemoryStore):
            async def check(self) -> CheckReport:
                found = await super().check()
                told = tuple(
                    StoreProblem(DamageKind.BLOB, space, "blob aa") for space in [*await self.spaces(limit=9), None]
                )
                return dataclasses.replace(found, problems=told)

        store = await seal(Complaining())
        await put(store, fact(1))
        problems = (await store.check()).problems
        assert sorted(problem.space or "" for problem in problems) == ["", "", ADA]

    async def test_a_report_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        inner = MemoryStore()
        store = await seal(inner)
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(4))))
        space = await inner_space(inner)
        for number in range(4):
            await plant(inner, space, Document(fact(number), 1, b"not sealed"))
        monkeypatch.setattr(limits, "PROBLEMS_MAX", 3)
        report = await store.check()
        assert (len(report.problems), report.clipped) == (3, True)

    async def test_documents_without_a_journal_entry_are_found_by_collection(self) -> None:
        inner = MemoryStore()
        store = await seal(inner)
        told = (EntryDraft(JournalAction.WRITE, fact(1)),)
        await store.commit(batch(PutChange(fact(1), b"", 0), PutChange(fact(2), b"", 0), entries=told))
        await plant(inner, await inner_space(inner), Document(fact(2), 1, b"not sealed"))
        assert [problem.what for problem in (await store.check()).problems] == ["document facts/0002"]
