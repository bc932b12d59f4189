"""Keys in memory are walked in order, whatever the order of insertions and removals."""

from hypothesis import given
from hypothesis import strategies as st

from elytron_store.engine import DocumentPage
from elytron_store.ledger import OrderedKeys

KEYS = st.text(alphabet="09af.-", min_size=1, max_size=3)
STEPS = st.lists(st.tuples(st.booleans(), KEYS), max_size=120)


def wanted(keys: set[str], *, prefix: str, after: str, limit: int, descending: bool) -> list[str]:
    some = sorted((key for key in keys if key.startswith(prefix)), reverse=descending)
    behind = [key for key in some if not after or (key < after if descending else key > after)]
    return behind[:limit]


@given(steps=STEPS, prefix=st.text(alphabet="0a.z", max_size=2), after=st.just("") | KEYS, limit=st.integers(1, 50))
def test_a_window_matches_a_sorted_set(steps: list[tuple[bool, str]], prefix: str, after: str, limit: int) -> None:
    keys, model = OrderedKeys(), set[str]()
    for adds, key in steps:
        if adds and key not in model:
            keys.add(key)
            model.add(key)
        elif not adds and key in model:
            keys.remove(key)
            model.remove(key)
    assert len(keys) == len(model)
    for descending in (False, True):
        found = keys.window(DocumentPage("facts", prefix, after, limit, descending))
        assert found == wanted(model, prefix=prefix, after=after, limit=limit, descending=descending)


def test_many_keys_in_descending_order_are_sorted_together() -> None:
    keys = OrderedKeys()
    for number in range(1_000, 0, -1):
        keys.add(f"{number:04x}")
    found = keys.window(DocumentPage("facts", "", "", 1_000, descending=False))
    assert found == [f"{number:04x}" for number in range(1, 1_001)]
