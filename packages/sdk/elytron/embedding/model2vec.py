"""A Model2Vec folder as an embedder: the mean of a table's token vectors, with NumPy only."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from elytron.embedding.model_files import (
    MANIFEST,
    TOKENIZER,
    FileEmbedder,
    ModelManifest,
    read_manifest,
    read_part,
    require_packages,
)
from elytron_core import limits
from elytron_core.errors import ModelRefused, UnreadableFile
from elytron_core.model import Value
from elytron_core.ports.models import EmbedderInfo

WEIGHTS: Final = "model.safetensors"

Tensors = dict[str, NDArray[Any]]

_TYPES: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1"}
_HEAD: Final = 8
_HEADER_BYTES: Final = 1024 * 1024


def read_safetensors(data: bytes, /) -> Tensors:
    """Return the tensors in `data` by name, except those of a type that NumPy lacks. Raises UnreadableFile."""
    unreadable_weights = UnreadableFile(name=WEIGHTS, problem="is not a complete safetensors file")
    header_bytes = int.from_bytes(data[:_HEAD], "little")
    if len(data) < _HEAD or header_bytes > min(_HEADER_BYTES, len(data) - _HEAD):
        raise unreadable_weights
    tensor_bytes = memoryview(data)[_HEAD + header_bytes :]
    tensors: Tensors = {}
    try:
        for name, header in json.loads(data[_HEAD : _HEAD + header_bytes]).items():
            if name != "__metadata__" and header["dtype"] in _TYPES:
                start, end = header["data_offsets"]
                shape = tuple(header["shape"])
                # A slice with wrong ends would only be shorter, without an error.
                if not 0 <= start <= end <= len(tensor_bytes) or any(axis_length < 0 for axis_length in shape):
                    raise unreadable_weights
                tensors[name] = np.frombuffer(tensor_bytes[start:end], _TYPES[header["dtype"]]).reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise unreadable_weights from None
    return tensors


CONFIG: Final = "config.json"
PARTS: Final = (WEIGHTS, TOKENIZER, CONFIG)

_TABLE: Final = "embeddings"
_MAX_TOKENS: Final = 512

Floats = NDArray[np.float32]


class TableConfig(Value):
    """Fields of a folder's `config.json` that affect vectors."""

    normalize: bool = False
    max_length: Annotated[int, Field(ge=1)] | None = _MAX_TOKENS


class Model2VecEmbedder(FileEmbedder["TokenTable"]):
    """Embeds texts with the table of token vectors in `folder`. Needs `tokenizers` of the extra `local`.

    The folder contains `model.safetensors`, `tokenizer.json` and `config.json`, as Model2Vec writes them. Its model's
    id is derived from these files, so the same files give comparable vectors anywhere. The table is loaded at first
    use. All texts without a known token share one vector; such a query is refused.
    """

    def __init__(self, folder: str | PathLike[str], /) -> None:
        require_packages("tokenizers", purpose="a Model2Vec folder")
        self._folder = Path(folder)
        self._manifest = manifest_of(self._folder)
        super().__init__(EmbedderInfo(self._manifest.model, self._manifest.dimensions))

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query. Raises UnreadableFile, ModelRefused if it contains no token of the table."""
        (vector,) = await asyncio.to_thread(lambda: [self.load().vector(text)])
        if not vector.any():
            raise ModelRefused(f"{self._manifest.model!r} does not know any token of the query")
        return vector.tolist()

    def _encode(self, model: "TokenTable", texts: Sequence[str]) -> list[list[float]]:
        # A vector of length 0 cannot be compared, and a refused text would delay its whole document.
        unknown_vector = np.full(self._manifest.dimensions, self._manifest.dimensions**-0.5, np.float32)
        vectors = (model.vector(text) for text in texts)
        return [(vector if vector.any() else unknown_vector).tolist() for vector in vectors]

    def _open(self) -> "TokenTable":
        return _token_table(*(read_part(self._folder, name, self._manifest) for name in PARTS))


def is_model2vec(folder: Path, /) -> bool:
    """Return whether a folder is meant to contain token vectors, by its files. Raises UnreadableFile for a damaged
    manifest."""
    if (folder / MANIFEST).is_file():
        return WEIGHTS in read_manifest(folder).files
    return (folder / WEIGHTS).is_file()


def manifest_of(folder: Path, /) -> ModelManifest:
    """Return the manifest of the token vectors in `folder`, or one made from the files of another tool's folder.

    Raises UnreadableFile, which names the file that is missing or damaged.
    """
    if (folder / MANIFEST).is_file():
        return read_manifest(folder)
    file_contents = [_folder_file(folder, name) for name in PARTS]
    files = {name: hashlib.sha256(content).hexdigest() for name, content in zip(PARTS, file_contents, strict=True)}
    files_digest = hashlib.sha256("".join(files.values()).encode()).hexdigest()
    token_limit = _read_config(file_contents[2]).max_length or limits.EMBED_TEXT_CHARS
    return ModelManifest(
        model=f"model2vec-{files_digest[:16]}",
        dimensions=_tensor_rows(read_safetensors(file_contents[0])).shape[1],
        max_tokens=min(token_limit, limits.EMBED_TEXT_CHARS),
        files=files,
        made_from="a Model2Vec folder",
    )


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Vectors of tokens, combined into a text's vector exactly as Model2Vec's own StaticModel does, text by text."""

    tokenizer: Any
    rows: NDArray[Any]
    weights: NDArray[Any] | None
    mapping: NDArray[Any] | None
    unknown: int | None
    chars: int | None
    is_normal: bool

    def vector(self, text: str) -> Floats:
        """Return the mean vector of a text's known tokens; all 0 if it has none."""
        encoding = self.tokenizer.encode(text[: self.chars], add_special_tokens=False)
        token_ids = np.array([token for token in encoding.ids if token != self.unknown], np.intp)
        if not len(token_ids):
            return np.zeros(self.rows.shape[1:], np.float32)
        token_rows = self.rows[token_ids if self.mapping is None else self.mapping[token_ids]]
        if self.weights is not None:
            token_rows = token_rows * self.weights[token_ids][:, None]
        mean_vector = np.asarray(np.add.reduce(token_rows, axis=0, dtype=np.float64) / len(token_ids), np.float64)
        vector_length = float(np.linalg.norm(mean_vector)) if self.is_normal else 1.0
        return (mean_vector / (vector_length or 1.0)).astype(np.float32)


def _token_table(weights: bytes, tokens: bytes, config: bytes) -> TokenTable:
    """Return the table made from the three files. Raises UnreadableFile."""
    tokenizers: Any = import_module("tokenizers")
    tensors, table_config = read_safetensors(weights), _read_config(config)
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(tokens)
        unknown_id = _unknown_token(tokenizer, tokens)
    except (ValueError, KeyError):
        raise UnreadableFile(name=TOKENIZER, problem="is not a tokenizer") from None
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    token_rows, token_count = _tensor_rows(tensors), max(vocabulary.values(), default=-1) + 1
    row_by_token, token_weights = tensors.get("mapping"), tensors.get("weights")
    if row_by_token is not None and (
        row_by_token.shape != (token_count,)
        or row_by_token.dtype.kind != "i"
        or not ((row_by_token >= 0) & (row_by_token < len(token_rows))).all()
    ):
        raise UnreadableFile(name=WEIGHTS, problem="maps tokens to rows that are not in its table")
    if (row_by_token is None and len(token_rows) != token_count) or (
        token_weights is not None and token_weights.shape != (token_count,)
    ):
        raise UnreadableFile(name=WEIGHTS, problem=f"does not match the {token_count} tokens of {TOKENIZER}")
    # The file may have been saved with either enabled.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    text_chars = None
    if table_config.max_length is not None:
        tokenizer.enable_truncation(table_config.max_length)
        # Cut before tokenising, as Model2Vec does, whose vectors these must equal.
        text_chars = table_config.max_length * int(np.median([len(token) for token in vocabulary]))
    return TokenTable(
        tokenizer, token_rows, token_weights, row_by_token, unknown_id, text_chars, table_config.normalize
    )


def _unknown_token(tokenizer: Any, tokens: bytes) -> int | None:
    """Return the id of the token for unknown ones; for a Unigram model only its file has it."""
    if not hasattr(tokenizer.model, "unk_token"):
        token_id: int | None = json.loads(tokens)["model"].get("unk_id")
        return token_id
    token = tokenizer.model.unk_token
    return tokenizer.token_to_id(token) if token is not None else None


def _tensor_rows(tensors: Tensors) -> NDArray[Any]:
    rows = tensors.get(_TABLE)
    if rows is None or rows.ndim != 2 or not 1 <= rows.shape[1] <= limits.VECTOR_DIMENSIONS:
        raise UnreadableFile(
            name=WEIGHTS, problem=f"has no table of token vectors called {_TABLE!r} that NumPy can read"
        )
    return rows


def _read_config(config_bytes: bytes) -> TableConfig:
    try:
        fields = json.loads(config_bytes)
        return TableConfig(**{name: fields[name] for name in TableConfig.model_fields if name in fields})
    except (ValueError, TypeError, RecursionError, ValidationError):
        raise UnreadableFile(name=CONFIG, problem="does not describe how the vector of a text is computed") from None


def _folder_file(folder: Path, name: str) -> bytes:
    """Return a file of a folder without a manifest. Raises UnreadableFile."""
    try:
        if (folder / name).stat().st_size > limits.MODEL_PACKAGE_BYTES:
            raise UnreadableFile(name=name, problem=f"is larger than {limits.MODEL_PACKAGE_BYTES} bytes")
        return (folder / name).read_bytes()
    except OSError:
        way_out = f"a Model2Vec folder contains {', '.join(PARTS)}"
        raise UnreadableFile(name=name, problem=f"cannot be read in this folder: {way_out}") from None
