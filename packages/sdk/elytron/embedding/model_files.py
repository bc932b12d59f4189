"""The models installed on this machine: one folder each in the user's data, with a manifest."""

import asyncio
import hashlib
import re
import shutil
from abc import abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Annotated, Final, Generic, TypeVar

from pydantic import Field

from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, NotFound, UnreadableFile
from elytron_core.model import Value
from elytron_core.planes.embedding import Dimensions, ModelId
from elytron_core.ports.models import EmbedderInfo

MANIFEST = "embedder.json"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"

PASSAGES: Final = 8
"""Number of passages of a message that are embedded separately: a small encoder reads a text's beginning best."""

EXTRAS: Final = {"e5": "e5", "minilm": "convert", "use": "use"}
"""Extras that `elytron model add` needs, by the names of the models that it adds without `--from`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


Prefix = Annotated[str, Field(max_length=limits.NAME_CHARS)]


class ModelManifest(Value):
    """Manifest of a model's folder. `files` are SHA-256 digests by file name; `made_from` is its source.

    Vectors are those of the model with these prefixes; `passages` is how many of a message are embedded in addition.
    """

    format: Annotated[int, Field(ge=1, le=1)] = 1
    model: ModelId
    dimensions: Dimensions
    max_tokens: Annotated[int, Field(ge=1, le=limits.EMBED_TEXT_CHARS)]
    files: dict[str, str]
    passages: Annotated[int, Field(ge=0, le=limits.EMBED_PASSAGES)] = PASSAGES
    query_prefix: Prefix = ""
    document_prefix: Prefix = ""
    made_from: str = ""
    licence: str = ""

    @property
    def info(self) -> EmbedderInfo:
        """Return the description of the model's vectors."""
        return EmbedderInfo(self.model, self.dimensions, self.passages, self.query_prefix, self.document_prefix)


class InstalledModel(Value):
    """A local model."""

    name: str
    folder: str
    model: str
    dimensions: int
    size_bytes: int
    licence: str


Model = TypeVar("Model")


class FileEmbedder(Generic[Model]):
    """An embedder with a model in files, loaded at first use by one thread. Its calls run in threads."""

    def __init__(self, info: EmbedderInfo, /) -> None:
        self._info = info
        self._loading = Lock()
        self._loaded: Model | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._info.model!r})"

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    async def load_model(self) -> None:
        """Load the model unless it is loaded. Raises UnreadableFile."""
        if self._loaded is None:
            await asyncio.to_thread(self.load)

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order. Raises UnreadableFile."""
        return await asyncio.to_thread(self._vectors, texts)

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query. Raises UnreadableFile."""
        (vector,) = await asyncio.to_thread(self._vectors, (text,))
        return vector

    def load(self) -> Model:
        """Load the model unless it is loaded, and return it. Raises UnreadableFile."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._open()
            return self._loaded

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        return self._encode(self.load(), texts)

    @abstractmethod
    def _open(self) -> Model: ...

    @abstractmethod
    def _encode(self, model: Model, texts: Sequence[str]) -> list[list[float]]: ...


def models_folder() -> Path:
    """Return the models folder, in the system's place for a user's data."""
    from platformdirs import user_data_path

    return user_data_path("elytron", appauthor=False) / "models"


def read_manifest(folder: Path, /) -> ModelManifest:
    """Return the manifest of the model in `folder`. Raises UnreadableFile if there is none."""
    try:
        manifest_bytes = (folder / MANIFEST).read_bytes()
    except OSError:
        problem = "is missing: the folder contains no model or Model2Vec files; create one with `elytron model add`"
        raise UnreadableFile(name=MANIFEST, problem=problem) from None
    try:
        return ModelManifest.from_bytes(manifest_bytes)
    except InvalidInput as error:
        raise UnreadableFile(name=MANIFEST, problem=f"is not a valid model manifest: {error.message}") from None


def read_part(folder: Path, name: str, manifest: ModelManifest, /) -> bytes:
    """Return a file of the folder. Raises UnreadableFile if it is not the one that the manifest names."""
    try:
        file_bytes = (folder / name).read_bytes()
    except OSError as error:
        raise UnreadableFile.unopened(name, error) from None
    if hashlib.sha256(file_bytes).hexdigest() != manifest.files.get(name):
        raise UnreadableFile(name=name, problem=f"does not match {MANIFEST}: add the model again")
    return file_bytes


def require_packages(*packages: str, purpose: str, extra: str = "local") -> None:
    """Raise MissingExtra, naming them, if `packages` of `extra` are not installed."""
    missing_packages = tuple(package for package in packages if find_spec(package) is None)
    if missing_packages:
        raise MissingExtra(extra=extra, purpose=purpose, packages=missing_packages)


def model_folder(name: str, /, *, models: Path | None = None) -> Path:
    """Return the folder of the model stored as `name`. Raises NotFound with the remedy."""
    folder = (models or models_folder()) / checked_name(name)
    if not (folder / MANIFEST).is_file():
        way_out = f"`elytron model add` installs {', '.join(EXTRAS)}; `elytron model list` shows the installed models"
        if name in EXTRAS:
            way_out = f"add it with `elytron model add {name}` (needs the extra {EXTRAS[name]!r})"
        raise NotFound(what="model", name=name, way_out=way_out)
    return folder


def installed_model(name: str, /, *, models: Path | None = None) -> InstalledModel | None:
    """Return the model installed as `name`; None if there is none, or if one of its files is damaged."""
    try:
        folder = model_folder(name, models=models)
        manifest = read_manifest(folder)
        for file_name in manifest.files:
            read_part(folder, file_name, manifest)
    except (NotFound, UnreadableFile):
        return None
    return _kept_model(folder, manifest)


def kept_models(*, models: Path | None = None) -> tuple[InstalledModel, ...]:
    """Return the local models, by name."""
    models_home = models or models_folder()
    if not models_home.is_dir():
        return ()
    folders = [folder for folder in sorted(models_home.iterdir()) if (folder / MANIFEST).is_file()]
    return tuple(_kept_model(folder, read_manifest(folder)) for folder in folders)


def remove_model(name: str, /, *, models: Path | None = None) -> InstalledModel:
    """Remove the local model `name`; vectors made with it stay. Raises NotFound."""
    folder = model_folder(name, models=models)
    model = _kept_model(folder, read_manifest(folder))
    shutil.rmtree(folder)
    return model


def checked_name(name: str, /) -> str:
    """Return `name`. Raises InvalidInput unless it is a valid folder name everywhere."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(field="model", problem="must be up to 64 lower-case letters, digits, dots and dashes")
    return name


def _kept_model(folder: Path, manifest: ModelManifest) -> InstalledModel:
    return InstalledModel(
        name=folder.name,
        folder=str(folder),
        model=manifest.info.model,
        dimensions=manifest.dimensions,
        size_bytes=sum(path.stat().st_size for path in folder.iterdir()),
        licence=manifest.licence,
    )
