"""Records: values by name with versions, found by namespace, fields, and words, gone after their expiry."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.contracts import facts, records
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod, MemoryMaintainRequest
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.errors import InvalidInput, NotFound, PreconditionFailed, Unsupported
from elytron_core.planes.facts import FactPrivacy
from elytron_core.planes.jobs import MaintenancePass
from elytron_core.profiles import ProfileName

pytestmark = pytest.mark.anyio

PREFS = ("users", "ada", "preferences")
NOTES = ("users", "ada", "notes")
SECOND_MS = 1_000


async def names(memory: elytron.MemoryRuntime, *namespace: str, **asked: Any) -> list[str]:
    report = await memory.search_records(namespace, **asked)
    return ["/".join((*item.namespace, item.key)) for item in report.items]


async def hygiene(memory: elytron.MemoryRuntime) -> dict[str, int]:
    request = MemoryMaintainRequest(passes=(MaintenancePass.HYGIENE,), extraction=ExtractionMethod.OFF)
    return (await memory.maintain(request)).passes[0].counts


async def test_a_record_is_put_read_and_replaced(memory: elytron.MemoryRuntime) -> None:
    first = await memory.put_record(PREFS, "theme", {"colour": "dark", "size": 3})
    assert (first.changed, first.record.version, first.record.namespace) == (True, 1, PREFS)
    assert not (await memory.put_record(PREFS, "theme", {"colour": "dark", "size": 3})).changed
    second = await memory.put_record(PREFS, "theme", {"colour": "light"})
    assert (second.record.version, second.record.id) == (2, first.record.id)
    found = await memory.get_record(PREFS, "theme")
    assert found.record == second.record
    assert (await memory.get(first.record.id)).text == '{"colour":"light"}'


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", [1, {"a": [None]}], {"a": {"b": 1}}])
async def test_any_json_round_trips_unchanged(memory: elytron.MemoryRuntime, value: object) -> None:
    await memory.put_record(PREFS, "any", value)  # pyright: ignore[reportArgumentType]
    found = (await memory.get_record(PREFS, "any")).record.value
    assert (found, type(found)) == (value, type(value))


async def test_one_and_true_are_two_values(memory: elytron.MemoryRuntime) -> None:
    await memory.put_record(PREFS, "flag", 1)
    assert (await memory.put_record(PREFS, "flag", True)).changed


async def test_a_put_of_another_version_is_refused(memory: elytron.MemoryRuntime) -> None:
    await memory.put_record(PREFS, "theme", "dark", expected_version=0)
    with pytest.raises(PreconditionFailed):
        await memory.put_record(PREFS, "theme", "light", expected_version=0)
    with pytest.raises(PreconditionFailed):
        await memory.delete_record(PREFS, "theme", expected_version=2)
    assert (await memory.put_record(PREFS, "theme", "light", expected_version=1)).record.version == 2
    assert (await memory.get_record(PREFS, "theme")).record.value == "light"


async def test_a_deleted_record_is_invisible_and_its_versions_continue(memory: elytron.MemoryRuntime) -> None:
    await memory.put_record(PREFS, "theme", "dark", text="The screen is dark.")
    gone = await memory.delete_record(PREFS, "theme", reason="asked to")
    assert (gone.changed, gone.version) == (True, 2)
    assert not (await memory.delete_record(PREFS, "theme")).changed
    with pytest.raises(NotFound):
        await memory.get_record(PREFS, "theme")
    assert await names(memory) == []
    assert await names(memory, query="dark screen") == []
    again = await memory.put_record(PREFS, "theme", "light", expected_version=0)
    assert again.record.version == 3
    versions = (await memory.record_history(PREFS, "theme")).versions
    assert [(one.version, one.value, one.deleted) for one in versions] == [
        (1, "dark", False),
        (2, None, True),
        (3, "light", False),
    ]


async def test_undoing_a_deletion_adds_a_version(memory: elytron.MemoryRuntime) -> None:
    put = await memory.put_record(PREFS, "theme", "dark")
    await memory.delete_record(PREFS, "theme")
    await memory.forget(elytron.MemoryForgetRequest(ids=(put.record.id,), undo=True))
    found = (await memory.get_record(PREFS, "theme")).record
    assert (found.value, found.version) == ("dark", 3)


async def test_records_are_found_by_namespace_and_by_fields(memory: elytron.MemoryRuntime) -> None:
    await memory.put_record(PREFS, "theme", {"colour": "dark", "owner": {"name": "Ada"}})
    await memory.put_record(NOTES, "tea", {"colour": "green"})
    await memory.put_record(("users", "bo"), "tea", {"colour": "green"})
    await memory.put_record(("usersx",), "tea", {"colour": "green"})
    assert await names(memory, "users", "ada") == ["users/ada/notes/tea", "users/ada/preferences/theme"]
    assert len(await names(memory)) == 4
    assert await names(memory, "users", where={"colour": "green"}) == ["users/ada/notes/tea", "users/bo/tea"]
    assert await names(memory, where={"owner.name": "Ada"}) == ["users/ada/preferences/theme"]


async def test_a_search_returns_pages(memory: elytron.MemoryRuntime) -> None:
    for number in range(5):
        await memory.put_record(NOTES, f"n{number}", number)
    first = await memory.search_records(NOTES, limit=2)
    last = await memory.search_records(NOTES, limit=2, offset=4)
    assert ([item.key for item in first.items], first.has_more) == (["n0", "n1"], True)
    assert ([item.key for item in last.items], last.has_more) == (["n4"], False)


async def test_search_matches_the_text_and_not_the_value(memory: elytron.MemoryRuntime) -> None:
    await memory.put_record(NOTES, "ferry", {"at": 6}, text="The ferry to Cacilhas leaves at six.")
    await memory.put_record(NOTES, "tram", {"words": "The ferry is not here."})
    await memory.put_record(("users", "bo"), "ferry", {"at": 7}, text="The ferry of Bo leaves at seven.")
    found = await memory.search_records(("users", "ada"), query="when does the ferry leave?")
    assert [item.key for item in found.items] == ["ferry"]
    assert (found.items[0].score or 0) > 0
    assert await names(memory, query="ferry", where={"at": {"gte": 7}}) == ["users/bo/ferry"]


async def test_recall_reads_records_only_if_its_filters_name_them(memory: elytron.MemoryRuntime) -> None:
    await memory.add("The ferry leaves from the old harbour.", speaker="Ada")
    put = await memory.put_record(NOTES, "ferry", 6, text="The ferry to Cacilhas leaves at six.")
    assert {hit.plane for hit in await memory.recall("ferry")} == {RecallPlane.TRANSCRIPT}
    assert {item.plane for item in await memory.list()} == {RecallPlane.TRANSCRIPT}
    asked = RecallFilters(planes=(RecallPlane.RECORDS,))
    assert [hit.id for hit in await memory.recall("ferry", filters=asked)] == [put.record.id]
    assert [hit.id for hit in await memory.recall("ferry", filters=RecallFilters(namespace=("users",)))] == [
        put.record.id
    ]
    assert [hit.id for hit in await memory.list(filters=asked)] == [put.record.id]
    told = await memory.recall("ferry", why_not=(put.record.id,))
    assert told.why_not[0].absence.value == "filtered"


async def test_namespaces_are_counted_and_truncated(memory: elytron.MemoryRuntime) -> None:
    await memory.put_record(PREFS, "theme", 1)
    await memory.put_record(NOTES, "tea", 1)
    await memory.put_record(NOTES, "tram", 1)
    await memory.put_record(("agents",), "a", 1)
    listed = await memory.list_record_namespaces()
    assert [(one.namespace, one.records) for one in listed.namespaces] == [(("agents",), 1), (NOTES, 2), (PREFS, 1)]
    cut = await memory.list_record_namespaces(("users",), max_depth=2)
    assert [(one.namespace, one.records) for one in cut.namespaces] == [(("users", "ada"), 3)]


async def test_an_expired_record_is_invisible_and_removed(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    put = await memory.put_record(NOTES, "code", 4711, text="The door code of today.", ttl_s=60)
    await memory.put_record(NOTES, "stays", 1)
    assert await names(memory, query="door code") == ["users/ada/notes/code"]
    clock.advance(60 * SECOND_MS)
    assert await names(memory, query="door code") == []
    assert await names(memory) == ["users/ada/notes/stays"]
    assert [one.records for one in (await memory.list_record_namespaces()).namespaces] == [1]
    asked = RecallFilters(planes=(RecallPlane.RECORDS,))
    assert len(await memory.list(filters=asked)) == 1
    for read in (memory.get_record, memory.record_history):
        with pytest.raises(NotFound):
            await read(NOTES, "code")
    with pytest.raises(NotFound):
        await memory.get(put.record.id)
    assert (await hygiene(memory))["records_expired"] == 1
    assert "records_expired" not in await hygiene(memory)


async def test_an_expired_records_name_is_free_and_its_history_empty(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await memory.put_record(NOTES, "code", 1, ttl_s=60)
    clock.advance(60 * SECOND_MS)
    put = await memory.put_record(NOTES, "code", 2, expected_version=0)
    assert put.record.version == 2
    assert [one.value for one in (await memory.record_history(NOTES, "code")).versions] == [2]


async def test_an_embedded_profile_supports_no_time_to_live() -> None:
    async with elytron.open("memory:", space="ada", profile=ProfileName.ESP_SDK) as memory:
        with pytest.raises(Unsupported):
            await memory.put_record(NOTES, "code", 1, ttl_s=60)
        assert (await memory.put_record(NOTES, "code", 1)).changed


async def test_private_records_are_shown_on_request(memory: elytron.MemoryRuntime) -> None:
    put = await memory.put_record(NOTES, "diary", "x", text="Ada loves the sea.", privacy=FactPrivacy.PRIVATE)
    assert await names(memory) == []
    assert await names(memory, query="sea") == []
    assert await names(memory, query="sea", include_private=True) == ["users/ada/notes/diary"]
    assert (await memory.list_record_namespaces()).namespaces == ()
    assert len((await memory.list_record_namespaces(include_private=True)).namespaces) == 1
    for read in (memory.get_record, memory.record_history):
        with pytest.raises(InvalidInput):
            await read(NOTES, "diary")
    with pytest.raises(InvalidInput):
        await memory.get(put.record.id)
    assert (await memory.get_record(NOTES, "diary", include_private=True)).record.value == "x"


async def test_credentials_are_redacted_in_values_and_texts(memory: elytron.MemoryRuntime) -> None:
    secret = "sk-" + "a1B2" * 12
    value = {"deep": [{"key": secret}], "plain": "tea"}
    put = await memory.put_record(NOTES, "login", value, text=f"The key is {secret}.")  # pyright: ignore[reportArgumentType]
    assert secret not in put.model_dump_json()
    assert sum(put.scrubbed.values()) == 2
    assert secret not in (await memory.get_record(NOTES, "login")).model_dump_json()


async def test_an_erased_record_leaves_no_byte_and_no_vector(tmp_path: Path, path: str) -> None:
    async with elytron.open(path, space="ada") as memory:
        put = await memory.put_record(NOTES, "word", "zanzibar", text="The island of Zanzibar.")
        await memory.put_record(NOTES, "word", "kilimanjaro", text="The mount Kilimanjaro.")
        report = await memory.erase(elytron.MemoryEraseRequest(ids=(put.record.id,)))
        assert report.removed == {"records": 1}
        assert await names(memory, query="island mount") == []
        with pytest.raises(NotFound):
            await memory.record_history(NOTES, "word")
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir()).lower()
    assert (b"zanzibar" in left, b"kilimanjaro" in left) == (False, False)


async def test_one_of_two_puts_that_expect_no_record_succeeds(memory: elytron.MemoryRuntime) -> None:
    puts = (memory.put_record(NOTES, "word", number, expected_version=0) for number in range(4))
    done = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(one) for one in done].count(PreconditionFailed) == 3
    assert (await memory.get_record(NOTES, "word")).record.version == 1


async def test_archives_include_records(tmp_path: Path, memory: elytron.MemoryRuntime) -> None:
    await memory.put_record(NOTES, "word", 1)
    await memory.put_record(NOTES, "word", 2)
    await memory.put_record(PREFS, "open", "to all", privacy=FactPrivacy.PUBLIC)
    whole, public = tmp_path / "whole.elytron", tmp_path / "public.elytron"
    await memory.export(str(whole), include_private=True)
    told = await memory.export(str(public), include_private=False)
    assert told.documents == {"records": 1}
    async with elytron.open("memory:", space="bo") as other:
        await other.import_archive(str(whole), mode=elytron.ImportMode.FULL_RESTORE)
        assert len((await other.record_history(NOTES, "word")).versions) == 2
    async with elytron.open("memory:", space="bo") as other:
        await other.put_record(NOTES, "word", 9)
        report = await other.import_archive(str(whole), mode=elytron.ImportMode.BOOTSTRAP)
        assert (report.imported, report.skipped.get("records")) == ({"records": 1}, 1)
        assert (await other.get_record(NOTES, "word")).record.value == 9
        again = await other.import_archive(str(public), mode=elytron.ImportMode.BOOTSTRAP)
        assert not again.changed


async def test_a_dry_run_stores_nothing(memory: elytron.MemoryRuntime) -> None:
    request = elytron.RecordPutRequest(namespace=NOTES, key="word", value=1, dry_run=True)
    report = await memory.put_record(request)
    assert (report.changed, report.record.version) == (False, 1)
    assert await names(memory) == []


async def test_values_are_bounded(memory: elytron.MemoryRuntime) -> None:
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    for value in (deep, "x" * 300_000, float("nan")):
        with pytest.raises(InvalidInput):
            elytron.RecordPutRequest(namespace=NOTES, key="big", value=value)  # pyright: ignore[reportArgumentType]


async def test_the_oldest_versions_are_dropped_first(memory: elytron.MemoryRuntime) -> None:
    for number in range(40):
        await memory.put_record(NOTES, "count", number)
    versions = (await memory.record_history(NOTES, "count")).versions
    assert (len(versions), versions[0].version, versions[-1].version) == (33, 8, 40)


async def test_every_call_accepts_its_typed_request_too() -> None:
    name = {"namespace": ("work",), "key": "one"}
    async with elytron.open("memory:", space="ada") as memory:
        await memory.put_record(records.RecordPutRequest.model_validate({**name, "value": 1}))
        assert (await memory.get_record(records.RecordGetRequest.model_validate(name))).record.value == 1
        assert (await memory.search_records(records.RecordSearchRequest())).items
        assert (await memory.list_record_namespaces(records.RecordNamespaceListRequest())).namespaces
        assert (await memory.record_history(records.RecordHistoryRequest.model_validate(name))).versions
        assert (await memory.delete_record(records.RecordDeleteRequest.model_validate(name))).changed


async def test_facts_and_learning_accept_typed_requests_too() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        fact = (await memory.add_fact("home", "Ada lives in Lisbon")).ids[0]
        assert (await memory.get_fact(facts.FactDetailRequest(id=fact))).space == "ada"
        assert (await memory.list_facts(facts.FactListRequest())).space == "ada"
        pause = facts.LearningRequest(action=elytron.LearningAction.PAUSE)
        assert (await memory.set_learning(pause)).space == "ada"
