"""Mistakes in arguments are reported where they are made."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron_core.errors import InvalidInput, StoreUrlInvalid
from elytron_store import WriteDurability


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"durability": "nope"}, "durability must be one of full, normal"),
        ({"when_missing": "nope"}, "when_missing must be one of make, refuse"),
        ({"capability_policy": "nope"}, "capability_policy must be one of open, strict"),
        ({"keys": "keys.json"}, "FileKeys"),
        ({"language_model": "a-model"}, "names none of the dialects"),
        ({"index_bytes": -1}, "index_bytes is negative"),
    ],
)
def test_invalid_arguments_of_open_are_rejected_by_name(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        elytron.open("memory:", **given)


@pytest.mark.parametrize("store", [None, 7, b"m.db"])
def test_invalid_stores_are_rejected(store: Any) -> None:
    with pytest.raises(StoreUrlInvalid, match="or a Store"):
        elytron.open(store)


def test_a_string_is_accepted_for_its_enum_member(tmp_path: Path) -> None:
    words: dict[str, Any] = {"durability": "normal", "when_missing": "refuse", "capability_policy": "strict"}
    with elytron.open(tmp_path / "m.db") as memory:
        memory.add("tea")
    with elytron.open(tmp_path / "m.db", **words) as memory:
        assert not memory.capabilities().adapter.http.visible
        assert memory.recall("tea").hits[0].text == "tea"
    full: Any = "full"
    assert elytron.open("memory:", durability=full)._options.durability is WriteDurability.FULL  # pyright: ignore[reportPrivateUsage]


def test_a_single_skill_directory_may_be_a_string(tmp_path: Path) -> None:
    with elytron.open("memory:", agent_skill_dirs=str(tmp_path)) as memory:
        assert memory.runtime.context.skill_dirs.has_any
        assert memory.inspect().agent_skills.directories == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"tags": "travel"}, "tags is a text"),
        ({"metadata": [1]}, "metadata is not a mapping"),
        ({"metadata": {"tags": ["a"]}}, r"metadata\.tags must be a text, a number"),
        ({"metadata": {"price": float("nan")}}, r"metadata\.price is not a finite number"),
        ({"metadata": {1: "a"}}, "a name in metadata is not a text"),
        ({"metadata": {"a\nb": 1}}, "a name in metadata has control characters"),
        ({"at": date(2026, 5, 9)}, "at is not a datetime"),
        ({"at": True}, "at is not a datetime"),
        ({"at": -5}, "at is negative: pass a time before 1970"),
    ],
)
def test_ambiguous_arguments_of_add_are_rejected(given: dict[str, Any], problem: str) -> None:
    with elytron.open("memory:") as memory:
        with pytest.raises(InvalidInput, match=problem):
            memory.add("tea", **given)
        with pytest.raises(InvalidInput, match="why_not is a text"):
            memory.recall("tea", why_not="an id")


@pytest.mark.parametrize(
    ("name", "arguments", "given", "field"),
    [
        ("recall", ("tea",), {"limit": "5"}, "limit"),
        ("recall", ("tea",), {"limit": True}, "limit"),
        ("recall", ("tea",), {"top_k": 5.0}, "limit"),
        ("recall", ("tea",), {"max_tokens": "9"}, "max_tokens"),
        ("recall", ("tea",), {"neighbours": True}, "neighbours"),
        ("project", ("tea",), {"max_chars": "900"}, "max_chars"),
        ("list", (), {"limit": "5"}, "limit"),
        ("get_all", (), {"limit": True}, "limit"),
        ("replay", (), {"limit": "5"}, "limit"),
        ("inspect", (), {"check": 1}, "check"),
        ("forget", ("an id",), {"undo": "no"}, "undo"),
    ],
)
def test_numbers_and_flags_are_not_coerced(
    name: str, arguments: tuple[str, ...], given: dict[str, Any], field: str
) -> None:
    with elytron.open("memory:") as memory, pytest.raises(InvalidInput, match=f"^{field} is not valid"):
        getattr(memory, name)(*arguments, **given)


def test_invisible_text_is_rejected() -> None:
    with elytron.open("memory:") as memory:
        memory.add("tea")
        for nothing in ("\u200b", " \u200b\ufeff\n"):
            with pytest.raises(InvalidInput, match="contain no text"):
                memory.add(nothing)
            draft = elytron.TurnDraft(messages=(elytron.Message(text=nothing),))
            report = memory.write(elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=(draft,))))
            assert report.decisions[0].outcome == "skipped"
            assert memory.recall(nothing).reason is elytron.NothingReason.EMPTY_QUERY


def test_an_unopened_memory_explains_how_to_open_it() -> None:
    unopened: Any = elytron.open("memory:")
    with pytest.raises(AttributeError, match=r"'add' requires an open memory: use `with"):
        unopened.add("tea")


def test_the_owner_of_a_memory_must_be_a_string() -> None:
    whose: Any = ["ada"]
    with elytron.open("memory:") as memory, pytest.raises(InvalidInput, match="space is not valid"):
        memory.add("tea", user_id=whose)
