"""The model ports: one writes, one embeds, one reranks. All are optional; without them, rules do the work."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Protocol, runtime_checkable

from elytron_core.policy.ranking.question import QuestionLabel


class PromptRole(StrEnum):
    """Role in a prompt."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt."""

    speaker: PromptRole
    text: str


@dataclass(frozen=True, slots=True)
class TextCompletion:
    """A model's text and its cost in millionths of the provider's currency, 0 if unknown."""

    text: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: int = 0
    is_cut: bool = False
    """True if it was cut off at `max_tokens`."""


class LanguageModel(Protocol):
    """Writes text for a prompt."""

    @property
    def name(self) -> str:
        """Return the model's id, as reports show it; not secret."""
        ...

    async def complete(
        self, prompt: Sequence[PromptMessage], /, *, schema: str | None = None, max_tokens: int
    ) -> TextCompletion:
        """Return the model's text. `schema` is the JSON Schema, as JSON text, that its answer must match.

        Raises ModelUnavailable if it cannot be reached now, ModelRefused if it will not answer this.
        """
        ...


@dataclass(frozen=True, slots=True)
class EmbedderInfo:
    """Kind of an embedder's vectors. `model` is stored with every vector; only vectors of one model are compared."""

    name: str
    dimensions: int
    passages: int = 0
    """Maximum passages embedded per message in addition to the whole; 0: only the whole.

    An encoder of single sentences thus finds one sentence among many better, at a higher embedding cost.
    """
    query_prefix: str = ""
    """Text that the model expects before a query. The runtime adds it, the embedder does not."""
    document_prefix: str = ""
    """Text that the model expects before a text to be found, such as `passage: `."""

    @property
    def model(self) -> str:
        """Return the id of the vectors: the name and, if there are prefixes, a digest of them."""
        if not self.query_prefix and not self.document_prefix:
            return self.name
        prefixes = f"{len(self.query_prefix)}:{self.query_prefix}{self.document_prefix}"
        return f"{self.name}+{sha256(prefixes.encode()).hexdigest()[:8]}"


class Embedder(Protocol):
    """Turns texts into vectors. It gets texts with the prefixes of its `info`."""

    @property
    def info(self) -> EmbedderInfo:
        """Return which vectors it produces."""
        ...

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order. Raises ModelUnavailable, ModelRefused."""
        ...

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query. Raises ModelUnavailable, ModelRefused."""
        ...


@runtime_checkable
class LoadedEmbedder(Embedder, Protocol):
    """An embedder that loads a model before its first vector, which may take longer than a query waits."""

    async def load_model(self) -> None:
        """Load the model unless it is loaded. Raises ModelUnavailable, UnreadableFile."""
        ...


class Reranker(Protocol):
    """Scores how well texts answer a query, reading both together."""

    @property
    def name(self) -> str:
        """Return the model's id, as reports show it; not secret."""
        ...

    async def rerank(self, query: str, texts: Sequence[str], /) -> Sequence[float]:
        """Return a score per text, in order, higher for better. Raises ModelUnavailable, ModelRefused."""
        ...


class StatementLabel(StrEnum):
    """A label of what a text states as lasting; most texts have none."""

    STANDING = "standing"
    """From now on: a wish for answers, a taste, a rule, or what the speaker or someone close to them cannot have."""
    OCCASION = "occasion"
    """From now on, whenever something is requested or mentioned; such a text is `STANDING` as well."""


class StatementClassifier(Protocol):
    """Labels lasting statements in texts. It is called where texts are indexed, for many texts at a time."""

    @property
    def version(self) -> str:
        """Return a version that changes whenever its answers may; an index made with another version is rebuilt."""
        ...

    def classify(self, texts: Sequence[str], /) -> Sequence[frozenset[StatementLabel]]:
        """Return the labels of each text, in order. The same text has the same labels under one version."""
        ...


class QuestionClassifier(Protocol):
    """Labels what a question asks for."""

    @property
    def version(self) -> str:
        """Return a version that changes whenever its answers may."""
        ...

    def classify(self, question: str, /) -> frozenset[QuestionLabel]:
        """Return the labels of a question. The same question has the same labels under one version."""
        ...


class AskClassifier(Protocol):
    """Judges by its words only whether a prompt asks memory. An explicit search never calls it."""

    @property
    def version(self) -> str:
        """Return a version that changes whenever its answers may."""
        ...

    def margin(self, prompt: str, /) -> float:
        """Return how far the prompt is from courtesies, orders and general knowledge: above 0 it asks memory.

        Any finite number is taken; beyond 6 either way it counts as 6. The same prompt has the same margin under one
        version.
        """
        ...
