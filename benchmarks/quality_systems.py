"""The measured systems: recall as shipped, with an encoder, with one signal off, and plain baselines."""

import math
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import elytron
from benchmarks.quality_sets import Told, Turn
from elytron_core.clock import instant
from elytron_core.contracts.maintenance.embedding import EmbeddingOutcome
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId
from elytron_core.planes.transcript import Message
from elytron_core.policy.ranking import weights as ranking_weights
from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.ports.models import Embedder
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import Scope
from elytron_core.text import analyser
from elytron_core.text.analyser import TextAnalyser
from elytron_index import Bm25Parameters, DocumentChange, IndexQuery, SearchUnit
from elytron_index.space_index import SpaceIndex

RRF = 60
OFF = SignalWeights(
    title=0.0, name=0.0, kin=0.0, asking=1.0, near=0.0, window=0.0, session=0.0, answer=0.0, speaker=0.0,
    present=0.0, owner=0.0, standing=0.0, date=0.0, fits=0.0, told=0.0, informative=0.0, text_vectors=0.0,
)  # fmt: skip
"""No signal except BM25 of the text."""
PLAIN = Bm25Parameters(typical=math.inf)

_WORD = re.compile(r"\w+")


class Found(NamedTuple):
    """A turn that was found, with its score. Scores of different systems are not comparable."""

    id: str
    score: float


class System(Protocol):
    """A system that is told conversations and then returns turns, best first, or none if it finds nothing."""

    async def tell(self, told: Told, /) -> None: ...

    async def ask(self, told: Told, text: str, limit: int, /) -> list[Found]: ...


class Shipped:
    """Recall through the public calls. `changed` are weights that differ from the shipped ones."""

    def __init__(self, embedder: Embedder | None = None, **changed: float) -> None:
        self._embedder = embedder
        self._changed = changed
        self._memories: dict[str, elytron.MemoryRuntime] = {}
        self._ids: dict[str, dict[str, str]] = {}

    async def tell(self, told: Told, /) -> None:
        memory = elytron.open("memory:", space=told.name, embedder=self._embedder)
        self._memories[told.name] = runtime = await memory.__aenter__()
        ids = self._ids[told.name] = {}
        by_conversation: dict[str, list[Turn]] = {}
        for turn in told.turns:
            by_conversation.setdefault(turn.conversation, []).append(turn)
        for conversation, turns in by_conversation.items():
            write = TranscriptWrite(turns=tuple(map(_draft, turns)))
            scope = Scope(space=SpaceId(told.name), conversation=conversation)
            report = await runtime.write(MemoryWriteRequest(scope=scope, write=write))
            ids.update(zip(report.ids, (turn.id for turn in turns), strict=True))
        if self._embedder is not None:
            while (await runtime.embed()).outcome is not EmbeddingOutcome.COMPLETE:
                pass

    def memory(self, told: Told, /) -> elytron.MemoryRuntime:
        """Return the memory that was told `told`."""
        return self._memories[told.name]

    def names(self, told: Told, ids: Sequence[str], /) -> list[str]:
        """Return the ids of the turns in `told`."""
        return [self._ids[told.name][id_] for id_ in ids]

    async def ask(self, told: Told, text: str, limit: int, /) -> list[Found]:
        shipped = ranking_weights.STANDARD, ranking_weights.SEVERAL
        standard, several = (replace(weights, **self._changed) for weights in shipped)
        _take(standard, several)
        try:
            report = await self._memories[told.name].recall(text, limit=limit)
        finally:
            _take(*shipped)
        return [Found(self._ids[told.name][hit.id], hit.score) for hit in report.hits]


class Fts5:
    """SQLite FTS5 with its Porter stemmer and bm25(), and the words of the question joined by OR."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:")
        self._tables: dict[str, str] = {}

    async def tell(self, told: Told, /) -> None:
        table = self._tables[told.name] = f"t{len(self._tables)}"
        self._db.execute(f"CREATE VIRTUAL TABLE {table} USING fts5(id UNINDEXED, body, tokenize='porter unicode61')")
        self._db.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(turn.id, turn.text) for turn in told.turns])

    async def ask(self, told: Told, text: str, limit: int, /) -> list[Found]:
        words = _WORD.findall(text.lower().replace("'s", " "))
        words = [word for word in words if word not in analyser.ENGLISH] or words
        if not words:
            return []
        query = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        rows = f"SELECT id, -rank FROM {self._tables[told.name]} WHERE body MATCH ? ORDER BY rank LIMIT ?"
        return [Found(*row) for row in self._db.execute(rows, (query, limit))]


class Plain:
    """The index with only BM25 of the texts."""

    def __init__(self) -> None:
        self._indexes: dict[str, SpaceIndex] = {}

    async def tell(self, told: Told, /) -> None:
        index = self._indexes[told.name] = SpaceIndex(TextAnalyser())
        changes = [
            DocumentChange(ref := DocumentRef("turn", turn.id), (SearchUnit(ref, 0, "transcript", turn.text),))
            for turn in told.turns
        ]
        index.apply(changes, watermark=1)

    async def ask(self, told: Told, text: str, limit: int, /) -> list[Found]:
        query = IndexQuery(text=text, limit=limit, weights=OFF, bm25=PLAIN)
        return [Found(each.unit.ref.key, each.score) for each in self._indexes[told.name].search(query).candidates]


class Fused:
    """Reciprocal rank fusion of two systems."""

    def __init__(self, *systems: System) -> None:
        self._systems = systems

    async def tell(self, told: Told, /) -> None:
        for system in self._systems:
            await system.tell(told)

    async def ask(self, told: Told, text: str, limit: int, /) -> list[Found]:
        scores: dict[str, float] = {}
        for system in self._systems:
            for place, found in enumerate(await system.ask(told, text, 100), 1):
                scores[found.id] = scores.get(found.id, 0.0) + 1 / (RRF + place)
        best = sorted(scores, key=lambda id_: (-scores[id_], id_))[:limit]
        return [Found(id_, scores[id_]) for id_ in best]


def _take(standard: SignalWeights, several: SignalWeights) -> None:
    setattr(ranking_weights, "STANDARD", standard)  # noqa: B010 - it is final to everybody else
    setattr(ranking_weights, "SEVERAL", several)  # noqa: B010


def _draft(turn: Turn) -> TurnDraft:
    at = instant(turn.at) if turn.at is not None else None
    return TurnDraft(messages=(Message(text=turn.text, speaker=turn.speaker, role=EvidenceRole(turn.role), at=at),))
