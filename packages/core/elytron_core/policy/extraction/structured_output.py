"""Shape of a model's answer: the JSON Schema sent to it, and the JSON found in its text."""

import json
import re
from typing import Any, Final, cast

from elytron_core.model import Value

_THOUGHT: Final = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCED: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)\n?```", re.DOTALL)

_MAPS: Final = frozenset({"properties", "$defs"})
_KEPT: Final = frozenset({"type", "enum", "const", "items", "anyOf", "$ref", "properties", "$defs"})


def schema_of(shape: type[Value], /) -> str:
    """Return the JSON Schema of `shape` as servers take it strictly: all fields required, no others allowed."""
    return json.dumps(_strict(shape.model_json_schema()), ensure_ascii=False, separators=(",", ":"))


def bare(text: str, /) -> str:
    """Return the JSON of an answer: without what a model thought aloud before it, and without a fence around it."""
    text = _THOUGHT.sub("", text).strip()
    fenced = _FENCED.findall(text)
    return fenced[-1].strip() if fenced else text


def looks_cut(text: str, /) -> bool:
    """Return whether `text` begins as JSON and does not end as such."""
    return text[:1] in {"{", "["} and text[-1:] not in {"}", "]"}


def correction(problem: str, schema: str, /) -> str:
    """Return the one question asked after a first answer that cannot be read: for its shape, not for more."""
    return (
        f"Your answer cannot be read: {problem}.\n"
        "Say the same again as one JSON object that fits this JSON Schema, without a fence, a comment or anything "
        f"else. Add nothing and change no content.\n{schema}"
    )


def _strict(node: Any) -> Any:
    """Return a schema without what strict servers refuse: defaults, bounds, fields left open. Names stay names."""
    match node:
        case dict():
            known = cast("dict[str, Any]", node)
            kept = {key: _named(part) if key in _MAPS else _strict(part) for key, part in known.items() if key in _KEPT}
            if "properties" in kept:
                kept["required"] = list(kept["properties"])
                kept["additionalProperties"] = False
            return kept
        case list():
            return [_strict(part) for part in cast("list[Any]", node)]
        case _:
            return node


def _named(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: _strict(part) for name, part in parts.items()}
