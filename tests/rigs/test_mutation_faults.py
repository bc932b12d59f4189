"""The faults that the mutation benchmark inserts, and what it leaves unchanged."""

from benchmarks.mutation_faults import places_of, with_fault

SOURCE = '''"""A module."""

LIMIT: int = 3


def judge(value: int, /) -> bool:
    """Tell whether `value` is welcome."""
    if value < 0 or not value:
        raise ValueError(f"{value} is less than {1 + 1}")
    assert value != 7
    logger.info("judged")
    note(value)
    return value in KNOWN
'''
REFUSAL = "raise ValueError(f'{value} is less than {1 + 1}')"


def test_each_fault_changes_one_thing_and_messages_stay_unchanged() -> None:
    told = [with_fault(SOURCE, place)[1] for place in places_of(SOURCE)]
    assert told == [
        "3  ->  4",
        f"if value < 0 or not value: {REFUSAL}  ->  if False: {REFUSAL}",
        "value < 0 or not value  ->  value < 0 and (not value)",
        "value < 0  ->  value <= 0",
        "0  ->  1",
        "not value  ->  not not value",
        "note(value)  ->  None",
        "value in KNOWN  ->  value not in KNOWN",
    ]


def test_a_fault_is_inserted_only_at_its_place() -> None:
    place = next(place for place in places_of("a = 1\nb = 1\n") if place.line == 2)
    assert with_fault("a = 1\nb = 1\n", place)[0] == "a = 1\nb = 2\n"
