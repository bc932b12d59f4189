"""Shared state of the gates."""

from collections.abc import Iterator

import pytest
from tests.gates import tree


@pytest.fixture(scope="package", autouse=True)
def released_trees() -> Iterator[None]:
    """Drop the syntax trees after the last gate: garbage collection in later tests would traverse them."""
    yield
    tree.nodes.cache_clear()
    tree.parse.cache_clear()
