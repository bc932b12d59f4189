"""Calls of any embedder: failures become one of two typed errors, and its vectors are checked."""

import asyncio
import struct
from array import array
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from elytron_core import limits
from elytron_core.errors import ElytronError, ModelError, ModelRefused, ModelUnavailable
from elytron_core.planes.embedding import VectorSet, vector_set
from elytron_core.ports.models import Embedder, LoadedEmbedder

Answer = TypeVar("Answer")

_LONGEST: Final = 1e76
"""The square of a vector's length whose numbers float32 holds; there is no such vector beyond."""


async def embed_texts(embedder: Embedder, texts: Sequence[str], /) -> list[Sequence[float]]:
    """Return one vector per text. Raises ModelUnavailable, ModelRefused, also for an answer of another length."""
    vectors = await _asked(embedder.embed_documents(texts), embedder)
    if len(vectors) != len(texts):
        raise ModelRefused(f"{embedder.info.model!r} gave {len(vectors)} vectors for {len(texts)} texts")
    return list(vectors)


async def embed_query(embedder: Embedder, text: str, /, *, wait_s: float) -> bytes:
    """Return the vector of a query as little-endian float32. Raises ModelUnavailable, ModelRefused.

    A model on this machine is read before the wait begins: the first query of a process would else be without a vector.
    """
    if isinstance(embedder, LoadedEmbedder):
        await _load(embedder)
    try:
        async with asyncio.timeout(wait_s):
            numbers = await _asked(embedder.embed_query(text), embedder)
    except TimeoutError:
        raise ModelUnavailable(f"{embedder.info.model!r} gave no vector within {wait_s:g} s") from None
    try:
        held = array("d", numbers)
    except (TypeError, ValueError, OverflowError):
        held = array("d")
    if len(held) == embedder.info.dimensions and 0.0 < sum(number * number for number in held) < _LONGEST:
        return struct.pack(f"<{len(held)}f", *held)
    raise ModelRefused(f"what {embedder.info.model!r} gave for a query is no vector to compare")


def checked(embedder: Embedder, made: dict[str, Sequence[float]], /) -> VectorSet:
    """Return vectors, by the check of their text, as they are stored.

    Raises ModelRefused for one of another dimension than the embedder says, with a number that is not finite, or of
    length 0.
    """
    info = embedder.info
    try:
        return vector_set(info.model, info.dimensions, made)
    except ElytronError as error:
        raise ModelRefused(f"what {info.model!r} gave is no vector to compare: {error.message}") from None
    except (TypeError, ValueError, OverflowError, struct.error):
        raise ModelRefused(f"what {info.model!r} gave is no vector of numbers") from None


async def _load(embedder: LoadedEmbedder) -> None:
    try:
        async with asyncio.timeout(limits.EMBED_LOAD_WAIT_S):
            await _asked(embedder.load_model(), embedder)
    except TimeoutError:
        raise ModelUnavailable(f"{embedder.info.model!r} was not read within {limits.EMBED_LOAD_WAIT_S:g} s") from None


async def _asked(answer: Awaitable[Answer], embedder: Embedder) -> Answer:
    try:
        return await answer
    except (ModelError, TimeoutError):
        raise
    except Exception as error:
        raise ModelUnavailable(f"{embedder.info.model!r} failed with {type(error).__name__}") from error
