"""Random small spaces: units, the changes that create them, filters, and queries; and indexes of these."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from elytron_core.ports.store import DocumentRef
from elytron_core.text.analyser import TextAnalyser
from elytron_index import DocumentChange, IndexQuery, SearchUnit, UnitFilters
from elytron_index.space_index import SpaceIndex

ANALYSER = TextAnalyser()

REFS = [DocumentRef(collection, f"{number:02x}") for collection in ("fact", "turn") for number in range(8)]
WORDS = ["tea", "coffee", "harbour", "running", "cats", "2024-05-07", "May", "茶", "Ada", "Ben", "the", "1,200"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
DAY_MS = 86_400_000
DAYS = st.sampled_from([0, DAY_MS * 19_850 + 5, DAY_MS * 19_851, DAY_MS * 19_851 + 7])
MOMENTS = st.sampled_from([0, 0, 10, 20, 30])
VECTORS = st.none() | st.tuples(
    st.sampled_from(["small", "large"]), st.lists(st.integers(-4, 4), min_size=3, max_size=3).filter(any)
).map(lambda given: (given[0], np.array(given[1], "<f4").tobytes()))
TAGS = st.lists(st.sampled_from(["red", "blue", "green"]), unique=True, max_size=3).map(tuple)
SCOPES = st.sampled_from([(), (("agent", "x"),), (("agent", "y"), ("project", "p")), (("project", "q"),)])


@st.composite
def units(draw: st.DrawFn, ref: DocumentRef, part: int) -> SearchUnit:
    return SearchUnit(
        ref=ref,
        part=part,
        plane=draw(st.sampled_from(["transcript", "facts"])),
        text=draw(TEXTS),
        title=draw(st.just("") | TEXTS),
        speaker=draw(st.sampled_from(["", "Ada", "Ben Miller", "user"])),
        role=draw(st.sampled_from(["", "user", "assistant"])),
        thread=draw(st.sampled_from(["", "aa", "bb"])),
        order=draw(st.integers(0, 4)),
        at=draw(DAYS),
        scope=draw(SCOPES),
        tags=draw(TAGS),
        valid_from=draw(MOMENTS),
        valid_to=draw(MOMENTS),
        recorded_at=draw(MOMENTS),
        closed_at=draw(st.sampled_from([0, 0, 0, 20])),
        trust=draw(st.integers(0, 2)),
        vector=draw(VECTORS),
    )


@st.composite
def changes(draw: st.DrawFn) -> DocumentChange:
    ref = draw(st.sampled_from(REFS))
    return DocumentChange(ref, tuple(draw(units(ref, part)) for part in range(draw(st.integers(0, 3)))))


HISTORIES = st.lists(st.lists(changes(), max_size=6), max_size=6)
"""Consecutive batches of changes."""

ASKED: dict[str, Sequence[object]] = {
    "planes": [("facts",), ("facts", "transcript"), ("none",)],
    "scope": [(("agent", ("x", "")),), (("agent", ("y",)), ("project", ("p", "q")))],
    "as_of": [10, 15, 20, 25, 30],
    "known_at": [10, 15, 20, 25, 30],
    "min_trust": [1, 2],
    "speakers": [("Ada",), ("Ada", "nobody")],
    "roles": [("user",)],
    "threads": [("aa",)],
    "since": [0, DAY_MS * 19_851, DAY_MS * 19_851 + 1],
    "until": [DAY_MS * 19_851, DAY_MS * 19_851 + 1],
    "tags_any": [("red", "blue")],
    "tags_all": [("red", "green")],
    "exclude": [frozenset(REFS[:3])],
}
"""Values of each filter. Times are those of units, and some between, so that boundaries are tested."""


@st.composite
def filters(draw: st.DrawFn) -> UnitFilters:
    """One filter or a few: with many at once almost nothing passes."""
    names = draw(st.lists(st.sampled_from(sorted(ASKED)), min_size=1, max_size=3, unique=True))
    given: dict[str, Any] = {name: draw(st.sampled_from(ASKED[name])) for name in names}
    return UnitFilters(**given)


FILTERS = filters()

QUERIES = st.builds(
    IndexQuery, text=TEXTS, limit=st.sampled_from([1, 3, 200]), vector=VECTORS, filters=st.just(UnitFilters()) | FILTERS
)


def living(history: Sequence[Sequence[DocumentChange]], /) -> list[SearchUnit]:
    """Return the units that exist after `history`."""
    latest = {change.ref: change for batch in history for change in batch}
    return [unit for change in latest.values() for unit in change.units]


def told(*texts: str, thread: str = "") -> list[DocumentChange]:
    """Return the turns of a conversation, one text each."""
    return [
        DocumentChange(
            ref := DocumentRef("turn", f"{place:02x}"),
            (SearchUnit(ref, 0, "transcript", text, thread=thread, order=place),),
        )
        for place, text in enumerate(texts)
    ]


def built(history: Sequence[Sequence[DocumentChange]]) -> SpaceIndex:
    """Return an index that applied `history` batch by batch."""
    index = SpaceIndex(ANALYSER)
    for sequence, batch in enumerate(history, 1):
        index.apply(batch, watermark=sequence)
    return index


def fresh(units: Sequence[SearchUnit]) -> SpaceIndex:
    """Return an index that applied `units` at once."""
    return built(
        [
            [
                DocumentChange(ref, tuple(unit for unit in units if unit.ref == ref))
                for ref in {unit.ref for unit in units}
            ]
        ]
    )


def reloaded(index: SpaceIndex) -> SpaceIndex:
    """Return the index restored from a checkpoint of `index`."""
    found = SpaceIndex.from_bytes(index.to_bytes(), ANALYSER)
    assert found is not None
    return found
