"""Embedders by what a setting says: a local ONNX model, a server's, the word `use`, or the name of a kept model.

The local encoder is run by onnxruntime on the processor, without a network.
"""

import asyncio
import re
from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from elytron.embedding.model2vec import Model2VecEmbedder, is_model2vec
from elytron.embedding.model_files import (
    MODEL,
    TOKENIZER,
    ModelManifest,
    model_folder,
    read_manifest,
    read_part,
    require_packages,
)
from elytron.embedding.use_encoder import WORD, UseEmbedder
from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, ModelRefused, ModelUnavailable
from elytron_core.ports.chat import FailureReason, ReplyFailed
from elytron_core.ports.models import Embedder, EmbedderInfo
from elytron_core.text.similarity import estimate_tokens
from elytron_models.dialect import bearer_header
from elytron_models.server import ModelServer, error_of
from elytron_models.stream_parser import Fields, count_field, inner_object, object_list

PASSAGES: Final = 8
"""Number of passages of a message that are embedded apart: a small encoder reads a text's beginning best."""


class LocalEmbedder:
    """Turns texts into vectors by the model in `folder`. Needs the extra `local`.

    The folder holds `model.onnx`, `tokenizer.json` and `embedder.json`, which says what they are: `elytron model add`
    makes one. Packages that are missing are named at once, the model is loaded at first use. Each text is encoded by
    itself, so that its vector depends on it alone; on one processor that is as fast as batches. `threads` bounds the
    processor's threads of one text.
    """

    def __init__(self, folder: str | PathLike[str], /, *, threads: int = 1) -> None:
        if not 1 <= threads <= limits.EMBED_THREADS:
            raise InvalidInput(field="threads", problem=f"is not 1 to {limits.EMBED_THREADS}")
        require_packages("onnxruntime", "tokenizers", purpose="a local encoder")
        self._folder = Path(folder)
        self._manifest = read_manifest(self._folder)
        self._threads = threads
        self._loading = Lock()
        self._loaded: tuple[Any, Any] | None = None

    def __repr__(self) -> str:
        return f"LocalEmbedder({self._manifest.model!r})"

    @property
    def info(self) -> EmbedderInfo:
        return EmbedderInfo(self._manifest.model, self._manifest.dimensions, passages=PASSAGES)

    async def load_model(self) -> None:
        """Read the model, unless it is read. Raises UnreadableFile."""
        if self._loaded is None:
            await asyncio.to_thread(self._load)

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order. Raises UnreadableFile."""
        return await asyncio.to_thread(self._encode, texts)

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query. Raises UnreadableFile."""
        (found,) = await asyncio.to_thread(self._encode, (text,))
        return found

    def _encode(self, texts: Sequence[str]) -> list[list[float]]:
        import numpy as np

        tokenizer, session = self._load()
        found: list[list[float]] = []
        for text in texts:
            ids = np.array([tokenizer.encode(text).ids], np.int64)
            (pooled,) = session.run(None, {"ids": ids, "mask": np.ones_like(ids)})
            found.append(pooled[0].tolist())
        return found

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._loaded is None:
                self._loaded = _open_encoder(self._folder, self._manifest, self._threads)
            return self._loaded


def _open_encoder(folder: Path, manifest: ModelManifest, threads: int) -> tuple[Any, Any]:
    onnxruntime: Any = import_module("onnxruntime")
    tokenizers: Any = import_module("tokenizers")
    files = {name: read_part(folder, name, manifest) for name in (MODEL, TOKENIZER)}
    tokenizer = tokenizers.Tokenizer.from_buffer(files[TOKENIZER])
    tokenizer.enable_truncation(manifest.max_tokens)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(files[MODEL], options, providers=["CPUExecutionProvider"])
    return tokenizer, session


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
            headers=bearer_header(api_key or ""),
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
        if isinstance(answer, ReplyFailed):
            error = error_of(answer, name=self._model, kind="embedder")
            # A key can be mended, and what is not embedded yet waits.
            raise error if answer.reason is not FailureReason.UNAUTHORIZED else ModelUnavailable(error.message)
        vectors = _by_index(answer)
        if sorted(vectors) != list(range(len(texts))):
            raise ModelRefused(f"the embedder {self._model!r} gave {len(vectors)} embeddings for {len(texts)} texts")
        if self._tokens_left is not None:
            self._tokens_left -= count_field(inner_object(answer, "usage"), "total_tokens") or estimate
        return [vectors[place] for place in range(len(texts))]


def _by_index(answer: Fields) -> dict[int, Sequence[float]]:
    """Return the vectors of an answer by the places of their texts."""
    found: dict[int, Sequence[float]] = {}
    for item in object_list(answer, "data"):
        index, vector = item.get("index"), item.get("embedding")
        if isinstance(index, int) and isinstance(vector, list):
            found[index] = cast("list[float]", vector)
    return found


class FastembedEmbedder:
    """Turns texts into vectors by a model that fastembed loads. Needs the package fastembed.

    `model` is a fastembed `TextEmbedding`, made by the caller, which decides about downloads and their folder;
    `name` is stored with every vector.
    """

    def __init__(self, model: Any, /, *, name: str, dimensions: int) -> None:
        if not callable(getattr(model, "passage_embed", None)):
            raise MissingExtra(extra="local", purpose="an embedder by fastembed, made as TextEmbedding(...),")
        self._model = model
        self._info = EmbedderInfo(name, dimensions)

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order."""
        return await asyncio.to_thread(lambda: [vector.tolist() for vector in self._model.passage_embed(list(texts))])

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query."""
        (found,) = await asyncio.to_thread(lambda: [vector.tolist() for vector in self._model.query_embed(text)])
        return found


_SERVER: Final = re.compile(r"(?P<base>https?://[^\s#]+)#(?P<model>[^\s#@]+)@(?P<dimensions>[1-9][0-9]{0,4})")


def embedder_of(text: str, /, *, key: str | None = None) -> Embedder:
    """Return the embedder that `text` names; `key` goes to a server.

    `use` is the encoder of the extra of that name, `minilm` a model on the shelf, a text with a slash a folder, whose
    files tell what it holds, `http://127.0.0.1:11434/v1#nomic-embed-text@768` a server's address, model and dimensions.
    Raises NotFound, UnreadableFile, InvalidInput, MissingExtra.
    """
    if text.startswith(("http://", "https://")):
        found = _SERVER.fullmatch(text)
        if found is None or len(text) > limits.NAME_CHARS * 10:
            raise InvalidInput(field="embedder", problem="is no server: write URL#MODEL@DIMENSIONS")
        dimensions = int(found["dimensions"])
        return OpenAIEmbedder(found["model"], dimensions=dimensions, base_url=found["base"], api_key=key)
    if text == WORD:
        return UseEmbedder()
    folder = Path(text) if re.search(r"[\\/]", text) else model_folder(text)
    return Model2VecEmbedder(folder) if is_model2vec(folder) else LocalEmbedder(folder)
