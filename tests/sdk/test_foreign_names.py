"""Names of other libraries are answered with the name used here."""

from typing import Any

import pytest

import elytron
from elytron_core.errors.foreign_names import CALLS, EXPORTS, KEYWORDS


@pytest.mark.parametrize("name", EXPORTS)
def test_a_foreign_package_name_error_names_the_intended_one(name: str) -> None:
    with pytest.raises(AttributeError, match=r"use .*elytron\.(open|connect)"):
        getattr(elytron, name)
    with pytest.raises(ImportError):
        exec(f"from elytron import {name}")


@pytest.mark.parametrize("name", CALLS)
def test_a_foreign_call_error_names_the_intended_call(name: str) -> None:
    with elytron.open("memory:") as memory:
        meant = CALLS[name].partition("(")[0]
        for face in (memory, memory.runtime):
            assert callable(getattr(face, meant))
            with pytest.raises(AttributeError, match=f"use {meant}"):
                getattr(face, name)


def test_each_foreign_keyword_maps_to_an_existing_one() -> None:
    with elytron.open("memory:") as memory:
        add: Any = memory.add
        for name, meant in {"session_id": "conversation", "thread_id": "conversation", "user": "user_id"}.items():
            assert meant in KEYWORDS[name]
            with pytest.raises(TypeError, match=rf"^add\(\) has no parameter '{name}': use {meant}=$"):
                add("tea", **{name: "x"})


def test_a_threshold_is_a_minimum_score() -> None:
    with elytron.open("memory:") as memory:
        memory.add("I like tea")
        assert memory.search("tea", threshold=0.0).hits
        assert memory.search("tea", threshold=1.0).hits == memory.recall("tea", min_score=1.0).hits
