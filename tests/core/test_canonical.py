"""Canonical bytes and the digests over them."""

import hashlib
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import strict_json
from elytron_core.model import Value

SECRET, OTHER_SECRET = b"s" * 32, b"t" * 32
PARTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=4)


class Point(Value):
    y: int = 0
    x: float | None = None
    names: tuple[str, ...] = ()


def test_equal_values_have_one_form() -> None:
    expected = '{"names":["é"],"x":null,"y":1}'.encode()
    assert strict_json.canonical_bytes(Point(y=1, names=("é",))) == expected
    assert strict_json.canonical_bytes({"y": 1, "x": None, "names": ["é"]}) == expected
    assert strict_json.canonical_bytes({"names": ("é",), "x": None, "y": 1}) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_json_cannot_express_have_no_form(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        strict_json.canonical_bytes({"x": value})


def test_a_lone_surrogate_has_no_form() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        strict_json.canonical_bytes(["\ud800"])


@given(st.dictionaries(st.text("abc", max_size=3), st.integers(), max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    turned = dict(reversed(value.items()))
    assert strict_json.canonical_bytes(turned) == strict_json.canonical_bytes(value)


def test_a_digest_is_sha_256() -> None:
    assert strict_json.sha256_digest(b"tea") == hashlib.sha256(b"tea").hexdigest()


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_a_checksum_changes_with_every_changed_moved_or_removed_part(one: list[bytes], other: list[bytes]) -> None:
    assert len(strict_json.frame_checksum(*one)) == 8
    assert (strict_json.frame_checksum(*one) == strict_json.frame_checksum(*other)) == (one == other)


@given(PARTS, PARTS)
def test_a_tag_is_equal_only_for_equal_parts(one: list[str], other: list[str]) -> None:
    same = strict_json.keyed_tag(SECRET, "slot", *one) == strict_json.keyed_tag(SECRET, "slot", *other)
    assert same == (one == other)


def test_a_tag_depends_on_secret_and_purpose_and_has_the_requested_size() -> None:
    tags = {
        strict_json.keyed_tag(SECRET, "slot", "tea", size=24),
        strict_json.keyed_tag(OTHER_SECRET, "slot", "tea", size=24),
        strict_json.keyed_tag(SECRET, "skill", "tea", size=24),
    }
    assert len(tags) == 3
    assert all(re.fullmatch("[0-9a-f]{24}", tag) for tag in tags)


@given(st.binary(max_size=4), st.binary(max_size=4))
def test_a_keyed_digest_is_equal_only_for_equal_bytes_and_secret(one: bytes, other: bytes) -> None:
    made = strict_json.keyed_digest(SECRET, one)
    assert re.fullmatch("[0-9a-f]{32}", made)
    assert (made == strict_json.keyed_digest(SECRET, other)) == (one == other)
    assert made != strict_json.keyed_digest(OTHER_SECRET, one)
