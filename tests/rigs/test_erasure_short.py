"""The short erasure rig: nothing remains, and it would detect remains."""

import base64
import zlib
from pathlib import Path

import pytest
from benchmarks.rigs import erasure

pytestmark = pytest.mark.anyio

WORDS = {"turn": "canaryturn0123456789abcdef"}


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
@pytest.mark.parametrize("whole_space", [False, True])
async def test_erased_content_is_in_no_byte(engine: str, tmp_path: Path, *, whole_space: bool) -> None:
    assert await erasure.run(engine, tmp_path, whole_space=whole_space) == {"missing": [], "left": []}


@pytest.mark.parametrize(
    "hidden",
    [
        WORDS["turn"].upper().encode(),
        WORDS["turn"].encode("utf-16-le"),
        WORDS["turn"].encode().hex().encode(),
        base64.b64encode(b"x" + WORDS["turn"].encode()),
        zlib.compress(b"some " + WORDS["turn"].encode() + b" more"),
    ],
)
def test_the_search_finds_a_word_in_other_encodings(hidden: bytes) -> None:
    assert erasure.found_in(b"before" + hidden + b"after", WORDS) == ["turn"]
    assert erasure.found_in(b"before and after", WORDS) == []
