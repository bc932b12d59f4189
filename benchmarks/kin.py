"""Rebuild the table of related words from the sentence encoder in a folder (`elytron model add minilm` creates one).

    python -m benchmarks.kin [FOLDER] --output kin.npz

`benchmarks/kinds.txt` adds what vectors of single words do not show: things of a kind, under the words for the kind.
The words are the whole words of the encoder's vocabulary, which is ordered by frequency. The mean of all vectors is
subtracted before they are compared. A stem has the vector of its most frequent word. Prints how far the table agrees
with the bundled one, which was built from the encoder's weights before they were reduced to 8 bits. Without a folder,
the kinds are added to the bundled table.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from itertools import accumulate, pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import elytron_index
from elytron.embedding import LocalEmbedder
from elytron_core.text.analyser import TextAnalyser
from elytron_index.lexicon import terms

OTHERS = 24
"""Maximum number of most similar stems that are stored for a stem."""
AT_ONCE = 1_000
KINDS = Path(__file__).parent / "kinds.txt"
OF_KIND = 0.74
"""Minimum similarity of a thing to a word for its kind."""

Floats = NDArray[np.float32]
Table = tuple[list[str], list[int], list[int], list[int]]
"""Stems, the start of each stem's related ones, the related stems, and their similarities."""


def main() -> int:
    """Build the table and print how it compares."""
    parser = argparse.ArgumentParser(description="make the table of word kin")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    table = _shipped() if given.folder is None else asyncio.run(_made(given.folder))
    stems, starts, others, likeness = _with_kinds(*table)
    np.savez(  # not compressed, because every process that recalls would have to wait for decompression
        given.output,
        words=np.frombuffer("\n".join(stems).encode("ascii"), np.uint8),
        starts=np.array(starts, "<i4"),
        others=np.array(others, "<u2"),
        likeness=np.array(likeness, "u1"),
    )
    agreeing = _agreement(stems, starts, others)
    print(f"{len(stems)} stems, {len(others)} pairs; {agreeing:.1%} of their first three stand in the table that ships")
    return 0


def _shipped() -> Table:
    with np.load(Path(elytron_index.__file__).with_name("kin.npz")) as arrays:
        stems = arrays["words"].tobytes().decode("ascii").split("\n")
        starts, others, likeness = (arrays[name].tolist() for name in ("starts", "others", "likeness"))
        return stems, starts, others, likeness


async def _made(folder: Path) -> Table:
    stems, vectors = await _stems(folder)
    return stems, *_likest(vectors)


async def _stems(folder: Path) -> tuple[list[str], Floats]:
    """Return the stems, most frequent first, and their vectors of length 1."""
    vocabulary: dict[str, int] = json.loads((folder / "tokenizer.json").read_bytes())["model"]["vocab"]
    whole = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
    words = sorted(whole, key=lambda word: vocabulary[word])
    encoder = LocalEmbedder(folder)
    rows = [
        vector
        for start in range(0, len(words), AT_ONCE)
        for vector in await encoder.embed_documents(words[start : start + AT_ONCE])
    ]
    vectors = np.array(rows, np.float32)
    vectors -= vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    analyser = TextAnalyser()
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        for stem in analyser.terms(word):
            places.setdefault(stem, place)
    return list(places), vectors[list(places.values())]


def _likest(vectors: Floats) -> tuple[list[int], list[int], list[int]]:
    starts, others, likeness = [0], list[int](), list[int]()
    for start in range(0, len(vectors), AT_ONCE):
        cosines = vectors[start : start + AT_ONCE] @ vectors.T
        for row, line in enumerate(cosines):
            line[start + row] = -1.0
            near = np.argpartition(-line, OTHERS)[:OTHERS]
            near = near[np.lexsort((near, -line[near]))]
            near = near[line[near] >= terms.FLOOR]
            others += near.tolist()
            likeness += np.rint(line[near] * 255).astype(int).tolist()
            starts.append(len(others))
    return starts, others, likeness


def _with_kinds(stems: list[str], starts: list[int], others: list[int], likeness: list[int]) -> Table:
    """Return the table with the things of each kind among the stems most similar to its words.

    Unknown ones become new stems.
    """
    table = [dict(zip(others[start:end], likeness[start:end], strict=True)) for start, end in pairwise(starts)]
    places = {stem: place for place, stem in enumerate(stems)}
    for kind, thing in _kinds():
        for stem in (kind, thing):
            if stem not in places:
                places[stem] = len(stems)
                stems.append(stem)
                table.append({})
        near = table[places[kind]]
        near[places[thing]] = max(near.get(places[thing], 0), round(OF_KIND * 255))
    ordered = [sorted(near.items(), key=lambda pair: (-pair[1], pair[0])) for near in table]
    ends = accumulate((len(near) for near in ordered), initial=0)
    pairs = [pair for near in ordered for pair in near]
    return stems, list(ends), [other for other, _ in pairs], [alike for _, alike in pairs]


def _kinds() -> Iterator[tuple[str, str]]:
    """Yield each word for a kind with each thing of that kind, as stems."""
    analyser = TextAnalyser()
    for line in KINDS.read_text("utf-8").splitlines():
        kinds, _, things = line.partition(":")
        if not line.startswith("#"):
            pairs = product(analyser.terms(kinds), analyser.terms(things))
            yield from ((kind, thing) for kind, thing in pairs if kind != thing)


def _agreement(stems: list[str], starts: list[int], others: list[int]) -> float:
    """Return the share of each stem's first three related ones that the bundled table also has."""
    found = total = 0
    for place, stem in enumerate(stems):
        shipped = terms.related_stems(stem)
        for other in others[starts[place] : starts[place + 1]][:3]:
            total += 1
            found += stems[other] in shipped
    return found / total if total else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
