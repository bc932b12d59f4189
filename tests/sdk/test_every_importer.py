"""What holds for every format that can be imported, by walking the table of formats and damaging a sample of each."""

import random
from contextlib import suppress
from pathlib import Path

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
from elytron_core.errors import ElytronError
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey

pytestmark = pytest.mark.anyio

HOME = ConversationKey("default", "home")
ROUNDS = 12


def test_every_format_has_a_reader_a_line_of_the_page_and_a_sample() -> None:
    rows = [*DOCUMENT_ROWS, *LINE_ROWS, *DATABASE_ROWS, *BUNDLE_ROWS, MAIL_ROW]
    assert {row.format for row in rows} | {*TEXT_READERS} == {*TranscriptFormat}
    assert {*format_pages()} == {*EXPORTS} == {*TranscriptFormat}


def test_the_page_has_the_table_of_formats_as_it_is_declared() -> None:
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
async def test_what_was_erased_stays_gone(tmp_path: Path, form: TranscriptFormat) -> None:
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
def test_a_damaged_file_is_refused_or_reported_and_never_breaks_the_reader(
    tmp_path: Path, form: TranscriptFormat
) -> None:
    sample = EXPORTS[form](tmp_path)
    files = [sample] if sample.is_file() else sorted(path for path in sample.rglob("*") if path.is_file())
    chance = random.Random(form.value)
    for file in files:
        whole = file.read_bytes()
        for _ in range(ROUNDS):
            file.write_bytes(_damaged(whole, chance))
            with suppress(ElytronError), open_transcripts(sample) as source:
                for transcript in source.transcripts:
                    assert sum(1 for _ in transcript.messages(HOME, include=EvidenceRole)) >= 0
        file.write_bytes(whole)
