"""When memory speaks unasked: the one gate for recalled text that a model gets without having asked for it.

Search always answers; `recall_gate` says whether a request is a search. `python -m benchmarks.train_gate` fits the
numbers, and `python -m benchmarks.precision` measures them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from elytron_core.contracts.recall import RecallGateNumbers, RecallGateReport, RecallPlane
from elytron_core.planes.embedding import ModelReach

Memory = TypeVar("Memory", bound="ScoredMemory")

ASKS_MOST: Final = 6.0
"""A prompt's margin is clipped to this, either way."""
OPEN_FROM: Final = 0.5
DOUBTFUL_FROM, DOUBTFUL_FIRST, DOUBTFUL_CONTEXT = 0.73, 0.1, 0.5
"""What a strict gate wants of hits that may not answer: this chance, and this estimate for the first one or this share
of the query's words near a memory. The estimate is lower only if the query asks for a kind of value that the hit lacks.
`python -m benchmarks.assistants_doubt` shows the choice."""
FIRST_LINES: Final = 5
FIRST_SCORE, LEAST_SHARE = 0.001, 0.05
"""The first hits are shown with this score, since the answer is often not the first of all: it stands behind a question
that was put before. Further ones are shown only with this share of the best score."""
_SMALL_LOG, _GROWTH = 2.5, 4.0


class GateSigns(NamedTuple):
    """A plane's search signals on whether its memories are wanted."""

    evidence: float
    searched: int
    context: float
    encoder: ModelReach | None = None


class GateWeights(NamedTuple):
    """Weights of a logistic model of whether the query asks memory."""

    intercept: float
    evidence: float
    asks: float
    size: float
    """Subtracted for the similarity that the best of so many memories has by chance."""
    context: float
    """Counts in full from some 700 memories on, not at all up to 12."""


WORDED: Final = GateWeights(4.94, 8.10, 0.939, 2.34, 4.10)
"""Without an encoder."""
ENCODED: Final = GateWeights(2.55, 6.55, 0.946, 1.61, 3.13)
"""With an English encoder, by `minilm`."""
ENCODED_MANY: Final = GateWeights(2.98, 7.16, 0.930, 1.73, 3.95)
"""With a multilingual encoder, by `e5`."""
_WEIGHTS: Final = MappingProxyType({None: WORDED, ModelReach.ENGLISH: ENCODED, ModelReach.MANY: ENCODED_MANY})


def gate_chance(gate_signs: GateSigns, asks: float, /) -> float:
    """Return the estimate, 0 to 1, that the memories are wanted; the gate is open from 0.5 on."""
    intercept, *weights = _WEIGHTS[gate_signs.encoder]
    weighted_sum = intercept + sum(map(mul, weights, gate_features(gate_signs, asks)))
    return 1.0 / (1.0 + math.exp(-weighted_sum))


def gate_features(gate_signs: GateSigns, asks: float, /) -> tuple[float, ...]:
    """Return the factors of the weights after the intercept."""
    log_count = math.log(max(gate_signs.searched, 2))
    growth_share = min(max((log_count - _SMALL_LOG) / _GROWTH, 0.0), 1.0)
    # The expected maximum of N random draws grows with this root, so one threshold serves small and large spaces.
    return gate_signs.evidence, clipped_margin(asks), -math.sqrt(2.0 * log_count), growth_share * gate_signs.context


def clipped_margin(margin: float, /) -> float:
    """Return a classifier's margin, clipped; one that is no number counts as not asking."""
    return -ASKS_MOST if math.isnan(margin) else min(max(margin, -ASKS_MOST), ASKS_MOST)


def gate_numbers(
    signs_by_plane: Mapping[RecallPlane, GateSigns],
    asks: float,
    /,
    *,
    is_answered: bool,
    named_planes: Iterable[RecallPlane] = (),
) -> tuple[RecallGateNumbers, ...]:
    """Return the gate's decision about each plane; `named_planes` are those with a memory that the query names.

    `is_answered` says whether the search estimates that one of the best hits answers.
    """
    named_plane_set = frozenset(named_planes)
    plane_numbers: list[RecallGateNumbers] = []
    for plane, plane_signs in signs_by_plane.items():
        chance = gate_chance(plane_signs, asks)
        plane_numbers.append(
            RecallGateNumbers(
                plane=plane,
                evidence=round(plane_signs.evidence, 4),
                searched=plane_signs.searched,
                asks=round(clipped_margin(asks), 4),
                context=round(plane_signs.context, 4),
                chance=round(chance, 4),
                is_open=plane in named_plane_set or (is_answered and chance >= OPEN_FROM),
            )
        )
    return tuple(plane_numbers)


def strict_numbers(numbers: Sequence[RecallGateNumbers], first_chance: float, /) -> tuple[RecallGateNumbers, ...]:
    """Return what a strict gate decides where the hits may not answer; `first_chance` is the estimate that the first
    does."""

    def is_open(row: RecallGateNumbers) -> bool:
        is_near = first_chance >= DOUBTFUL_FIRST or row.context >= DOUBTFUL_CONTEXT
        return row.is_open and row.chance >= DOUBTFUL_FROM and is_near

    return tuple(row.model_copy(update={"is_open": is_open(row)}) for row in numbers)


class ScoredMemory(Protocol):
    """A memory with its position in a recall."""

    @property
    def plane(self) -> RecallPlane: ...
    @property
    def score(self) -> float: ...


def injected_memories(
    ordered_memories: Sequence[Memory], numbers: Sequence[RecallGateNumbers], /
) -> tuple[Memory, ...]:
    """Return the memories of open planes: the first ones, and further ones not far behind the best."""
    open_planes = {row.plane for row in numbers if row.is_open}
    admitted_memories = [memory for memory in ordered_memories if memory.plane in open_planes]
    least_score = admitted_memories[0].score * LEAST_SHARE if admitted_memories else 0.0
    required_scores = (
        FIRST_SCORE if position < FIRST_LINES else least_score for position in range(len(admitted_memories))
    )
    return tuple(
        [
            memory
            for memory, required_score in zip(admitted_memories, required_scores, strict=True)
            if memory.score >= required_score
        ]
    )


def gate_report(numbers: Sequence[RecallGateNumbers], /, *, left_out: int) -> RecallGateReport:
    """Return the gate's report."""
    return RecallGateReport(
        is_open=any(row.is_open for row in numbers), planes=tuple(numbers), left_out=max(left_out, 0)
    )
