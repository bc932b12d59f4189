"""Names from callers, through the function and through the field type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded
from elytron_core.ids import SpaceId, require_name
from elytron_core.model import Request
from elytron_core.scope import Name, Space


class Named(Request):
    name: Name


@pytest.mark.parametrize("name", ["a", "Mina", "外婆", "room 4/b", "é", "👍", "x" * limits.NAME_CHARS])
def test_a_printable_name_is_accepted(name: str) -> None:
    require_name(name, field="speaker", limit=limits.NAME_CHARS)
    assert Named(name=name).name == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        *(
            (name, "has control characters, lone surrogates or surrounding white space")
            for name in (
                " ",
                "a ",
                " a",
                "a\nb",
                "a\x00b",
                "a\u2028b",
                "a\u00a0b",
                "a\u200bb",
                "a\u202eb",
                "\ud800",
                "a\tb",
            )
        ),
    ],
)
def test_invisible_or_breaking_characters_are_rejected_without_echoing_them(name: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        require_name(name, field="speaker", limit=limits.NAME_CHARS)
    assert raised.value.message == f"speaker {problem}"
    with pytest.raises(InvalidInput):
        Named(name=name)


def test_a_long_name_is_over_the_limit() -> None:
    with pytest.raises(LimitExceeded) as raised:
        require_name("x" * 4, field="speaker", limit=3)
    assert raised.value.message == "characters in speaker: at most 3, got 4"
    with pytest.raises(InvalidInput):
        Named(name="x" * (limits.NAME_CHARS + 1))


def is_taken(name: str) -> bool:
    try:
        require_name(name, field="name", limit=limits.NAME_CHARS)
    except ElytronError:
        return False
    return True


# Characters assigned in a later Unicode than Python's are judged by the engine's newer tables.
@given(st.text(st.one_of(st.sampled_from(" \n\t\u00a0"), st.characters(exclude_categories=["Cn"])), max_size=4))
def test_the_field_type_accepts_what_the_function_accepts(name: str) -> None:
    try:
        Named(name=name)
    except InvalidInput:
        assert not is_taken(name)
    else:
        assert is_taken(name)


def test_a_space_is_a_name_of_its_own_length() -> None:
    class InSpace(Request):
        space: Space

    longest = SpaceId("s" * limits.SPACE_CHARS)
    assert InSpace(space=longest).space == longest
    with pytest.raises(InvalidInput):
        InSpace(space=SpaceId(longest + "s"))
