"""One way to write a fixture file, so that a recorded fingerprint is the only line a recording changes."""

import json

from pydantic import JsonValue

WIDTH = 120
INDENT = 2


def write_out(value: JsonValue, /) -> str:
    """Return `value` as JSON text: objects and lists on one line where that fits, keys in their order.

    What has no ink of its own is escaped, so that no file shows something else than it says.
    """
    return _written(value, indent=0, taken=0) + "\n"


def _written(value: JsonValue, *, indent: int, taken: int) -> str:
    line = _on_one_line(value)
    # One character is left for a comma.
    if not isinstance(value, dict | list) or not value or (indent and taken + len(line) < WIDTH):
        return line
    inner = indent + INDENT
    pad = " " * inner
    if isinstance(value, dict):
        heads = [f"{pad}{_on_one_line(key)}: " for key in value]
        bodies = [_written(value[key], indent=inner, taken=len(head)) for key, head in zip(value, heads, strict=True)]
        parts = [head + body for head, body in zip(heads, bodies, strict=True)]
        left, right = "{", "}"
    else:
        parts = [pad + _written(part, indent=inner, taken=inner) for part in value]
        left, right = "[", "]"
    return f"{left}\n" + ",\n".join(parts) + f"\n{' ' * indent}{right}"


def _on_one_line(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return (
        text if text.isprintable() else "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    )
