"""Vectors of memories: the text of each, the model that produced it, and the model that recall uses.

A vector reveals much of its text, so it is stored, sealed, exported and erased with that text.
"""

import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput, StoreCorrupt
from elytron_core.model import Value

VECTORS = "vectors"
"""One document per memory document and model; its key begins with that document's key."""
TAG_LINKS = "tag_links"
"""In a space under a user's secret: the turns of each sealed tag, the tags of each turn, and a mark of progress."""
EMBEDDING = "embedding"
"""One document: which model's vectors recall compares."""
KEY = "0"

ModelId = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
Check = Annotated[str, Field(pattern=r"[0-9a-f]{16}")]
Dimensions = Annotated[int, Field(ge=1, le=limits.VECTOR_DIMENSIONS)]


class ModelReach(StrEnum):
    """Languages that an embedding model reads."""

    ENGLISH = "english"
    """Only English; its vectors of other texts mean little."""
    MANY = "many"


class EmbeddingChoice(Value):
    """The model whose vectors recall compares, and since when. It changes in one commit, once another model's vectors
    are complete."""

    model: ModelId
    tag: str
    dimensions: Dimensions
    chosen_at: Instant
    reach: ModelReach | None = None
    """The model's reach, measured on sample pairs before it was chosen; None if an earlier build chose it."""


class TagLinkMark(Value):
    """State of a space's tag links: the key of their seals, and the sequence through which they are complete."""

    key: Annotated[str, Field(pattern=r"[0-9a-f]{64}")]
    through: Annotated[int, Field(ge=0)] = 0


class LinkedTags(Value):
    """The seals under which a turn is linked."""

    seals: tuple[str, ...]


class VectorSet(Value):
    """One model's vectors of one document's texts: by the check of each text, numbers as base64 of halves."""

    model: ModelId
    dimensions: Dimensions
    vectors: dict[Check, str]
    passages: dict[Check, tuple[str, ...]] = {}
    """For texts also embedded by passage, the vectors of the passages."""

    def floats(self) -> dict[int, tuple[float, ...]]:
        """Return the vectors by their checks as whole numbers. Raises StoreCorrupt if one is malformed."""
        vector_format = struct.Struct(f"<{self.dimensions}e")
        try:
            return {
                check_to_signed(check): vector_format.unpack(b64decode(encoded_vector, validate=True))
                for check, encoded_vector in self.vectors.items()
            }
        except (ValueError, struct.error):
            raise StoreCorrupt(what="a stored vector") from None

    def halves_of(self, check: str, /) -> bytes:
        """Return the vector of a text as little-endian halves. Raises StoreCorrupt if it is damaged."""
        try:
            halves = b64decode(self.vectors[check], validate=True)
        except ValueError:
            halves = b""
        if len(halves) != 2 * self.dimensions:
            raise StoreCorrupt(what="a stored vector")
        return halves

    def halves_of_passages(self, check: str, /) -> bytes:
        """Return the vectors of a text's passages, one after the other, as little-endian halves.

        There are none if it was embedded as a whole. Raises StoreCorrupt.
        """
        encoded_vectors = self.passages.get(check, ())
        try:
            halves = b"".join([b64decode(encoded_vector, validate=True) for encoded_vector in encoded_vectors])
        except ValueError:
            halves = b""
        if len(halves) != 2 * self.dimensions * len(encoded_vectors):
            raise StoreCorrupt(what="a stored vector")
        return halves


def check_of(text: str, /) -> str:
    """Return the check that identifies `text` next to its vector: 16 hex digits."""
    # A text may contain lone surrogates, which plain UTF-8 refuses.
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def check_to_hex(check: int, /) -> str:
    """Return as hex digits the check that an index stores as a number."""
    return check.to_bytes(8, "big", signed=True).hex()


def check_to_signed(check: str, /) -> int:
    """Return a check as the signed 64-bit number that an index stores; 0 would mean that there is none."""
    return int.from_bytes(bytes.fromhex(check), "big", signed=True)


def vector_set(
    model: str, dimensions: int, vectors: Mapping[str, Sequence[float]], /, *, field: str = "vector"
) -> VectorSet:
    """Return `vectors`, vectors by the check of their text, scaled to length 1, as it is stored.

    Raises InvalidInput for a vector of another dimension, with a number that is not finite, or of length 0.
    """
    return VectorSet(
        model=model,
        dimensions=dimensions,
        vectors={check: _pack_numbers(numbers, dimensions, field) for check, numbers in vectors.items()},
    )


def _pack_numbers(numbers: Sequence[float], dimensions: int, field: str) -> str:
    if len(numbers) != dimensions:
        raise InvalidInput(field=field, problem=f"has {len(numbers)} dimensions instead of {dimensions}")
    # The exact sum does not depend on the order of additions, so equal numbers give equal bytes.
    length = math.sqrt(math.fsum(number * number for number in numbers))
    if not math.isfinite(length):
        raise InvalidInput(field=field, problem="contains a number that is not finite")
    if length == 0.0:
        raise InvalidInput(field=field, problem="has length 0, and so no direction to compare")
    return b64encode(struct.pack(f"<{dimensions}e", *(number / length for number in numbers))).decode("ascii")
