"""A local encoder: an ONNX model in a folder, run by onnxruntime on the processor, without a network."""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, Final

from elytron.embedding.model_files import MODEL, TOKENIZER, ModelManifest, read_manifest, read_part, require_packages
from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.ports.models import EmbedderInfo

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
                self._loaded = _opened(self._folder, self._manifest, self._threads)
            return self._loaded


def _opened(folder: Path, manifest: ModelManifest, threads: int) -> tuple[Any, Any]:
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
