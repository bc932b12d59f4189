"""The languages that an embedder reads, tried on made pairs: no name or setting says it for every model.

A pair is a memory and a question about it in other words, in one of six languages. Of 36 questions an encoder of many
languages finds 34 beside the other memories of its language, one of English 13, and chance six.
"""

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from operator import mul
from typing import Final

from elytron.state.encoders import RuntimeEncoders, embed_texts
from elytron_core.errors import ModelRefused
from elytron_core.planes.embedding import ModelReach
from elytron_core.ports.models import Embedder

_LEAST: Final = 2 / 3
"""An embedder that finds this share of the pairs reads many languages."""


async def reach_of(encoders: RuntimeEncoders, embedder: Embedder, /) -> ModelReach:
    """Return which languages `embedder` reads; it is tried once by a runtime. Raises ModelUnavailable."""
    model = embedder.info.model
    known = encoders.reaches.get(model)
    if known is None:
        known = encoders.reaches[model] = await _try_languages(embedder)
    return known


async def _try_languages(embedder: Embedder) -> ModelReach:
    """Return which languages `embedder` reads; many if it refuses the texts of the trial. Raises ModelUnavailable."""
    pairs: dict[str, list[list[str]]] = json.loads(
        files("elytron.embedding").joinpath("language_pairs.json").read_text("utf-8")
    )
    every = [pair for told in pairs.values() for pair in told]
    try:
        memories, questions = [await embed_texts(embedder, [pair[side] for pair in every]) for side in (0, 1)]
    except ModelRefused:
        return ModelReach.MANY
    found, start = 0, 0
    for told in pairs.values():
        end = start + len(told)
        likeness = [[_cosine_likeness(asked, kept) for kept in memories[start:end]] for asked in questions[start:end]]
        found += sum(row.index(max(row)) == place for place, row in enumerate(likeness))
        start = end
    return ModelReach.MANY if found >= _LEAST * len(every) else ModelReach.ENGLISH


def _cosine_likeness(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return math.fsum(map(mul, one, other)) / lengths if lengths else 0.0
