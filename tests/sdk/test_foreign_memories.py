"""Memories of other systems: ranked below the user's, with their system and id; ended ones as history."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.foreign_exports import (
    COGX,
    EXPORTS,
    GRAPH_LINES,
    GRAPHITI,
    HISTORY,
    HISTORY_SCHEMA,
    MEM0,
    STORE,
    STORE_SCHEMA,
    json_lines,
    pickled_point,
    write_database,
    write_folder,
    write_json,
    write_zip,
)
from tests.sdk.opened_transcripts import opened

import elytron
from elytron import MemoryRuntime
from elytron.importers.format_table import TranscriptFormat
from elytron.importers.memories import pickled_values
from elytron.importers.message_shape import ImportedMessage, OmissionReason
from elytron_core.clock import DAY_MS, FrozenClock, instant
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.evidence import EvidenceAuthority, EvidenceRole, TrustLevel
from elytron_core.policy.imported_messages import ENDED_AT
from elytron_core.scope import ConversationKey

pytestmark = pytest.mark.anyio

HOME = ConversationKey("default", "home")
DERIVED = frozenset(
    {TranscriptFormat.MEM0, TranscriptFormat.MEM0_QDRANT, TranscriptFormat.MCP_MEMORY, TranscriptFormat.GRAPHITI}
    | {TranscriptFormat.LANGGRAPH, TranscriptFormat.HINDSIGHT, TranscriptFormat.BASIC_MEMORY}
)


def read(path: Path) -> list[ImportedMessage]:
    with opened(path) as transcript:
        return list(transcript.messages(HOME, include=EvidenceRole, strict=True))


def texts(path: Path) -> list[str]:
    return [message.turn.messages[0].text for message in read(path)]


def current_texts(path: Path) -> list[str]:
    return [item.turn.messages[0].text for item in read(path) if ENDED_AT not in item.turn.metadata]


async def recalled(memory: MemoryRuntime, query: str) -> list[str]:
    return [hit.text for hit in (await memory.recall(query, limit=20)).hits]


@pytest.mark.parametrize("form", sorted(DERIVED))
async def test_foreign_derived_memories_are_not_quotations_and_are_less_trusted(
    tmp_path: Path, form: TranscriptFormat
) -> None:
    path = EXPORTS[form](tmp_path)
    messages = [item.turn.messages[0] for item in read(path)]
    assert {message.role for message in messages} == {EvidenceRole.ASSISTANT}
    assert {message.authority for message in messages} == {EvidenceAuthority.ARCHIVE_EVIDENCE}
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, path)
        hits = (await memory.recall("Ada lives in Lisbon", limit=20)).hits
    assert {hit.trust for hit in hits} == {TrustLevel.DRAWN}


def test_provenance_names_the_system_and_the_id(tmp_path: Path) -> None:
    first, _ = read(write_json(tmp_path / "a.json", MEM0))
    assert first.turn.host_id == "mem0:mem-1"
    assert first.turn.source is not None
    assert (first.turn.source.provider, first.turn.messages[0].speaker) == ("mem0", "mem0")
    assert (first.owner, first.turn.tags) == ("ada", ("home",))


def test_foreign_metadata_stays_under_its_name_and_has_no_effect(tmp_path: Path) -> None:
    first, _ = read(write_json(tmp_path / "a.json", MEM0))
    assert dict(first.turn.metadata) == {
        "mem0.user_id": "ada",
        "mem0.topic": "home",
        "mem0.edit_of": "0.1",
        "mem0.private": "true",
    }


async def test_unknown_keys_are_counted_and_stored_next_to_the_text(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", MEM0)
    (item,) = read(path)[0].turn.items
    assert (item.kind, item.issuer, json.loads(item.body)) == ("unknown_keys", "mem0", {"novelty": 3})
    async with elytron.open("memory:", space="ada") as memory:
        report = await elytron.import_transcript(memory, path)
    assert (report.unknown_keys, report.naive_times) == (1, 2)


@pytest.mark.parametrize(
    "records",
    [
        MEM0["results"],
        {"memories": MEM0["results"]},
        {"items": MEM0["results"]},
        json_lines(*MEM0["results"]),
        {"results": [{"id": "1", "data": "Ada lives in Lisbon"}]},
        [{"id": "1", "memory": "Ada lives in Lisbon", "role": "user"}, {"id": "2", "memory": "Ada is on call"}],
    ],
)
def test_mem0_is_read_in_every_export_format(tmp_path: Path, records: Any) -> None:
    assert texts(write_json(tmp_path / "a.json", records))[0] == "Ada lives in Lisbon"


def test_records_that_could_be_memories_or_messages_are_refused(tmp_path: Path) -> None:
    record = {"id": "1", "memory": "Ada lives in Lisbon", "role": "user", "content": "I live in Lisbon"}
    with pytest.raises(UnreadableFile, match="could be memories"):
        read(write_json(tmp_path / "a.json", [record]))


def test_an_invalid_time_of_mem0_is_reported_by_its_name_and_not_counted(tmp_path: Path) -> None:
    record = {"id": "1", "memory": "Ada lives in Lisbon", "created_at": "nonsense"}
    with opened(write_json(tmp_path / "a.json", [record])) as transcript:
        assert list(transcript.messages(HOME)) == []
        assert (transcript.skipped[0].problem[:10], transcript.remarks.naive_times) == ("created_at", 0)


async def test_an_expired_memory_is_in_history_and_not_recalled(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        report = await elytron.import_transcript(memory, write_json(tmp_path / "a.json", MEM0))
        assert report.stored == 2
        assert await recalled(memory, "Is Ada on call? Where does Ada live?") == ["Ada lives in Lisbon"]


async def test_a_memory_deleted_since_the_last_import_becomes_history(tmp_path: Path) -> None:
    record = {"id": "mem-1", "memory": "Ada lives in Lisbon", "created_at": "2026-05-01T10:00:00Z"}
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, write_json(tmp_path / "a.json", [record]))
        gone = record | {"is_deleted": True}
        report = await elytron.import_transcript(memory, write_json(tmp_path / "b.json", [gone]))
        assert (report.updated, await recalled(memory, "Where does Ada live?")) == (1, [])
        again = await elytron.import_transcript(memory, tmp_path / "b.json")
    assert (again.changed, again.duplicates) == (False, 1)


async def test_a_memory_with_a_new_text_under_its_id_is_a_new_version(tmp_path: Path) -> None:
    record = {"id": "mem-1", "memory": "Ada lives in Lisbon", "created_at": "2026-05-01T10:00:00Z"}
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, write_json(tmp_path / "a.json", [record]))
        newer = record | {"memory": "Ada lives in Porto", "updated_at": "2026-06-01T10:00:00Z"}
        report = await elytron.import_transcript(memory, write_json(tmp_path / "b.json", [newer]))
        assert (report.updated, await recalled(memory, "Where does Ada live?")) == (1, ["Ada lives in Porto"])


async def test_mem0s_history_includes_earlier_and_deleted_versions(tmp_path: Path) -> None:
    path = write_database(tmp_path / "history.db", HISTORY_SCHEMA, "history", HISTORY)
    assert texts(path) == ["Ada lives in Lisbon", "Ada lives in Porto", "Ada owns a boat", "I moved to Porto"]
    assert current_texts(path) == ["Ada lives in Porto", "I moved to Porto"]
    assert read(path)[3].turn.messages[0].role is EvidenceRole.USER
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, path)
        assert set(await recalled(memory, "Ada Lisbon boat Porto")) == {"Ada lives in Porto", "I moved to Porto"}


async def test_one_memory_in_the_vector_store_and_in_an_export_is_stored_once(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, EXPORTS[TranscriptFormat.MEM0_QDRANT](tmp_path))
        report = await elytron.import_transcript(memory, write_json(tmp_path / "a.json", MEM0["results"][:1]))
    assert (report.stored, report.updated, report.duplicates) == (0, 0, 1)


class Opener:
    """Its pickle calls a function if Python's own unpickler reads it."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit('code of the file ran')",)


def test_a_pickle_that_would_run_code_is_reported_and_runs_nothing(tmp_path: Path) -> None:
    schema = "CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB);"
    good = pickled_point("p2", {"data": "Ada lives in Lisbon"})
    rows = [("a", pickled_point("p1", {"data": Opener()})), ("b", b"\x80\x04\x95"), ("c", good)]
    path = write_database(tmp_path / "storage.sqlite", schema, "points", rows)
    with opened(path) as transcript:
        assert [item.turn.messages[0].text for item in transcript.messages(HOME)] == ["Ada lives in Lisbon"]
        assert [(each.place, each.problem) for each in transcript.skipped] == [
            ("point 1", "pickle names a class or function that is not part of a stored point"),
            ("point 2", "pickle is damaged"),
        ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "damaged"),
        (b"\x80\x04N.", "contains no"),
        (b"\x80\x04\x8c\x01a\x8c\x01b\x93.", "names a class"),
        (b"cos\nsystem\n.", "names a class"),
        (b"\x80\x04)R.", "instruction REDUCE"),
        (b"\x80\x04" + b"N" * 500_001 + b".", "more than"),
        (b"\x80\x04u.", "damaged"),
        (b"\x80\x04h\x05.", "damaged"),
    ],
)
def test_every_other_pickle_is_rejected(data: bytes, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        pickled_values.read_object(data, ("module", "Name"))


async def test_a_store_of_several_users_needs_the_user_to_be_named(tmp_path: Path) -> None:
    records = [{"id": str(n), "memory": f"{name} sails", "user_id": name} for n, name in enumerate(("ada", "noor"))]
    path = write_json(tmp_path / "a.json", records)
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(InvalidInput, match="memories of several users, such as 'ada', 'noor'"):
            await elytron.import_transcript(memory, path)
        report = await elytron.import_transcript(memory, path, owners=["ada"])
        assert await recalled(memory, "Who sails?") == ["ada sails"]
        assert (report.left_out, report.owners) == ({OmissionReason.OTHER_OWNER: 1}, ("ada", "noor"))
        both = await elytron.import_transcript(memory, path, owners=["*"])
    assert both.stored == 1


SEA = json_lines({"type": "entity", "name": "Sea", "observations": []}, {"type": "x"})


def test_the_mcp_servers_file_yields_observations_and_relations_as_sentences(tmp_path: Path) -> None:
    path = write_json(tmp_path / "memory.json", GRAPH_LINES + SEA)
    with opened(path) as transcript:
        found = [item.turn.messages[0].text for item in transcript.messages(HOME)]
        assert found == ["Ada: lives in Lisbon", "Ada: flies", "Ada works with Noor"]
        assert transcript.left_out == {OmissionReason.NO_SENTENCE: 1}
        assert [record.line for record in transcript.skipped] == [4]


def test_graphiti_yields_edges_with_their_start_and_ended_ones_as_history(tmp_path: Path) -> None:
    path = write_json(tmp_path / "dump.json", GRAPHITI)
    assert texts(path) == ["user: I moved", "Ada: A pilot.", "Ada lives in Lisbon", "Ada likes Lisbon"]
    edge = read(path)[2]
    assert edge.turn.messages[0].at == instant("2026-05-01T00:00:00Z")
    assert edge.turn.metadata[ENDED_AT] == instant("2026-06-01T00:00:00Z")
    assert texts(write_json(tmp_path / "edges.json", GRAPHITI["edges"][:1])) == ["Ada lives in Lisbon"]


def test_cogx_keeps_the_system_that_a_record_comes_from(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "archive", COGX)
    current = ["I moved to Porto.", "Ada moved.", "Ada: A pilot.", "Ada lives in Porto"]
    assert current_texts(path) == current
    assert texts(path) == [*current[:3], "Ada lives in Lisbon", current[3]]
    assert {item.conversation.channel for item in read(path)} == {"zep"}
    first, second, *_ = (item.turn.messages[0] for item in read(path))
    assert (first.role, second.role) == (EvidenceRole.USER, EvidenceRole.ASSISTANT)


def test_cogx_in_a_zip_and_a_single_file_of_it_are_read_too(tmp_path: Path) -> None:
    zipped = write_zip(tmp_path / "archive.zip", {f"out/{name}": content for name, content in COGX.items()})
    assert len(read(zipped)) == 5
    lines = json_lines(
        {"kind": "document", "external_id": "d1", "external_system": "cognee", "content": "One.\n\nTwo."},
        {"kind": "memory_block", "external_id": "b1", "external_system": "letta", "label": "human", "value": "Ada."},
        {"kind": "memory", "external_id": "m1", "content": "Ada sails.", "categories": ["sea"], "invalid_at": None},
    )
    assert texts(write_json(tmp_path / "one.jsonl", lines)) == ["One.", "Two.", "human: Ada.", "Ada sails."]
    authorities = [item.turn.messages[0].authority for item in read(tmp_path / "one.jsonl")]
    assert authorities[0] is EvidenceAuthority.EXTERNAL_CONTENT


def test_cogx_of_a_later_major_version_is_rejected(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "archive", COGX | {"manifest.json": {"cogx_version": "1.0"}})
    with pytest.raises(UnreadableFile, match="unsupported COGX version"):
        read(path)


def test_invalid_cogx_records_block_no_other(tmp_path: Path) -> None:
    lines = json_lines(
        {"kind": "fact", "external_id": "f1", "subject_ref": "Ada"},
        {"kind": "unheard", "external_id": "x"},
        {"kind": "episode", "external_id": "e", "turns": [7]},
        {"kind": "memory", "external_id": "m0", "content": " "},
        {"kind": "memory", "external_id": "m1", "content": "Ada sails.", "created_at": "0000-01-01T00:00:00Z"},
        {"kind": "memory", "external_id": "m2", "content": "Noor sails.", "created_at": 1_777_629_600_000_000},
        {"properties": {"id": "n"}},
    )
    with opened(write_json(tmp_path / "a.jsonl", lines)) as transcript:
        (item,) = transcript.messages(HOME)
        assert item.turn.messages[0].at == 1_777_629_600_000
        assert [record.line for record in transcript.skipped] == [1, 2, 3, 5]
        assert transcript.left_out == {OmissionReason.NO_SENTENCE: 2}


def test_a_langgraph_store_yields_the_text_of_its_values(tmp_path: Path) -> None:
    path = write_database(tmp_path / "store.db", STORE_SCHEMA, "store", STORE)
    assert texts(path) == ["Ada lives in Lisbon", "Ada is on call"]
    assert current_texts(path) == ["Ada lives in Lisbon"]
    items = [
        {
            "namespace": ["memories", "ada"],
            "key": "k1",
            "value": {"content": {"content": "Ada sails"}},
        },
        {"namespace": ["memories", "ada"], "key": "k2", "value": {"name": "Ada", "port": "Lisbon", "age": 4}},
        {"namespace": ["memories", "ada"], "key": "k3", "value": []},
    ]
    with opened(write_json(tmp_path / "items.json", items)) as transcript:
        found = [item.turn.messages[0].text for item in transcript.messages(HOME)]
        assert found == ["Ada sails", "name: Ada\nport: Lisbon"]
        assert [record.place for record in transcript.skipped] == ["item 3"]


def test_hindsight_yields_facts_and_observations_and_rejects_another_schema(tmp_path: Path) -> None:
    path = EXPORTS[TranscriptFormat.HINDSIGHT](tmp_path)
    assert texts(path) == ["Ada lives in Lisbon", "Ada likes the sea"]
    members = {"manifest.json": {"schema_version": 2, "source_bank_id": "b"}, "documents/000000.json": {"id": "d"}}
    with pytest.raises(UnreadableFile, match="unsupported Hindsight schema; the supported schema is 1"):
        read(write_zip(tmp_path / "next.zip", members))


def test_a_damaged_hindsight_document_blocks_no_other(tmp_path: Path) -> None:
    members = {
        "manifest.json": {"schema_version": 1, "source_bank_id": "b"},
        "documents/000000.json": "{",
        "documents/000001.json": {"id": "d", "facts": [{"text": "Ada sails"}, 7], "observations": [{"text": "Seen"}]},
        "observations.json": {"none": 1},
    }
    with opened(write_zip(tmp_path / "bank.zip", members)) as transcript:
        assert [item.turn.messages[0].text for item in transcript.messages(HOME)] == ["Ada sails", "Seen"]
        assert [record.place for record in transcript.skipped] == [
            "documents/000000.json", "document d, fact 2", "observations.json",
        ]  # fmt: skip


def test_basic_memory_yields_observations_relations_and_prose_under_the_notes_title(tmp_path: Path) -> None:
    path = EXPORTS[TranscriptFormat.BASIC_MEMORY](tmp_path)
    assert texts(path) == [
        "Ada: lives in Lisbon (since May)",
        "Ada flies with Noor",
        "# Ada\n\nA pilot.",
    ]
    assert read(path)[0].turn.tags == ("friend", "home", "city")


def test_a_vault_is_its_owners_text_with_links_as_words(tmp_path: Path) -> None:
    path = EXPORTS[TranscriptFormat.OBSIDIAN](tmp_path)
    first, second = read(path)
    assert texts(path) == ["# Where\n\nI live in the white city. #plan", "The boat is called Mira."]
    assert (first.conversation.conversation, second.conversation.conversation) == ("Home", "sub/Boat")
    assert first.turn.tags == ("home", "sea", "plan")
    assert first.turn.messages[0].role is EvidenceRole.USER
    assert first.turn.messages[0].at == instant("2026-05-01")


async def test_a_memory_that_expires_later_is_current_until_an_import_after_that(tmp_path: Path) -> None:
    clock = FrozenClock(instant("2026-05-01"))
    record = {"id": "m", "memory": "Ada is on call", "created_at": "2026-05-01", "expiration_date": "2026-05-09"}
    path = write_json(tmp_path / "a.json", [record])
    async with elytron.open("memory:", space="ada", clock=clock) as memory:
        await elytron.import_transcript(memory, path)
        assert await recalled(memory, "Is Ada on call?") == ["Ada is on call"]
        clock.advance(10 * DAY_MS)
        report = await elytron.import_transcript(memory, path)
        assert (report.updated, await recalled(memory, "Is Ada on call?")) == (1, [])
        assert (await elytron.import_transcript(memory, path)).changed is False


async def test_unknown_keys_beyond_the_limit_are_counted_and_not_stored(tmp_path: Path) -> None:
    record = {"id": "m", "memory": "Ada sails", "blob": "x" * 100_000, "created_at": "2026-05-01T10:00:00Z"}
    path = write_json(tmp_path / "a.json", [record])
    assert read(path)[0].turn.items == ()
    async with elytron.open("memory:", space="ada") as memory:
        report = await elytron.import_transcript(memory, path)
    assert (report.stored, report.unknown_keys) == (1, 1)


def test_an_oversized_memory_is_skipped_and_the_next_one_read(tmp_path: Path) -> None:
    records = [{"id": "1", "memory": "x" * 1_000_001}, {"id": "2", "memory": "Ada sails"}, {"id": "3", "memory": ""}]
    with opened(write_json(tmp_path / "a.json", records)) as transcript:
        assert [item.turn.messages[0].text for item in transcript.messages(HOME)] == ["Ada sails"]
        assert [record.place for record in transcript.skipped] == ["memory 1"]
        assert transcript.left_out == {OmissionReason.NO_WORDS: 1}
