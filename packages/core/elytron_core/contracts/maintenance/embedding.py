"""Embedding of a space: vectors for what has none, and the switch to another model."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.model import Value
from elytron_core.scope import ScopedRequest

__all__ = [
    "EmbeddingOutcome",
    "MemoryEmbedReport",
    "MemoryEmbedRequest",
    "ModelSwitchRequest",
]


Texts = Annotated[int, Field(ge=1, le=limits.EMBED_TEXTS_PER_CALL)]


class MemoryEmbedRequest(ScopedRequest["MemoryEmbedReport"]):
    """Embed up to `texts` texts that have no vector of the model that recall compares."""

    texts: Texts = limits.EMBED_TEXTS_PER_CALL


class ModelSwitchRequest(ScopedRequest["MemoryEmbedReport"]):
    """Embed with the runtime's embedder; once complete, recall compares only its vectors.

    Until then recall works as before. A repeated call continues where it stopped.
    """

    texts: Texts = limits.EMBED_TEXTS_PER_CALL


class EmbeddingOutcome(StrEnum):
    """Outcome of a call."""

    COMPLETE = "complete"
    """Every memory has its vector, and the former model's vectors are gone."""
    MORE = "more"
    """The call reached its limit: call again."""
    FAILED = "failed"
    """The embedder was unreachable or returned no vectors; recall continues with words only."""
    NO_EMBEDDER = "no_embedder"
    """This runtime was opened without an embedder."""
    OTHER_MODEL = "other_model"
    """Recall here compares another model's vectors: switch the model, or open with the embedder that made them."""
    EMPTY_SPACE = "empty_space"


class MemoryEmbedReport(Value):
    """Number of embedded texts, and progress of the space.

    `compared` is the model that recall compares, `model` the one that embedded. `reused` documents got vectors that
    were already stored, `refused` ones were refused by the embedder, `remaining` units have no vector yet, `dropped`
    documents of former models' vectors were removed.
    """

    space: str
    outcome: EmbeddingOutcome
    model: str | None = None
    compared: str | None = None
    embedded: int = 0
    reused: int = 0
    refused: int = 0
    remaining: int = 0
    dropped: int = 0
    switched: bool = False
    reason: str = ""
    changed: bool = False
    sequence: int = 0
