"""Exports made to harm: bombs, names that lead out, links, huge lines, years that are none. Refused, or counted."""

import json
import sqlite3
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.foreign_exports import (
    CHATGPT,
    COGX,
    EXPORTS,
    HISTORY_SCHEMA,
    SLACK,
    STORE_SCHEMA,
    VAULT,
    json_lines,
    write_database,
    write_folder,
    write_json,
    write_zip,
)
from tests.sdk.opened_transcripts import opened

import elytron
from elytron.importers import bundles, detection
from elytron.importers.detection import is_export, open_transcripts
from elytron.importers.format_table import DATABASE_ROWS, TranscriptFormat
from elytron.importers.memories import foreign_tables
from elytron.importers.message_shape import OmissionReason, optional_moment
from elytron_core import limits, strict_json
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey

pytestmark = pytest.mark.anyio

HOME = ConversationKey("default", "home")


@pytest.mark.parametrize(
    "name", ["../out.jsonl", "/etc/out.jsonl", "..\\out.jsonl", "C:/out.jsonl", "a/../../out.jsonl", "."]
)
async def test_a_name_that_leads_out_of_a_zip_file_is_skipped_and_counted(tmp_path: Path, name: str) -> None:
    line = json_lines({"role": "user", "content": "The boat is red."})
    path = write_zip(tmp_path / "a.zip", {"in.jsonl": line, name: line})
    async with elytron.open("memory:", space="ada") as memory:
        report = await elytron.import_transcript(memory, path)
    assert (report.files, report.stored, report.left_out) == (1, 1, {OmissionReason.UNSAFE_NAME: 1})
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_a_member_without_a_name_is_left_out(tmp_path: Path) -> None:
    line = json_lines({"role": "user", "content": "Fine."})
    path = write_zip(tmp_path / "a.zip", {"a.jsonl": line, "?.jsonl": line})
    path.write_bytes(path.read_bytes().replace(b"?.jsonl", b"\0.jsonl"))
    with open_transcripts(path) as source:
        assert ([transcript.name for transcript in source.transcripts], source.unsafe_files) == (["a.jsonl"], 1)


async def test_a_symlink_in_a_zip_file_or_folder_is_not_followed(tmp_path: Path) -> None:
    secret = write_json(tmp_path / "secret.jsonl", json_lines({"role": "user", "content": "The code is 4417."}))
    link = zipfile.ZipInfo("link.jsonl")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, str(secret))
        archive.writestr("b.jsonl", json_lines({"role": "user", "content": "Fine."}))
    folder = write_folder(tmp_path / "folder", {"b.jsonl": json_lines({"role": "user", "content": "Fine."})})
    (folder / "link.jsonl").symlink_to(secret)
    for path in (tmp_path / "a.zip", folder):
        with open_transcripts(path) as source:
            assert [transcript.name for transcript in source.transcripts] == ["b.jsonl"]


@pytest.mark.parametrize("form", [TranscriptFormat.SLACK, TranscriptFormat.HINDSIGHT])
def test_a_zip_file_that_declares_too_large_a_size_is_rejected(
    tmp_path: Path, form: TranscriptFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = EXPORTS[form](tmp_path)
    monkeypatch.setattr(detection, "ZIP_UNPACKED_BYTES", 100)
    with pytest.raises(UnreadableFile, match="unpacks to more than 100 bytes"), open_transcripts(path):
        pass


def test_a_member_that_unpacks_larger_than_declared_is_rejected_while_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = write_zip(tmp_path / "a.zip", SLACK | {"harbour/2026-05-02.json": "[" + " " * 4_000_000 + "]"})
    monkeypatch.setattr(limits, "TRANSCRIPT_JSON_BYTES", 1_000_000)
    with opened(bomb) as transcript:
        assert len(list(transcript.messages(HOME))) == 2
        (record,) = transcript.skipped
        assert (record.place, "1000000 bytes" in record.problem) == ("harbour/2026-05-02.json", True)


def test_too_many_files_are_rejected_before_any_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "BUNDLE_FILES", 3)
    many = {f"{number}.md": "x" for number in range(4)}
    for path in (write_zip(tmp_path / "a.zip", many), write_folder(tmp_path / "folder", many)):
        with pytest.raises(LimitExceeded, match="files in an imported folder"), open_transcripts(path):
            pass
    assert is_export(tmp_path / "a.zip")
    monkeypatch.setattr(bundles, "BUNDLE_FILES", 10)
    monkeypatch.setattr(detection, "IMPORT_FILES", 3)
    with pytest.raises(LimitExceeded, match="files in an imported folder"), open_transcripts(tmp_path / "folder"):
        pass
    with open_transcripts(write_folder(tmp_path / "vault", many | {".obsidian/app.json": {}})) as source:
        assert [transcript.format for transcript in source.transcripts] == [TranscriptFormat.OBSIDIAN]


def test_a_huge_line_is_skipped_and_the_next_one_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMPORT_LINE_BYTES", 1_000)
    huge = {"type": "entity", "name": "Ada", "observations": ["x" * 5_000]}
    small = {"type": "entity", "name": "Noor", "observations": ["sails"]}
    path = write_json(tmp_path / "memory.jsonl", json_lines(small, huge, small | {"name": "Mina"}))
    with opened(path) as transcript:
        assert [item.turn.messages[0].text for item in transcript.messages(HOME)] == ["Noor: sails", "Mina: sails"]
        assert [(record.line, record.problem) for record in transcript.skipped] == [(2, "is longer than 1000 bytes")]


def test_a_huge_cell_and_a_damaged_value_of_a_table_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_tables, "IMPORT_CELL_CHARS", 1_000)
    time = "2026-05-01 10:00:00"
    rows: list[Any] = [
        ("ns", "1", json.dumps({"content": "x" * 5_000}), time, time, None, None),
        ("ns", "2", "{", time, time, None, None),
        ("ns", "3", b'{"content": "Ada sails"}', "0000-00-00", time, None, None),
        ("ns", "4", '{"content": "Noor sails"}', time, "0000-00-00", None, None),
        ("ns", "5", '{"content": "Mina sails"}', b"\xff\xfe", None, None, None),
    ]
    with opened(write_database(tmp_path / "store.db", STORE_SCHEMA, "store", rows)) as transcript:
        assert [item.turn.messages[0].text for item in transcript.messages(HOME)] == ["Ada sails"]
        assert [record.place for record in transcript.skipped] == ["item 1", "item 2", "item 4", "item 5"]


def test_an_endless_view_is_not_read_as_a_table(tmp_path: Path) -> None:
    endless = (
        "CREATE TABLE other (a); CREATE VIEW store AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
        " SELECT n AS prefix, n AS key, n AS value FROM c;"
    )
    path = write_database(tmp_path / "store.db", endless, "other", [(1,)])
    with pytest.raises(UnreadableFile, match="without a supported table"), open_transcripts(path):
        pass


DATABASES = [row.format for row in DATABASE_ROWS]


def written_database(folder: Path, form: TranscriptFormat) -> Path:
    """Write the sample of a format that is a database, and return the database's path."""
    sample = EXPORTS[form](folder)
    return sample if sample.is_file() else next(sample.rglob("*.sqlite"))


def table_columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for (name,) in names}


def texts_of(path: Path) -> set[str]:
    with opened(path) as transcript:
        return {item.turn.messages[0].text for item in transcript.messages(HOME)}


def test_one_place_opens_other_programs_databases() -> None:
    modules = Path(detection.__file__).parent.rglob("*.py")
    assert [path.name for path in modules if "sqlite3.connect(" in path.read_text("utf-8")] == ["foreign_tables.py"]


@pytest.mark.parametrize("form", DATABASES)
@pytest.mark.parametrize(
    "replacement",
    [
        "CREATE VIRTUAL TABLE {table} USING fts5({columns})",
        "CREATE TABLE {table} ({columns}, computed AS (hex(zeroblob(9))))",
        "CREATE VIEW {table} ({columns}) AS VALUES ({columns})",
    ],
)
def test_a_table_that_runs_what_its_author_wrote_is_not_read(
    tmp_path: Path, form: TranscriptFormat, replacement: str
) -> None:
    path = written_database(tmp_path, form)
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in table_columns(connection).items():
            connection.execute(f"DROP TABLE {table}")
            connection.execute(replacement.format(table=table, columns=", ".join(columns)))
        connection.commit()
    # The code of an unknown kind of table cannot have been run.
    path.write_bytes(path.read_bytes().replace(b"fts5(", b"none("))
    with pytest.raises(UnreadableFile, match="without a supported table"), open_transcripts(path):
        pass


def test_rows_without_end_that_share_a_page_are_refused_before_they_are_sorted(tmp_path: Path) -> None:
    schema = "PRAGMA page_size = 512; CREATE TABLE store (prefix, key, value);"
    path = write_database(tmp_path / "store.db", schema, "store", [("ns", "1", '{"content": "Ada sails"}')])
    first, leaf = path.read_bytes()[:512], path.read_bytes()[512:1024]
    # Each of 15 pages refers 20 times to the next one, the last one to the page with the row.
    cells = b"".join(offset.to_bytes(2, "big") for offset in range(400, 500, 5))
    pages = [
        (b"\x05\0\0\0\x14\x01\x90\0" + (number + 1).to_bytes(4, "big") + cells).ljust(400, b"\0")
        + ((number + 1).to_bytes(4, "big") + b"\x01") * 20
        for number in range(2, 17)
    ]
    count = (len(pages) + 2).to_bytes(4, "big")
    path.write_bytes(b"".join(page.ljust(512, b"\0") for page in (first[:28] + count + first[32:], *pages, leaf)))
    with opened(path) as transcript, pytest.raises(UnreadableFile, match="more rows than fit into it"):
        next(transcript.messages(HOME))


@pytest.mark.parametrize("form", DATABASES)
def test_a_database_that_takes_too_much_work_is_refused(
    tmp_path: Path, form: TranscriptFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written_database(tmp_path, form)
    for name, value in (("_STEPS", 1), ("_FREE_CALLS", 50), ("_STEPS_PER_BYTE", 0)):
        monkeypatch.setattr(foreign_tables, name, value)
    with pytest.raises(UnreadableFile, match="takes too much work for its size"), open_transcripts(path):
        pass


def test_a_query_goes_on_in_another_thread_and_ends_when_the_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_tables, "_STEPS", 1)
    monkeypatch.setattr(foreign_tables, "_FREE_CALLS", 1_000_000)
    with open_transcripts(EXPORTS[TranscriptFormat.AGENTS_SDK](tmp_path)) as source:
        messages = source.transcripts[0].messages(HOME, include=EvidenceRole)
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(next, messages).result().turn.messages[0].text == "Where is it?"
        assert next(messages).turn.messages[0].text == "pier 3"
    with pytest.raises(UnreadableFile):
        next(messages)


@pytest.mark.parametrize("form", DATABASES)
def test_a_huge_cell_in_any_column_hides_no_other_row(
    tmp_path: Path, form: TranscriptFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_tables, "IMPORT_CELL_CHARS", 1_000)
    path = written_database(tmp_path, form)
    expected = texts_of(path)
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in table_columns(connection).items():
            row = connection.execute(f"SELECT * FROM {table}").fetchone()
            for number, column in enumerate(columns, start=1_000):
                ids = dict.fromkeys({"id", "memory_id", "key"} & {*columns}, number)
                cells = dict(zip(columns, row, strict=True)) | ids | {column: "x" * 2_000}
                with suppress(sqlite3.IntegrityError):  # a whole number that is a table's key
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(cells))})", [*cells.values()])
        connection.commit()
    with opened(path) as transcript:
        assert expected <= {item.turn.messages[0].text for item in transcript.messages(HOME)}
        assert "is longer than 1000 characters" in {record.problem.partition(" ")[2] for record in transcript.skipped}


def test_a_conversation_with_too_many_nodes_hides_no_other(tmp_path: Path) -> None:
    huge = CHATGPT[0] | {"mapping": {f"n{number}": {} for number in range(strict_json.JSON_KEYS + 1)}}
    with opened(write_json(tmp_path / "a.json", [huge, *CHATGPT])) as transcript:
        assert [item.turn.messages[0].text for item in transcript.messages(HOME)] == ["Tea?"]
        (record,) = transcript.skipped
    assert (record.place, record.problem) == ("conversation 1", "mapping has more than 10000 keys")


def test_a_database_in_a_zip_file_is_read_and_leaves_no_copy(tmp_path: Path) -> None:
    row = ("h1", "m1", None, "Ada sails", "ADD", "2026-05-01T10:00:00Z", None, 0, None, None)
    database = write_database(tmp_path / "history.db", HISTORY_SCHEMA, "history", [row])
    path = write_zip(tmp_path / "a.zip", {"history.db": database.read_bytes()})
    with open_transcripts(path) as source:
        (transcript,) = source.transcripts
        assert sum(1 for _ in transcript.messages(HOME)) == 2
    with pytest.raises(ElytronError):
        list(transcript.messages(HOME))


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    with pytest.raises(UnreadableFile, match="damaged or locked SQLite file"), open_transcripts(path):
        pass


@pytest.mark.parametrize(
    ("number", "milliseconds"),
    [
        (1_777_629_600, 1_777_629_600_000),
        (1_777_629_600_000, 1_777_629_600_000),
        (1_777_629_600_000_000, 1_777_629_600_000),
        (1_777_629_600_000_000_000, 1_777_629_600_000),
        (1_777_629_600.5, 1_777_629_600_500),
    ],
)
def test_the_unit_of_an_epoch_number_is_inferred_from_its_size(number: float, milliseconds: int) -> None:
    assert optional_moment(number) == milliseconds


@pytest.mark.parametrize("number", [1e300, -1e300, 2**65, float("inf"), float("nan")])
def test_a_number_that_is_no_time_in_any_unit_is_rejected(number: float) -> None:
    with pytest.raises(InvalidInput):
        optional_moment(number)


def test_an_unreadable_manifest_makes_no_bundle(tmp_path: Path) -> None:
    members = COGX | {"manifest.json": "{"}
    with open_transcripts(write_folder(tmp_path / "archive", members)) as source:
        forms = {transcript.name: transcript.format for transcript in source.transcripts}
    assert forms.pop("manifest.json") is TranscriptFormat.JSONL
    assert forms == dict.fromkeys(("entities.jsonl", "episodes.jsonl", "facts.jsonl"), TranscriptFormat.COGX)


def test_unreadable_notes_block_no_other(tmp_path: Path) -> None:
    vault = write_folder(tmp_path / "vault", VAULT)
    (vault / "bad.md").write_bytes(b"\xff\xfe not text")
    (vault / "date.md").write_text("---\ncreated: no date\nmodified: 2026-05-02\n---\nWords.\n", encoding="utf-8")
    (vault / "empty.md").write_text("---\ntags:\n  - a\n---\n", encoding="utf-8")
    (vault / "name \u2028.md").write_text("Odd name.\n", encoding="utf-8")
    with opened(vault) as transcript:
        assert len(list(transcript.messages(HOME))) == 4
        assert [record.place for record in transcript.skipped] == ["bad.md"]
        assert transcript.left_out == {OmissionReason.NO_WORDS: 1}
