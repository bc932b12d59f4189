"""The ONNX graph of a BERT encoder, built from its weights without a deep-learning library."""

import json
import logging
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron.embedding.model2vec import WEIGHTS, Tensors
from elytron_core.errors import MissingExtra, UnreadableFile
from elytron_core.model import Value

OPSET = 20
IR_VERSION = 9
_MASKED = -1e9
_MICROSOFT: Final = "com.microsoft"
"""Domain of onnxruntime's own operators."""
BLOCK: Final = 32
"""Weights that share a scale."""
BLOCKS: Final = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A matrix of outputs by inputs in four bits: rows of `BLOCKS` of 32 inputs.

    Each byte of a block holds a weight of its first half in the low bits, and one of its second half in the high bits.
    """

    blocks: NDArray[Any]

    def nibbles(self) -> NDArray[np.uint8]:
        """Return the weights by row, block and position: 0 to 15, where 8 stands for 0."""
        packed_halves: NDArray[np.uint8] = self.blocks["halves"]
        return np.concatenate((packed_halves & np.uint8(15), packed_halves >> np.uint8(4)), axis=-1)

    def scales(self) -> NDArray[np.float32]:
        """Return the scale factor of each block's weights."""
        return self.blocks["scale"].astype(np.float32)

    def rows(self) -> NDArray[np.float32]:
        """Return the matrix itself."""
        scaled_numbers = (self.nibbles().astype(np.float32) - 8.0) * self.scales()[..., None]
        return scaled_numbers.reshape(len(scaled_numbers), -1)


Weights = Mapping[str, NDArray[np.float32] | PackedWeight]


WORDS: Final = "embeddings.word_embeddings.weight"


class EncoderShape(Value):
    """Fields of an encoder's `config.json` that define its graph."""

    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    layer_norm_eps: float = 1e-12


def shape_of(config: bytes, /) -> EncoderShape:
    """Return the shape in `config.json`. Raises UnreadableFile for another kind of model."""
    try:
        fields = json.loads(config)
        if fields["model_type"] != "bert" or fields["hidden_act"] != "gelu":
            raise UnreadableFile(name="config.json", problem="describes a model other than BERT with gelu")
        return EncoderShape(**{name: fields[name] for name in EncoderShape.model_fields if name in fields})
    except (ValueError, KeyError, TypeError):
        raise UnreadableFile(name="config.json", problem="does not describe the shape of a model") from None


def require_tools(extra: str = "convert") -> None:
    """Raise MissingExtra, naming `extra`, if the conversion tools are missing."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        raise MissingExtra(extra=extra, purpose="creating a local model")


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
        whole_graph_path = Path(folder) / "whole.onnx"
        onnx.save(model, str(whole_graph_path))
        # It advises on the root logger to prepare the graph, which is already in its final form.
        logging.disable(logging.WARNING)
        try:
            tools.quantize_dynamic(
                str(whole_graph_path), str(target), weight_type=tools.QuantType.QInt8, per_channel=True
            )
        finally:
            logging.disable(logging.NOTSET)


def write_packed(weights: Weights, shape: EncoderShape, target: Path, /) -> None:
    """Write an encoder with weights in four bits: vectors of words and mask in, the mean of its last layer out."""
    onnx: Any = import_module("onnx")
    onnx.save(_OnnxGraph(weights, shape).model(), str(target))


class _OnnxGraph:
    """The nodes and constants of the network under construction."""

    def __init__(self, weights: Weights, shape: EncoderShape, /) -> None:
        from onnx import helper, numpy_helper

        self._helper: Any = helper
        self._numpy_helper: Any = numpy_helper
        self._weights = weights
        # Packed word vectors are looked up by the caller that runs the graph.
        self._has_words = not isinstance(weights[WORDS], PackedWeight)
        self._shape = shape
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> Any:
        """Return the whole network as an ONNX model."""
        from onnx import TensorProto

        helper = self._helper
        mask = self._op("Cast", "mask", to=TensorProto.FLOAT)
        hidden_states = self._encoded(mask)
        widened_mask = self._op("Unsqueeze", mask, self._whole(2))
        text_sums = self._op("ReduceSum", self._op("Mul", hidden_states, widened_mask), self._whole(1), keepdims=0)
        token_count = self._op("ReduceSum", widened_mask, self._whole(1), keepdims=0)
        self._nodes.append(helper.make_node("Div", [text_sums, token_count], ["pooled"]))
        value_info, input_axes, width = helper.make_tensor_value_info, ["texts", "tokens"], self._shape.hidden_size
        ids_input = value_info("ids", TensorProto.INT64, input_axes)
        if not self._has_words:
            ids_input = value_info("words", TensorProto.FLOAT, [*input_axes, width])
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [ids_input, value_info("mask", TensorProto.INT64, input_axes)],
            [value_info("pooled", TensorProto.FLOAT, ["texts", width])],
            self._constants,
        )
        domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=IR_VERSION)

    def _encoded(self, mask: str) -> str:
        """Add the embeddings and every layer; return the last one's output."""
        word_vectors = (
            self._op("Gather", self._constant(self._numbers(WORDS)), "ids", axis=0) if self._has_words else "words"
        )
        # A single text has only the first of the token types.
        kind = self._numbers("embeddings.token_type_embeddings.weight")[0]
        position_table = self._numbers("embeddings.position_embeddings.weight") + kind
        token_count = self._op("Shape", "mask", start=1, end=2)
        position_rows = self._op("Slice", self._constant(position_table), self._whole(0), token_count, self._whole(0))
        hidden_states = self._norm(self._op("Add", word_vectors, position_rows), "embeddings.LayerNorm")
        absent_mask = self._op("Sub", self._constant(np.array(1, np.float32)), mask)
        bias = self._op("Mul", absent_mask, self._constant(np.array(_MASKED, np.float32)))
        bias = self._op("Unsqueeze", bias, self._whole(1, 2))
        for layer_index in range(self._shape.num_hidden_layers):
            hidden_states = self._layer(hidden_states, bias, f"encoder.layer.{layer_index}")
        return hidden_states

    def _layer(self, hidden_states: str, bias: str, name: str) -> str:
        attention_output = self._op("Add", hidden_states, self._attention(hidden_states, bias, name))
        hidden_states = self._norm(attention_output, f"{name}.attention.output.LayerNorm")
        activation = self._op("Gelu", self._dense(hidden_states, f"{name}.intermediate.dense"))
        layer_output = self._op("Add", hidden_states, self._dense(activation, f"{name}.output.dense"))
        return self._norm(layer_output, f"{name}.output.LayerNorm")

    def _attention(self, hidden_states: str, bias: str, name: str) -> str:
        heads = self._shape.num_attention_heads
        width = self._shape.hidden_size // heads
        split_shape, joined_shape = self._whole(0, 0, heads, width), self._whole(0, 0, self._shape.hidden_size)
        turns = (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        projections = (
            (
                self._op(
                    "Reshape", self._dense(hidden_states, f"{name}.attention.self.{projection_name}"), split_shape
                ),
                turn,
            )
            for projection_name, turn in turns
        )
        query, key, value = (self._op("Transpose", projection_name, perm=turn) for projection_name, turn in projections)
        score_scale = self._constant(np.array(1 / math.sqrt(width), np.float32))
        scores = self._op("Add", self._op("Mul", self._op("MatMul", query, key), score_scale), bias)
        mixed_values = self._op("MatMul", self._op("Softmax", scores, axis=-1), value)
        mixed_values = self._op("Reshape", self._op("Transpose", mixed_values, perm=[0, 2, 1, 3]), joined_shape)
        return self._dense(mixed_values, f"{name}.attention.output.dense")

    def _dense(self, operand: str, name: str) -> str:
        weight, bias = self._weights[f"{name}.weight"], self._constant(self._numbers(f"{name}.bias"))
        if not isinstance(weight, PackedWeight):
            return self._op("Add", self._op("MatMul", operand, self._constant(np.ascontiguousarray(weight.T))), bias)
        nibbles = weight.nibbles()
        output_count, block_count, _ = nibbles.shape
        packed_pairs = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
        # Level 4 multiplies whole numbers of eight bits, as the weights were measured: two to three times as fast.
        kind = {"K": block_count * BLOCK, "N": output_count, "bits": 4, "block_size": BLOCK, "accuracy_level": 4}
        inputs = (operand, self._constant(packed_pairs), self._constant(weight.scales()))
        return self._op("Add", self._op("MatMulNBits", *inputs, domain=_MICROSOFT, **kind), bias)

    def _norm(self, operand: str, name: str) -> str:
        weight, bias = (self._constant(self._numbers(f"{name}.{parameter}")) for parameter in ("weight", "bias"))
        return self._op("LayerNormalization", operand, weight, bias, axis=-1, epsilon=self._shape.layer_norm_eps)

    def _numbers(self, name: str) -> NDArray[np.float32]:
        weight = self._weights[name]
        return weight.rows() if isinstance(weight, PackedWeight) else weight

    def _op(self, kind: str, *operands: str, **attributes: Any) -> str:
        output = f"t{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(kind, list(operands), [output], **attributes))
        return output

    def _whole(self, *numbers: int) -> str:
        return self._constant(np.array(numbers, np.int64))

    def _constant(self, numbers: NDArray[Any]) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(self._numpy_helper.from_array(np.ascontiguousarray(numbers), name))
        return name
