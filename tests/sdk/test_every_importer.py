"""What holds for every format that can be imported, by walking the table of formats and damaging a sample of each."""

import copy
import json
import random
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from tests.sdk.foreign_exports import EXPORTS

import elytron
from elytron.importers.detection import open_transcripts
from elytron.importers.format_table import (
    BUNDLE_ROWS,
    DATABASE_ROWS,
    DOCUMENT_ROWS,
    LINE_ROWS,
    MAIL_ROW,
    TEXT_READERS,
    TranscriptFormat,
    format_pages,
    page_table,
)
from elytron_core import strict_json
from elytron_core.errors import ElytronError
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey

pytestmark = pytest.mark.anyio

HOME = ConversationKey("default", "home")
ROUNDS = 12


def test_every_format_has_a_reader_documentation_and_a_sample() -> None:
    rows = [*DOCUMENT_ROWS, *LINE_ROWS, *DATABASE_ROWS, *BUNDLE_ROWS, MAIL_ROW]
    assert {row.format for row in rows} | {*TEXT_READERS} == {*TranscriptFormat}
    assert {*format_pages()} == {*EXPORTS} == {*TranscriptFormat}


def test_the_page_matches_the_declared_table_of_formats() -> None:
    page = Path("docs/how-to/import-conversations.md").read_text("utf-8")
    assert "\n".join(page_table()) in page


@pytest.mark.parametrize("form", TranscriptFormat)
def test_a_sample_is_recognised_and_read_without_a_bad_record(tmp_path: Path, form: TranscriptFormat) -> None:
    with open_transcripts(EXPORTS[form](tmp_path)) as source:
        (transcript,) = source.transcripts
        count = sum(1 for _ in transcript.messages(HOME, include=EvidenceRole, strict=True))
        assert transcript.format is form
        assert count > 0


@pytest.mark.parametrize("form", TranscriptFormat)
async def test_the_same_file_twice_changes_nothing(tmp_path: Path, form: TranscriptFormat) -> None:
    path = EXPORTS[form](tmp_path)
    async with elytron.open("memory:", space="ada") as memory:
        plan = await elytron.import_transcript(memory, path, dry_run=True)
        first = await elytron.import_transcript(memory, path)
        again = await elytron.import_transcript(memory, path)
    assert (plan.stored, plan.messages) == (0, first.messages)
    assert first.stored == first.messages
    assert (again.stored, again.updated, again.changed, again.duplicates) == (0, 0, False, first.messages)


@pytest.mark.parametrize("form", TranscriptFormat)
async def test_erased_content_stays_erased(tmp_path: Path, form: TranscriptFormat) -> None:
    path = EXPORTS[form](tmp_path)
    async with elytron.open("memory:", space="ada") as memory:
        first = await elytron.import_transcript(memory, path)
        for hit in (await memory.recall("Ada Lisbon boat Where Tea When pier", limit=50)).hits:
            await memory.erase(hit.id)
        again = await elytron.import_transcript(memory, path)
        left = (await memory.recall("Ada Lisbon boat Where Tea When pier", limit=50)).hits
    assert (again.stored, again.erased + again.duplicates) == (0, first.messages)
    assert again.erased > 0
    assert left == ()


ODD: Final[tuple[Any, ...]] = (
    None, True, 7, -1, 1e300, 2**62, "", "x", "\0", "0000-00-00", "\ud83d", "9" * 400,
    [], [[]], {}, [None], [{}], {"id": {}},
)  # fmt: skip
"""Values that no format expects where they stand."""


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a JSON value: what holds it, and its key or number there."""
    keys: list[Any] = list(value) if isinstance(value, dict) else []  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, list):
        keys += range(len(value))  # pyright: ignore[reportUnknownArgumentType]
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _odd_text(text: str, chance: random.Random) -> str:
    """Return JSON, or lines of it, with one to three values exchanged for odd ones or left out."""
    try:
        values, is_lines = [json.loads(text)], False
    except ValueError:
        values, is_lines = [json.loads(line) for line in text.splitlines()], True
    for _ in range(chance.randint(1, 3)):
        places = list(_places(values))
        holder, key = chance.choice(places)
        if isinstance(holder, dict) and chance.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(chance.choice(ODD))
    return "\n".join(map(json.dumps, values)) if is_lines else json.dumps(values[0])


def _read_leniently(sample: Path) -> None:
    with suppress(ElytronError), open_transcripts(sample) as source:
        for transcript in source.transcripts:
            assert sum(1 for _ in transcript.messages(HOME, include=EvidenceRole)) >= 0


def _unpacked(sample: Path) -> Path:
    """Return an export's folder, for one that is a ZIP file."""
    if not zipfile.is_zipfile(sample):
        return sample
    with zipfile.ZipFile(sample) as archive:
        archive.extractall(sample.with_suffix(""))
    return sample.with_suffix("")


def _is_json(file: Path) -> bool:
    return file.suffix in {".json", ".jsonl"}


@pytest.mark.parametrize("form", TranscriptFormat)
def test_values_of_another_type_are_rejected_or_reported_and_never_crash_the_reader(
    tmp_path: Path, form: TranscriptFormat
) -> None:
    sample = _unpacked(EXPORTS[form](tmp_path))
    files = [sample] if sample.is_file() else sorted(path for path in sample.rglob("*") if path.is_file())
    chance = random.Random(form.value)
    for file in filter(_is_json, files):
        whole = file.read_text("utf-8")
        for _ in range(5 * ROUNDS):
            file.write_text(_odd_text(whole, chance), "utf-8")
            _read_leniently(sample)
        file.write_text(whole, "utf-8")


@pytest.mark.parametrize("form", sorted({row.format for row in DOCUMENT_ROWS} - {row.format for row in DATABASE_ROWS}))
def test_a_record_with_too_many_keys_is_skipped_and_the_others_are_read(
    tmp_path: Path, form: TranscriptFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_json, "JSON_KEYS", 100)
    path = EXPORTS[form](tmp_path)
    document: Any = json.loads(path.read_text("utf-8"))
    records = next(holder for holder, key in _places(document) if key == 0)
    first = _read_counts(path)
    records.append(records[0] | dict.fromkeys(map(str, range(101))))
    path.write_text(json.dumps(document), "utf-8")
    assert (first[1], _read_counts(path)) == (0, (first[0], 1))


def _read_counts(path: Path) -> tuple[int, int]:
    """Return how many messages of a file were read, and how many records were skipped."""
    with open_transcripts(path) as source:
        (transcript,) = source.transcripts
        return sum(1 for _ in transcript.messages(HOME, include=EvidenceRole)), transcript.skipped_count


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """Return `data` cut, with bytes changed, or with a piece of it again."""
    match chance.randrange(3):
        case 0:
            return data[: chance.randrange(len(data))]
        case 1:
            changed = bytearray(data)
            for _ in range(chance.randint(1, 8)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            return bytes(changed)
        case _:
            at, end = sorted((chance.randrange(len(data)), chance.randrange(len(data))))
            return data[:end] + data[at:]


@pytest.mark.parametrize("form", TranscriptFormat)
def test_a_damaged_file_is_rejected_or_reported_and_never_crashes_the_reader(
    tmp_path: Path, form: TranscriptFormat
) -> None:
    sample = EXPORTS[form](tmp_path)
    files = [sample] if sample.is_file() else sorted(path for path in sample.rglob("*") if path.is_file())
    chance = random.Random(form.value)
    for file in files:
        whole = file.read_bytes()
        for _ in range(ROUNDS):
            file.write_bytes(_damaged(whole, chance))
            _read_leniently(sample)
        file.write_bytes(whole)
