"""What the gates share while they run."""

from collections.abc import Iterator

import pytest
from tests.gates import tree


@pytest.fixture(scope="package", autouse=True)
def released_trees() -> Iterator[None]:
    """Drop the syntax trees behind the last gate: the tests of other folders would search their nodes for garbage."""
    yield
    tree.nodes.cache_clear()
    tree.parse.cache_clear()
