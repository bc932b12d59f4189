"""JSON from outside is unambiguous or rejected."""

import pytest

from elytron_core.errors import InvalidJson, PayloadTooLarge
from elytron_core.strict_json import parse_json

CANARY = "s3cret"

REFUSED = {
    "text that is not UTF-8": (b'{"a": "\xff"}', "is not UTF-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),
    "a byte order mark": (b'\xef\xbb\xbf{"a": 1}', "cannot be parsed at line 1, column 1"),
    "nothing": (b"", "cannot be parsed at line 1, column 1"),
    "a cut document": (b'{"a": "s3cre', "cannot be parsed at line 1, column 7"),
    "more than one value": (b'{"a": 1} {"s3cret": 2}', "cannot be parsed at line 1, column 10"),
    "a raw control character": (b'"s3cret\x00"', "cannot be parsed at line 1, column 8"),
    "one key twice": (b'{"s3cret": 1, "s3cret": 2}', "has an object with a duplicate key"),
    "one key twice, written two ways": (b'{"a": 1, "\\u0061": 2}', "has an object with a duplicate key"),
    "NaN": (b"[NaN]", "has NaN, which is not a JSON number"),
    "an infinity": (b"[-Infinity]", "has -Infinity, which is not a JSON number"),
    "a number beyond a float": (b"[1e400]", "has a number that does not fit into a float"),
    "an integer beyond 64 bits": (b"[9223372036854775808]", "has an integer beyond 64 bits"),
    "a negative integer beyond 64 bits": (b"[-9223372036854775809]", "has an integer beyond 64 bits"),
    "an integer of 5,000 digits": (b"1" * 5_000, "has an integer beyond 64 bits"),
    "a lone surrogate": (b'{"a": "\\ud800"}', "has a lone surrogate at line 1, byte 8"),
    "a lone surrogate in a key": (b'{"\\uDC00": 1}', "has a lone surrogate at line 1, byte 3"),
    "a lone surrogate behind a pair": (b'"\\ud83d\\ude00\\ud83d"', "has a lone surrogate at line 1, byte 14"),
    "surrogates the wrong way round": (b'"\\udc00\\ud800"', "has a lone surrogate at line 1, byte 2"),
    "65 levels": (b"[" * 65 + b"]" * 65, "is nested deeper than 64"),
    "65 levels of objects": (b'{"a":' * 65 + b"1" + b"}" * 65, "is nested deeper than 64"),
    "100,000 levels": (b"[" * 100_000 + b"]" * 100_000, "is nested deeper than 64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_ambiguous_json_is_rejected_without_echoing_it(case: str) -> None:
    data, problem = REFUSED[case]
    with pytest.raises(InvalidJson) as refused:
        parse_json(data)
    assert refused.value.problem == problem
    assert CANARY not in str(refused.value)


def test_more_bytes_than_allowed_are_not_read() -> None:
    with pytest.raises(PayloadTooLarge):
        parse_json(b"[1, 2]", limit=5)


def test_valid_json_is_read() -> None:
    deep = "[" * 63 + "1" + "]" * 63
    data = (
        '{"a": [9223372036854775807, -9223372036854775808, 1.5, true, null], "é": "\\ud83d\\ude00", "d": ' + deep + "}"
    )
    expected: object = 1
    for _ in range(63):
        expected = [expected]
    assert parse_json(data.encode()) == {"a": [2**63 - 1, -(2**63), 1.5, True, None], "é": "😀", "d": expected}


def test_many_adjacent_brackets_are_not_deep() -> None:
    assert parse_json(b"[" + b"[]," * 200 + b"[]]") == [[]] * 201


def test_an_escaped_backslash_before_ud800_is_not_a_surrogate() -> None:
    assert parse_json(b'"\\\\ud800 \\ud83d\\ude00"') == "\\ud800 😀"
