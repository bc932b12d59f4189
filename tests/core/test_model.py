"""Values: frozen, equal bytes for equal values, and silent about rejected values."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from elytron_core.errors import InvalidInput
from elytron_core.model import Request, Value, VouchedMaker, invalid_input
from elytron_core.scope import Name

SECRET = "hunter2"


class Tea(Value):
    kind: Literal["tea"] = "tea"
    cups: Annotated[int, Field(ge=1)] = 1


class Coffee(Value):
    kind: Literal["coffee"] = "coffee"


class Tray(Value):
    cups: int = 1
    labels: dict[str, str] = {}
    drinks: tuple[Tea, ...] = ()
    tags: dict[str, str] = {}


class Order(Request):
    drinks: tuple[Annotated[Tea | Coffee, Field(discriminator="kind")], ...]
    table: Name = "1"
    day: Annotated[str, Field(pattern=r"^\d+$")] = "1"


def test_a_value_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Tea().__setattr__("cups", 2)


def test_defaults_are_omitted_from_the_bytes() -> None:
    assert Order(drinks=(Tea(), Tea(cups=2)), table="1").to_bytes() == b'{"drinks":[{},{"cups":2}]}'


def test_an_unvalidated_value_equals_the_validated_one() -> None:
    trays = VouchedMaker(Tray, "drinks", "labels")
    checked = Tray(drinks=(Tea(cups=2),), labels={"a": "b"})
    made, other = (trays.make(drinks=(Tea(cups=2),), labels={"a": "b"}) for _ in range(2))
    assert made == checked
    assert (made.model_dump_json(), repr(made)) == (checked.model_dump_json(), repr(checked))
    assert made.model_fields_set == checked.model_fields_set
    assert made.to_bytes() == checked.to_bytes()
    assert made.model_copy(update={"cups": 2}) == checked.model_copy(update={"cups": 2})
    assert made.tags is not other.tags
    again = trays.again(made, labels={"c": "d"})
    assert again == checked.model_copy(update={"labels": {"c": "d"}})
    assert (again.model_fields_set, again.tags) == (checked.model_fields_set, {})
    assert again.tags is not made.tags


def test_a_copy_equals_pydantics_copy() -> None:
    order = Order(drinks=(Tea(cups=2),))
    for update in ({"table": "2"}, {"drinks": (), "day": "3"}, {}, None):
        copied, theirs = order.model_copy(update=update), BaseModel.model_copy(order, update=update)
        assert (copied, repr(copied), copied.model_fields_set) == (theirs, repr(theirs), theirs.model_fields_set)
        assert copied.model_fields_set is not order.model_fields_set
    assert order.model_copy(deep=True).drinks[0] is not order.drinks[0]


@given(st.builds(Tea, cups=st.integers(1, 2**60)))
def test_bytes_are_read_back_as_the_value(value: Tea) -> None:
    assert Tea.from_bytes(value.to_bytes()) == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "request is not valid: invalid JSON: EOF while parsing an object at line 1 column 1"),
        (b'{"cups": 0}', "cups is not valid: input should be greater than or equal to 1"),
        (b'{"cups": "hunter2"}', "cups is not valid: input should be a valid integer"),
        (b'{"spoons": "hunter2"}', "spoons is not a field"),
        (b'{"cups": 0, "kind": "hunter2"}', "kind is not valid: input should be 'tea' (and 1 more)"),
    ],
)
def test_errors_in_invalid_bytes_name_the_field(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Tea.from_bytes(data)
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "drinks is not valid: field required"),
        ({"drinks": [{"kind": SECRET}]}, "drinks.0 has an unknown kind: choose from tea, coffee"),
        ({"drinks": [{"kind": "tea", SECRET: 1}]}, "drinks.0.tea.hunter2 is not a field: choose from kind, cups"),
        ({"drinks": [], "table": f" {SECRET}"}, "table has control characters or surrounding white space"),
        ({"drinks": [], "day": SECRET}, r"day does not match ^\d+$"),
        ({"drinks": SECRET}, "drinks is not valid: input should be a valid tuple"),
    ],
)
def test_a_wrong_request_is_invalid_input_wherever_it_is_built(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Order(**given)  # pyright: ignore[reportArgumentType]
    assert raised.value.message == message


def test_unknown_field_names_are_not_echoed() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(Tea).validate_python({SECRET: 1})
    error = invalid_input(raised.value, names={"cups", "kind"})
    assert error.message == "request has an unknown field"


def test_a_user_chosen_name_is_shown_on_one_line_and_truncated() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(dict[str, Tea]).validate_python({"a\n\x1b" + "b" * 100: 1})
    assert invalid_input(raised.value).field == "a??" + "b" * 61


def test_a_list_index_is_part_of_the_path() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(tuple[Tea, ...]).validate_python([{}, {"cups": 0}])
    error = invalid_input(raised.value, names={"cups"})
    assert error.message == "1.cups is not valid: input should be greater than or equal to 1"


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.just(SECRET), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["kind", "cups"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.fixed_dictionaries({}, optional={"drinks": JSON, "table": JSON}))
def test_no_message_echoes_the_input(given: dict[str, object]) -> None:
    error = refusal(given)
    if error is not None:
        assert SECRET not in f"{error} {error.details()}"
        assert error.__cause__ is None


def refusal(given: dict[str, object]) -> InvalidInput | None:
    try:
        Order(**given)  # pyright: ignore[reportArgumentType]
    except InvalidInput as error:
        return error
    return None


class Mixed(Value):
    """Numbers and flags at every depth, and fields named like parts of a schema."""

    type: int = 1
    metadata: tuple[int, ...] = ()
    serialization: dict[str, bool | None] = {}
    share: float = 0.0
    inner: Tea | None = None


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "5"},
        {"type": True},
        {"type": 5.0},
        {"metadata": ("5",)},
        {"metadata": (True,)},
        {"serialization": {"a": 1}},
        {"serialization": {"a": "yes"}},
        {"share": "0.5"},
        {"share": True},
        {"inner": {"cups": "2"}},
    ],
)
def test_a_string_is_not_a_number_and_a_number_is_not_a_flag(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Mixed(**wrong)


def test_an_integer_is_accepted_as_a_float() -> None:
    assert Mixed(share=1, serialization={"a": True, "b": None}).share == 1.0
