"""Many memories are erased together: found by adjacent keys, emptied in parts, removed at once."""

from collections.abc import Sequence

import pytest
from tests.sdk.told import talk, texts

import elytron
from elytron.documents import stored_values
from elytron.documents.stored_values import documents_under
from elytron.erasure.removal import erase_many
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId
from elytron_core.planes import transcript
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange
from elytron_core.scope import Scope
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

SPACE = SpaceId("ada")


@pytest.mark.parametrize("prefix", [("a.1.",), ("a.1.", "a.4."), ("a.0.", "a.1.", "a.3.", "a.5."), ("b.",), ()])
async def test_documents_are_found_by_key_prefix(prefix: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_values, "_AT_ONCE", 2)
    store = MemoryStore()
    keys = [f"a.{turn}.{tag}" for turn in range(1, 5) for tag in "def"]
    refs = [DocumentRef("attributes", key) for key in (*keys, "a.1", "a.10.d")]
    puts = tuple(PutChange(ref, b"", 0) for ref in refs)
    entries = tuple(EntryDraft(JournalAction.WRITE, ref, "d") for ref in refs)
    await store.commit(Batch(space=SPACE, at=FrozenClock().now(), entries=entries, puts=puts))
    found = await documents_under(store, SPACE, "attributes", prefix)
    assert [document.ref.key for document in found] == [key for key in keys if key.startswith(tuple(prefix))]


async def test_many_documents_are_emptied_in_parts_and_removed_at_once(
    memory: elytron.MemoryRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WRITES_PER_REQUEST", 2)
    ids = [(await talk(memory, (EvidenceRole.USER, f"Tea {number}"))).ids[0] for number in range(5)]
    assert memory.scope is not None
    assert await erase_many(memory.context, Scope(space=memory.scope.space), [*ids[:4], "nothing"]) == 4
    assert await texts(memory, "tea") == ["Tea 4"]
    kept = await memory.context.store.scan(memory.scope.space, transcript.TURNS, limit=10)
    assert [document.ref.key for document in kept] == [ids[4]]
    journal = await memory.context.store.journal(memory.scope.space, after=0, limit=100)
    assert [entry.action for entry in journal].count(JournalAction.ERASE) == 1
    assert await erase_many(memory.context, Scope(space=memory.scope.space), ids[:4]) == 0
