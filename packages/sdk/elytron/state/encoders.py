"""The embedders of a runtime and their state: cached query vectors, refused texts, running passes."""

import asyncio
import struct
from array import array
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from elytron_core.clock import Clock
from elytron_core.contracts.recall import VectorUse
from elytron_core.errors import Conflict, ElytronError, ModelError, ModelRefused, ModelUnavailable, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes.embedding import ModelReach, VectorSet, vector_set
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.ranking.question import encoder_query
from elytron_core.ports.models import Embedder, LoadedEmbedder
from elytron_core.ports.store import DocumentRef

if TYPE_CHECKING:
    from elytron_index.space_index import SpaceIndex

EMBED_QUERY_WAIT_S: Final = 2.0
"""Time for which recall waits for a query's vector; then it goes on by words alone."""
EMBED_LOAD_WAIT_S: Final = 30.0
"""Time for which the first recall of a process waits for a model on this machine to be read."""
EMBED_QUERIES_KEPT: Final = 256
EMBED_PAUSE_MS: Final = 30_000
"""After an embedder failed, nothing is embedded in the background for this time."""
EMBED_REST_MS: Final = 5_000
"""After an embedder left a query unanswered, no query waits for it for this time."""
EMBED_CLOSE_WAIT_S: Final = 2.0
"""Time that closing leaves an embedding pass to finish; what is left waits for the next runtime."""
EMBED_REFUSED_KEPT: Final = 10_000


Answer = TypeVar("Answer")

_LONGEST: Final = 1e76
"""The largest squared vector length that float32 can represent; longer vectors are rejected."""


async def embed_texts(
    embedder: Embedder, texts: Sequence[str], /, *, as_queries: bool = False
) -> list[Sequence[float]]:
    """Return one vector per text, embedded as documents or `as_queries`.

    Raises ModelUnavailable, ModelRefused, also for an answer of another length.
    """
    prefix = embedder.info.query_prefix if as_queries else embedder.info.document_prefix
    vectors = await _await_answer(embedder.embed_documents([prefix + text for text in texts]), embedder)
    if len(vectors) != len(texts):
        raise ModelRefused(f"{embedder.info.model!r} returned {len(vectors)} vectors for {len(texts)} texts")
    return list(vectors)


async def embed_query(embedder: Embedder, text: str, /, *, wait_s: float) -> bytes:
    """Return the vector of a query as little-endian float32. Raises ModelUnavailable, ModelRefused.

    A model on this machine is read before the wait begins: the first query of a process would else be without a vector.
    """
    if isinstance(embedder, LoadedEmbedder):
        await _load_embedder(embedder)
    try:
        async with asyncio.timeout(wait_s):
            raw_vector = await _await_answer(embedder.embed_query(embedder.info.query_prefix + text), embedder)
    except TimeoutError:
        raise ModelUnavailable(f"{embedder.info.model!r} returned no vector within {wait_s:g} s") from None
    try:
        vector = array("d", raw_vector)
    except (TypeError, ValueError, OverflowError):
        vector = array("d")
    # A NaN fails these comparisons too.
    if len(vector) == embedder.info.dimensions and 0.0 < sum(component * component for component in vector) < _LONGEST:
        return struct.pack(f"<{len(vector)}f", *vector)
    raise ModelRefused(f"{embedder.info.model!r} returned no usable vector for a query")


def check_vectors(embedder: Embedder, vectors: dict[str, Sequence[float]], /) -> VectorSet:
    """Return vectors, by the check of their text, in stored form.

    Raises ModelRefused for a wrong dimension, a number that is not finite, or length 0.
    """
    embedder_info = embedder.info
    try:
        return vector_set(embedder_info.model, embedder_info.dimensions, vectors)
    except ElytronError as error:
        raise ModelRefused(f"{embedder_info.model!r} returned no usable vector: {error.message}") from None
    except (TypeError, ValueError, OverflowError, struct.error):
        raise ModelRefused(f"{embedder_info.model!r} returned something other than a vector of numbers") from None


async def _load_embedder(embedder: LoadedEmbedder) -> None:
    try:
        async with asyncio.timeout(EMBED_LOAD_WAIT_S):
            await _await_answer(embedder.load_model(), embedder)
    except TimeoutError:
        raise ModelUnavailable(f"{embedder.info.model!r} did not load within {EMBED_LOAD_WAIT_S:g} s") from None


async def _await_answer(answer: Awaitable[Answer], embedder: Embedder) -> Answer:
    try:
        return await answer
    except (ModelError, TimeoutError):
        raise
    except Exception as error:
        raise ModelUnavailable(f"{embedder.info.model!r} failed with {type(error).__name__}") from error


QueryVector = tuple[VectorUse, tuple[str, bytes] | None]
"""Vectors of a search: how they are used, and the query's own: its model's tag and its numbers."""


class RuntimeEncoders:
    """At most two embedders: the current one, and the former one, which serves until it is replaced."""

    def __init__(self, clock: Clock, /, *, current: Embedder | None, former: Embedder | None) -> None:
        self._clock = clock
        self._current = current
        self._embedders = [embedder for embedder in (current, former) if embedder is not None]
        self._queries: LruCache[tuple[str, str], bytes] = LruCache(EMBED_QUERIES_KEPT)
        self._refused: LruCache[tuple[SpaceId, str, DocumentRef], None] = LruCache(EMBED_REFUSED_KEPT)
        self._passes: dict[SpaceId, asyncio.Task[None]] = {}
        self.reaches: dict[str, ModelReach] = {}
        """The languages that embedders were found to read, by their model."""
        self._paused_until = 0
        self._paused: LruCache[SpaceId, int] = LruCache(EMBED_REFUSED_KEPT)
        self._rests_until = 0

    @property
    def current(self) -> Embedder | None:
        """Return the embedder whose vectors are to be compared."""
        return self._current

    def serving(self, record: SpaceRecord, compared_tag: str | None, /) -> Embedder | None:
        """Return the embedder with the tag `compared_tag`; the current one if none is chosen yet in this space."""
        if not compared_tag:
            return self._current
        for embedder in self._embedders:
            if record.model_tag(embedder.info.model) == compared_tag:
                return embedder
        return None

    def reads_passages(self, record: SpaceRecord, index: "SpaceIndex", /) -> bool:
        """Return whether the embedder whose vectors recall compares also reads messages by passage."""
        embedder = self.serving(record, index.compared)
        return embedder is not None and embedder.info.passages > 0

    async def search_vector(self, record: SpaceRecord, index: "SpaceIndex", query: str, /) -> QueryVector:
        """Return the vector of `query` for a search of `index`, or why there is none. Raises nothing."""
        if self._current is None:
            return VectorUse.NONE, None
        embedder = self.serving(record, index.compared)
        if embedder is None:
            return VectorUse.OTHER_MODEL, None
        tag = record.model_tag(embedder.info.model)
        stored_dimensions = index.dimensions_of(tag)
        if stored_dimensions is None:
            return VectorUse.NOT_YET, None
        if stored_dimensions != embedder.info.dimensions:
            return VectorUse.OTHER_MODEL, None
        if not index.reads_language(query):
            return VectorUse.OTHER_LANGUAGE, None
        text = encoder_query(query, index.speakers(query))
        vector = self._queries.get((tag, text))
        if vector is None:
            try:
                vector = await self.query_vector(embedder, text, wait_s=EMBED_QUERY_WAIT_S)
            except ModelError:
                return VectorUse.FAILED, None
            self._queries[tag, text] = vector
        return VectorUse.COMPARED, (tag, vector)

    async def query_vector(self, embedder: Embedder, text: str, /, *, wait_s: float) -> bytes:
        """Return the vector of a query. Raises ModelUnavailable, ModelRefused.

        After a wait that ran out, no call waits for some seconds: a model that hangs holds up few of them.
        """
        if self.is_resting:
            raise ModelUnavailable(f"{embedder.info.model!r} did not answer in time a moment ago: try again later")
        event_loop = asyncio.get_running_loop()
        started_at = event_loop.time()
        try:
            return await embed_query(embedder, text, wait_s=wait_s)
        except ModelUnavailable:
            if event_loop.time() - started_at >= wait_s:
                self.rest()
            raise

    @property
    def is_resting(self) -> bool:
        """Return whether a wait for an embedder was in vain a moment ago."""
        return self._clock.now() < self._rests_until

    def rest(self) -> None:
        """Make calls skip the embedder for some seconds."""
        self._rests_until = self._clock.now() + EMBED_REST_MS

    def refuse(self, space: SpaceId, tag: str, ref: DocumentRef, /) -> None:
        """Remember that a document's texts were refused, so that they do not delay others."""
        self._refused[space, tag, ref] = None

    def refused(self, space: SpaceId, tag: str, /) -> Collection[DocumentRef]:
        """Return the documents whose texts were refused."""
        return {ref for space_id, model, ref in self._refused if (space_id, model) == (space, tag)}

    def nudge(self, space: SpaceId, embedding_work: Callable[[], Awaitable[None]], /) -> None:
        """Schedule `embedding_work` soon, once at a time per space, unless it or an embedder failed lately."""
        running_pass = self._passes.get(space)
        if self._current is None or (running_pass is not None and not running_pass.done()):
            return
        if self._clock.now() >= max(self._paused_until, self._paused.get(space) or 0):
            self._passes[space] = asyncio.get_running_loop().create_task(self._guarded(space, embedding_work))

    async def _guarded(self, space: SpaceId, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        # A text without a vector is found by its lack of one: nothing is lost, and the next pass finds it.
        except ModelUnavailable:
            self._paused_until = self._clock.now() + EMBED_PAUSE_MS
        except (Conflict, SpaceLocked):
            pass  # its user locked it, or seals it again: that is no fault, and may be over at once
        except ElytronError:
            # Other spaces continue: a refused text, or damage, concerns only this one.
            self._paused[space] = self._clock.now() + EMBED_PAUSE_MS
        finally:
            self._passes.pop(space, None)

    async def settled(self, space: SpaceId, /) -> None:
        """Wait for the running pass over `space`, so that no text is embedded twice."""
        running_pass = self._passes.get(space)
        if running_pass is not None:
            await asyncio.wait((running_pass,))

    async def close(self) -> None:
        """Let running passes finish for a moment, then stop them."""
        running_passes = tuple(self._passes.values())
        if not running_passes:
            return
        _, late_passes = await asyncio.wait(running_passes, timeout=EMBED_CLOSE_WAIT_S)
        for task in late_passes:
            task.cancel()
        await asyncio.gather(*late_passes, return_exceptions=True)
