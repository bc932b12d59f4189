"""Making vectors: of what has none yet, and of everything again by another model."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.scope_fields import ScopedRequest
from elytron_core.model import Value

Texts = Annotated[int, Field(ge=1, le=limits.EMBED_TEXTS_PER_CALL)]


class MemoryEmbedRequest(ScopedRequest):
    """Make vectors of up to `texts` texts that have none of the model that recall compares."""

    texts: Texts = limits.EMBED_TEXTS_PER_CALL


class ModelSwitchRequest(ScopedRequest):
    """Go on making vectors by the runtime's embedder; when none is missing, recall compares these alone.

    Until then recall goes on as before. Called again, it goes on where it stopped.
    """

    texts: Texts = limits.EMBED_TEXTS_PER_CALL


class EmbeddingOutcome(StrEnum):
    """Outcome of a call."""

    COMPLETE = "complete"
    """Every memory has its vector, and what a former model left is gone."""
    MORE = "more"
    """The bound of the call was reached: call again."""
    FAILED = "failed"
    """The embedder could not be reached or gave no vectors: what is missing stays so, recall goes on by words."""
    NO_EMBEDDER = "no_embedder"
    """This runtime was opened without one."""
    OTHER_MODEL = "other_model"
    """Recall here compares another model's vectors: switch the model, or open with the embedder that made them."""
    EMPTY_SPACE = "empty_space"


class MemoryEmbedReport(Value):
    """Number of embedded texts, and progress of the space.

    `compared` is the model that recall compares, `model` the one that worked. `reused` documents got vectors back that
    were in the store, `refused` ones were refused by the embedder, `remaining` units have no vector yet, `dropped`
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
