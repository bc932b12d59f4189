"""The runtime's own records: written only by its port, atomically, and erased with what they repeat."""

from functools import partial
from pathlib import Path

import pytest

import elytron
from elytron.runtime_records import RecordDraft, RuntimeRecords, records_of
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod, MemoryMaintainRequest
from elytron_core.errors import InvalidInput, NotFound, PermissionRefused, PreconditionFailed, Unsupported
from elytron_core.planes.jobs import MaintenancePass
from elytron_core.planes.records import copies_of_turn

pytestmark = pytest.mark.anyio


def unchanged(
    drafts: tuple[RecordDraft, ...], _turn_id: str | None, _message_ids: tuple[str, ...], /
) -> tuple[RecordDraft, ...]:
    return drafts


OWN = ("elytron:agent", "main")


async def stored(records: RuntimeRecords) -> dict[str, object]:
    return {each.key: each.value async for each in records.below()}


async def test_a_commit_is_atomic() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        run = RecordDraft(("elytron:run:one",), "0000", {"text": "Hello"}, expected_version=0)
        made = await records.put_all((run, RecordDraft(OWN, "main", {"open": "one"}, expected_version=0)))
        assert [each.version for each in made] == [1, 1]
        with pytest.raises(PreconditionFailed):
            await records.put_all((RecordDraft(OWN, "main", {"open": None}, expected_version=1), run))
        assert await stored(records) == {"0000": {"text": "Hello"}, "main": {"open": "one"}}
        assert (await records.put(OWN, "main", {"open": None}, expected_version=1)).version == 2
        assert (found := await records.get(OWN, "main")) is not None
        assert found.earlier == ()


async def test_no_record_operation_reaches_runtime_records() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        await records.put(OWN, "main", {"open": "one"}, text="a boat")
        for namespace in (OWN, ("ELYTRON:agent", "main"), ("llm-proxy",), ("LLM-Proxy-2",), ("elytron:",)):
            with pytest.raises(PermissionRefused):
                await memory.put_record(namespace, "main", {"open": "two"})
            with pytest.raises(PermissionRefused):
                await memory.delete_record(namespace, "main")
        with pytest.raises(NotFound):
            await memory.get_record(OWN, "main", include_private=True)
        assert (await memory.search_records((), include_private=True)).items == ()
        assert (await memory.list_record_namespaces((), include_private=True)).namespaces == ()
        assert (await memory.recall("a boat", filters={"planes": ["records"]}, include_private=True)).hits == ()
        space = await memory.context.spaces.find(memory.context.scope_of(elytron.MemoryGetRequest(id="x")).space)
        assert space is not None
        name = space.record_key(OWN, "main")
        for memory_id in (f"record:{name}", f"runtime_records:{name}", name):
            assert not (await memory.forget(memory_id)).changed
            assert not (await memory.erase(memory_id)).changed
        assert await stored(records) == {"main": {"open": "one"}}


async def test_runtime_records_are_erased_with_their_turn_and_space() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        draft = elytron.TurnDraft(messages=(elytron.Message(text="The boat is blue."),), host_id="one")
        scope = elytron.Scope(space="ada", conversation="boats")
        write = elytron.MemoryWriteRequest(scope=scope, write=elytron.TranscriptWrite(turns=(draft,)))
        (turn,) = (await memory.write(write)).ids
        await records.put(copies_of_turn("one", "boats"), "0000", "The boat is blue.")
        await records.put(copies_of_turn("one", "another"), "0000", "The cat is grey.")
        assert dict((await memory.erase(turn)).removed)["runtime_records"] == 1
        assert list((await stored(records)).values()) == ["The cat is grey."]
        assert (await memory.erase(whole_space="ada")).changed
        assert await stored(records) == {}


async def test_runtime_records_expire_and_credentials_are_redacted() -> None:
    clock = FrozenClock(Instant(1_000))
    async with elytron.open("memory:", space="ada", clock=clock) as memory:
        records = records_of(memory)
        made = await records.put(("llm-proxy", "nodes"), "x", {"key": "AKIAIOSFODNN7EXAMPLE"}, ttl_s=1)
        assert "AKIA" not in str(made.value)
        clock.advance(2_000)
        assert await records.get(("llm-proxy", "nodes"), "x") is None
        request = MemoryMaintainRequest(passes=(MaintenancePass.HYGIENE,), extraction=ExtractionMethod.OFF)
        assert (await memory.maintain(request)).passes[0].counts["records_expired"] == 1
        assert (await memory.inspect()).documents.get("runtime_records", 0) == 0


async def test_runtime_records_are_written_only_in_process_under_reserved_names() -> None:
    async with elytron.open("memory:", space="ada") as memory, elytron.open("memory:", space=None) as spaceless:
        with pytest.raises(InvalidInput, match="runtime's own"):
            await records_of(memory).put(("notes",), "x", 1)
        with pytest.raises(InvalidInput, match="no space"):
            records_of(spaceless)
    with pytest.raises(Unsupported, match="journal="):
        records_of(await elytron.connect("http://127.0.0.1:1"))


async def test_an_archive_restores_them_only_into_their_owners_own_store(tmp_path: Path) -> None:
    path = tmp_path / "ada.elytron"
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("The boat is blue.")
        await records_of(memory).put(OWN, "main", {"open": "one"})
        assert (await memory.export(path, include_private=True)).documents["runtime_records"] == 1
    async with elytron.open("memory:", space="ada") as other:
        report = await other.import_archive(path)
        assert (report.skipped, await stored(records_of(other))) == ({"runtime_records": 1}, {})
        seen = await other.inspect(check=True)
        assert seen.state_fingerprint == report.state_fingerprint
        assert seen.journal_account is not None
        assert (seen.journal_account.missing, seen.journal_account.altered) == (0, 0)
    async with elytron.open("memory:", space="ada") as own:
        await own.import_archive(elytron.MemoryImportRequest(path=str(path), with_agents=True))
        assert await stored(records_of(own)) == {"main": {"open": "one"}}
    async with elytron.open("memory:", space="ada") as new:
        await new.import_archive(path, mode=elytron.ImportMode.BOOTSTRAP)
        assert await stored(records_of(new)) == {}
    with pytest.raises(InvalidInput, match="requires the mode full_restore"):
        elytron.MemoryImportRequest(path=str(path), mode=elytron.ImportMode.BOOTSTRAP, with_agents=True)


async def test_an_opaque_value_is_stored_unchanged_and_others_are_redacted() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        secret = "AKIAIOSFODNN7EXAMPLE"
        opaque = RecordDraft(OWN, "opaque", {"data": secret}, is_opaque=True)
        await records.put_all((opaque, RecordDraft(OWN, "plain", {"data": secret})))
        values = await stored(records)
        assert values["opaque"] == {"data": secret}
        assert secret not in str(values["plain"])


async def test_exact_namespaces_exclude_nested_and_sibling_records() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        places = [("elytron:a",), ("elytron:a", "one"), ("elytron:a", "one", "below"), ("elytron:b",)]
        await records.put_all([RecordDraft(place, "k", str(place)) for place in places])
        within = [record.namespace async for record in records.within(places[1], places[3], ("elytron:none",))]
        assert within == [places[1], places[3]]


async def test_a_turn_and_its_records_are_committed_atomically() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        records = records_of(memory)
        said = elytron.Message(text="Our cat is called Bento.")
        for turn, expected in (("one", 0), ("two", 0)):
            delta = elytron.CanonicalTurnDelta(turn_id=turn, input_messages=(said,))
            request = elytron.MemoryTranscriptCommitRequest(scope=memory.scope, delta=delta)
            draft = RecordDraft(OWN, "main", {"turn": turn}, expected_version=expected)
            committed = records.commit_turn(request, [draft.name], partial(unchanged, (draft,)))
            if turn == "one":
                assert [record.value for record in await committed] == [{"turn": "one"}]
            else:
                with pytest.raises(PreconditionFailed):
                    await committed
        assert await stored(records) == {"main": {"turn": "one"}}
        assert len((await memory.list()).items) == 1
