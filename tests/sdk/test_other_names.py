"""Subjects with several names: a query with one counts for the speaker of another, if the host says so."""

from pathlib import Path

import pytest

import elytron
from elytron_core.planes.subjects import SubjectKind, SubjectVisibility

SAID = (
    ("Mei", "I failed the driving test again, the examiner called me too polite."),
    ("Tom", "I failed to fix the boiler again."),
    ("Lily", "I failed my maths mock again."),
    ("Ben", "I failed to score again."),
)


def subject(*names: str, visibility: SubjectVisibility = SubjectVisibility.VISIBLE) -> elytron.MemoryWriteRequest:
    draft = elytron.SubjectDraft(
        name="mei", other_names=names, subject_kind=SubjectKind.HUMAN_USER, visibility=visibility
    )
    return elytron.MemoryWriteRequest(write=elytron.SubjectsWrite(subjects=(draft,)))


def told(store: str) -> elytron.SyncMemoryRuntime:
    memory = elytron.open(store, space="family").sync()
    for speaker, text in SAID:
        memory.add(text, speaker=speaker)
    return memory


def share_of(memory: elytron.SyncMemoryRuntime, query: str) -> dict[str | None, float]:
    """Return by speaker how strongly the query names the speaker."""
    hits = memory.recall(query).hits
    return {hit.speaker: hit.signals["speaker"] for hit in hits if hit.signals.get("speaker")}


def test_a_question_with_another_name_counts_for_the_speaker() -> None:
    with told("memory:") as memory:
        assert share_of(memory, "What has 小梅 failed?") == {}
        memory.write(subject("Mei", "小梅"))
        assert share_of(memory, "What has 小梅 failed?") == {"Mei": 1.0}
        assert memory.recall("What has 小梅 failed?").hits[0].speaker == "Mei"
        assert share_of(memory, "What has Tom failed?") == {"Tom": 1.0}


def test_names_retracted_or_hidden_by_the_host_no_longer_count() -> None:
    with told("memory:") as memory:
        memory.write(subject("Mei", "小梅"))
        memory.write(subject("Mei", "小梅", visibility=SubjectVisibility.HIDDEN))
        assert share_of(memory, "What has 小梅 failed?") == {}
        memory.write(subject("Mei", "小梅"))
        memory.write(subject("Mei"))
        assert share_of(memory, "What has 小梅 failed?") == {}


@pytest.mark.parametrize("is_stored", [True, False])
def test_other_names_work_in_another_runtime_and_after_an_erasure(tmp_path: Path, *, is_stored: bool) -> None:
    store = f"sqlite:{tmp_path / 'm.db'}"
    with told(store) as memory:
        memory.write(subject("Mei", "小梅"))
        if is_stored:
            memory.recall("tea")
        one = memory.add("The neighbour moved out.", speaker="Tom").ids[0]
    with elytron.open(store, space="family") as memory:
        assert share_of(memory, "What has 小梅 failed?") == {"Mei": 1.0}
        memory.erase(one)
        assert share_of(memory, "What has 小梅 failed?") == {"Mei": 1.0}


def test_a_query_without_room_for_more_names_is_searched_unchanged() -> None:
    with told("memory:") as memory:
        memory.write(subject("Mei", "小梅"))
        query = ("小梅" + " failed" * 1_200)[:8_000]
        assert share_of(memory, query[:7_996]) == {"Mei": 1.0}
        assert share_of(memory, query[:7_998]) == {}
