"""Stored answers of repeated calls: readable by the same call, and by nobody from the store alone."""

from pathlib import Path

import pytest

import elytron
from elytron.documents.stored_values import opened_answer, sealed_answer
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import ProcedureSource, RuntimeSkillWrite
from elytron_core.errors import StoreCorrupt
from elytron_core.planes.space import SpaceRecord

RECORD = SpaceRecord(secret="5e" * 32, created_at=Instant(0))
OTHER = SpaceRecord(secret="5f" * 32, created_at=Instant(0))


def test_an_answer_is_read_only_with_the_same_key_and_request() -> None:
    kept = sealed_answer(b"told", RECORD, "key", b"request")
    assert b"told" not in kept
    assert opened_answer(kept, RECORD, "key", b"request") == b"told"
    assert sealed_answer(b"told", RECORD, "key", b"request") != kept
    for record, key, request in ((OTHER, "key", b"request"), (RECORD, "ke", b"yrequest"), (RECORD, "key", b"other")):
        with pytest.raises(StoreCorrupt):
            opened_answer(kept, record, key, request)
    for damaged in (kept[:-1], kept[:5], kept[:1], b'{"space":"ada"}'):
        with pytest.raises(StoreCorrupt):
            opened_answer(damaged, RECORD, "key", b"request")


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["m.db", "folder/"])
async def test_an_erased_skill_is_in_no_stored_answer_and_a_repeat_still_acts_once(tmp_path: Path, name: str) -> None:
    word = "canary7531"
    skill = RuntimeSkillWrite(
        name=word, topic=word, title=word, summary=word, content="1. Fetch the key.\n2. Open the door with it."
    )
    request = elytron.MemoryWriteRequest(write=ProcedureSource(writes=(skill,)), idempotency_key="once")
    async with elytron.open(f"{tmp_path}/{name}", space="ada") as memory:
        first = await memory.write(request)
        again = await memory.write(request)
        assert (again.decisions, again.duplicated) == (first.decisions, True)
        await memory.erase(elytron.MemoryEraseRequest(ids=first.ids))
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path for path in files if word.encode() in path.read_bytes()] == []
        late = await memory.write(request)
        assert (late.decisions, late.duplicated) == (first.decisions, True)
        assert (await memory.recall(word)).hits == ()
