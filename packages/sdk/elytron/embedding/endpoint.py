"""An embedder behind any server that speaks OpenAI's embeddings: the service itself, vLLM, Ollama, others."""

from collections.abc import Sequence
from typing import Final, cast

from elytron_core import limits
from elytron_core.errors import InvalidInput, ModelRefused, ModelUnavailable
from elytron_core.ports.chat import Failed, FailureReason
from elytron_core.ports.models import EmbedderInfo
from elytron_core.text.token_estimate import estimate_tokens
from elytron_models.dialect import bearer
from elytron_models.failures import error_of
from elytron_models.fields import Fields, count, inner, objects
from elytron_models.server import ModelServer

OFFICIAL: Final = "https://api.openai.com/v1"


class OpenAIEmbedder:
    """Turns texts into vectors through a server. Needs the extra `llm`.

    Without `base_url` it is OpenAI's own service. `api_key` is only sent to the server and is in no message and no
    representation; nothing is read from the environment. A call is tried up to `attempts` times, each bounded by
    `timeout_s`. `token_budget` bounds what all calls of this embedder may spend; when it is used up, the embedder is
    unavailable. The prefixes are for models that need them. One embedder serves one event loop at a
    time; `close` lets go of its connections.
    """

    def __init__(
        self,
        model: str,
        /,
        *,
        dimensions: int,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = limits.MODEL_TIMEOUT_S,
        attempts: int = limits.MODEL_ATTEMPTS,
        token_budget: int | None = None,
        batch_texts: int = limits.EMBED_BATCH_TEXTS,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> None:
        if not 1 <= dimensions <= limits.VECTOR_DIMENSIONS:
            raise InvalidInput(field="dimensions", problem=f"is not 1 to {limits.VECTOR_DIMENSIONS}")
        if not 1 <= batch_texts <= limits.EMBED_BATCH_TEXTS:
            raise InvalidInput(field="batch_texts", problem=f"is not 1 to {limits.EMBED_BATCH_TEXTS}")
        self._model = model
        self._dimensions = dimensions
        self._tokens_left = token_budget
        self._batch_texts = batch_texts
        self._prefixes = (query_prefix, document_prefix)
        self._server = ModelServer(
            (base_url or OFFICIAL).rstrip("/"),
            headers=bearer(api_key or ""),
            silence_s=timeout_s,
            attempts=attempts,
            purpose=f"the embedder {model!r} on a server",
        )

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r}, dimensions={self._dimensions})"

    @property
    def info(self) -> EmbedderInfo:
        return EmbedderInfo(self._model, self._dimensions)

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order. Raises ModelUnavailable, ModelRefused, MissingExtra."""
        prefixed = [self._prefixes[1] + text for text in texts]
        found: list[Sequence[float]] = []
        for start in range(0, len(prefixed), self._batch_texts):
            found += await self._ask(prefixed[start : start + self._batch_texts])
        return found

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query. Raises ModelUnavailable, ModelRefused, MissingExtra."""
        (found,) = await self._ask([self._prefixes[0] + text])
        return found

    async def close(self) -> None:
        """Let go of the connections; the next call opens them again."""
        await self._server.close()

    async def _ask(self, texts: list[str]) -> list[Sequence[float]]:
        estimate = sum(map(estimate_tokens, texts))
        if self._tokens_left is not None and self._tokens_left < estimate:
            raise ModelUnavailable(f"the token budget of the embedder {self._model!r} is used up: give it a larger one")
        request = {"model": self._model, "input": texts, "encoding_format": "float"}
        answer = await self._server.ask("/embeddings", request)
        if isinstance(answer, Failed):
            error = error_of(answer, name=self._model, kind="embedder")
            # A key can be mended, and what is not embedded yet waits.
            raise error if answer.reason is not FailureReason.UNAUTHORIZED else ModelUnavailable(error.message)
        vectors = _by_index(answer)
        if sorted(vectors) != list(range(len(texts))):
            raise ModelRefused(f"the embedder {self._model!r} gave {len(vectors)} embeddings for {len(texts)} texts")
        if self._tokens_left is not None:
            self._tokens_left -= count(inner(answer, "usage"), "total_tokens") or estimate
        return [vectors[place] for place in range(len(texts))]


def _by_index(answer: Fields) -> dict[int, Sequence[float]]:
    """Return the vectors of an answer by the places of their texts."""
    found: dict[int, Sequence[float]] = {}
    for item in objects(answer, "data"):
        index, vector = item.get("index"), item.get("embedding")
        if isinstance(index, int) and isinstance(vector, list):
            found[index] = cast("list[float]", vector)
    return found
