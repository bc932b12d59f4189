"""Edit JSON with comments in place: everything a person wrote around an entry is preserved."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from elytron_core import limits
from elytron_core.errors import UnreadableFile
from elytron_core.strict_json import Json

_SPACE: Final = re.compile(r"(?:[\s\ufeff]++|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"')
_WORD: Final = re.compile(r"[-+.\w]+")


@dataclass(frozen=True, slots=True)
class TextNode:
    """A parsed value: its bounds in the text, and the values inside it with the positions of their names."""

    start: int
    end: int
    value: Json
    members: dict[str, tuple[int, "TextNode"]] = field(default_factory=dict[str, tuple[int, "TextNode"]])
    items: tuple["TextNode", ...] = ()

    def parts(self) -> list[tuple[int, "TextNode"]]:
        """Return the inner values, each with the position where it or its name begins."""
        return list(self.members.values()) or [(item.start, item) for item in self.items]


class _JsoncReader:
    """Single-pass reader for JSON with comments."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._at = 0

    def read(self) -> TextNode:
        node = self._value(0)
        self._skip()
        if self._at != len(self._text):
            raise self._error("has text after its last bracket")
        return node

    def _error(self, problem: str) -> UnreadableFile:
        line_number = self._text.count("\n", 0, self._at) + 1
        return UnreadableFile(name=self._name, problem=f"{problem}: fix the file first", line=line_number)

    def _skip(self) -> str:
        """Skip whitespace and comments, and return the next character, or "" at the end."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match is not None else self._at
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> TextNode:
        char = self._skip()
        if depth > limits.JSON_DEPTH:
            raise self._error("is nested too deeply")
        value_start = self._at
        match char:
            case "{":
                return self._object(value_start, depth)
            case "[":
                return self._list(value_start, depth)
            case "":
                raise self._error("ends too early")
            case _:
                value = self._scalar(char)
                return TextNode(value_start, self._at, value)

    def _scalar(self, char: str) -> Json:
        match = (_STRING if char == '"' else _WORD).match(self._text, self._at)
        if match is None:
            raise self._error("is not valid JSON")
        try:
            value: Json = json.loads(match[0], strict=False)
        except ValueError:
            raise self._error("is not valid JSON") from None
        self._at = match.end()
        return value

    def _next_part(self, closing: str, *, is_first: bool) -> bool:
        """Return whether another part follows. If not, the closing bracket has been consumed."""
        char = self._skip()
        if char == "," and not is_first:
            self._at += 1
            char = self._skip()
        elif char not in {closing, ""} and not is_first:
            raise self._error("is missing a comma")
        if char == closing:
            self._at += 1
            return False
        return True

    def _object(self, start: int, depth: int) -> TextNode:
        self._at += 1
        members: dict[str, tuple[int, TextNode]] = {}
        while self._next_part("}", is_first=not members):
            key_place = self._at
            key = self._scalar(self._skip() or " ")
            if not isinstance(key, str):
                raise self._error("has a key without quotes")
            if key in members:
                raise self._error(f"has the key {key!r} twice")
            if self._skip() != ":":
                raise self._error("is missing a colon")
            self._at += 1
            members[key] = (key_place, self._value(depth + 1))
        return TextNode(start, self._at, {key: node.value for key, (_, node) in members.items()}, members)

    def _list(self, start: int, depth: int) -> TextNode:
        self._at += 1
        items: list[TextNode] = []
        while self._next_part("]", is_first=not items):
            items.append(self._value(depth + 1))
        return TextNode(start, self._at, [item.value for item in items], items=tuple(items))


def read_text(text: str, name: str, /) -> TextNode:
    """Parse a JSON object with comments. Raises UnreadableFile, which names the file and line."""
    node = _JsoncReader(text, name).read()
    if not isinstance(node.value, dict):
        raise UnreadableFile(name=name, problem="is not a JSON object: fix the file first", line=1)
    return node


def set_member(text: str, path: Sequence[str], value: Json, name: str, /) -> str:
    """Set the value at `path` and return the text. Missing objects are created, and an existing value is replaced."""
    node = read_text(text, name)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise _type_error(text, node, path[:depth], "an object", name)
        if key not in node.members:
            for missing_name in reversed(path[depth + 1 :]):
                value = {missing_name: value}
            return _insert_part(text, node, f"{json.dumps(key, ensure_ascii=False)}: ", value)
        node = node.members[key][1]
    return text[: node.start] + _printed_value(text, value, _indent_at(text, node.start)) + text[node.end :]


def add_item(text: str, path: Sequence[str], value: Json, name: str, /) -> str:
    """Append a value to the list at `path` and return the text. A missing list is created."""
    node = node_at(read_text(text, name), path)
    if node is None:
        return set_member(text, path, [value], name)
    if not isinstance(node.value, list):
        raise _type_error(text, node, path, "a list", name)
    return _insert_part(text, node, "", value)


def remove_part(text: str, path: Sequence[str | int], name: str, /) -> str:
    """Remove the value at `path` and return the text. Containers left empty are removed too."""
    while True:
        parent = node_at(read_text(text, name), path[:-1])
        assert parent is not None
        parts = parent.parts()
        key = path[-1]
        position = key if isinstance(key, int) else list(parent.members).index(key)
        surroundings = text[parent.start + 1 : parts[0][0]] + text[parts[-1][1].end : parent.end - 1]
        if len(parts) > 1 or len(path) == 1 or surroundings.strip(" \t\r\n,"):
            return _cut_part(text, parts, position)
        # It is the only value and there are no comments, so remove its container.
        path = path[:-1]


def node_at(node: TextNode, path: Sequence[str | int], /) -> TextNode | None:
    """Return the value at `path`, or None."""
    for key in path:
        if isinstance(key, int):
            node = node.items[key]
        elif key in node.members:
            node = node.members[key][1]
        else:
            return None
    return node


def _type_error(text: str, node: TextNode, path: Sequence[str], kind: str, name: str) -> UnreadableFile:
    line_number = text.count("\n", 0, node.start) + 1
    return UnreadableFile(
        name=name, problem=f"has a `{'.'.join(path)}` that is not {kind}: fix the file first", line=line_number
    )


def _indent_at(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit_of(text: str) -> str:
    """Return the text's indentation step."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match is not None else "  "


def _printed_value(text: str, value: Json, indent: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, indent=_unit_of(text), ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)


def _insert_part(text: str, node: TextNode, label: str, value: Json) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    parts, closing_at = node.parts(), node.end - 1
    if parts and "\n" not in text[node.start : parts[0][0]]:
        # The container is on a single line.
        last_end = parts[-1][1].end
        return f"{text[:last_end]}, {label}{json.dumps(value, ensure_ascii=False)}{text[last_end:]}"
    outer_indent = _indent_at(text, node.start)
    indent = _indent_at(text, parts[0][0]) if parts else outer_indent + _unit_of(text)
    entry = f"{newline}{indent}{label}{_printed_value(text, value, indent)}"
    if not parts:
        inner_text = text[node.start + 1 : closing_at].rstrip()
        return f"{text[: node.start + 1]}{inner_text}{entry}{newline}{outer_indent}{text[closing_at:]}"
    last_end = parts[-1][1].end
    tail_text = text[last_end:closing_at].rstrip()
    has_comma = _SPACE.sub("", tail_text, count=1).startswith(",")
    tail_end = last_end + len(tail_text)
    return f"{text[:last_end]}{'' if has_comma else ','}{tail_text}{entry}{text[tail_end:]}"


def _cut_part(text: str, parts: list[tuple[int, TextNode]], position: int) -> str:
    part_start, part_end = parts[position][0], parts[position][1].end
    comma_end = _comma_after(text, part_end)
    if comma_end is not None:
        part_end = comma_end + 1
    elif position:
        # The last part: remove the comma before it, and preserve comments in between.
        comma_end = _comma_after(text, parts[position - 1][1].end)
        assert comma_end is not None
        text = text[:comma_end] + text[comma_end + 1 :]
        part_start, part_end = part_start - 1, part_end - 1
    line_start = text.rfind("\n", 0, part_start) + 1
    line_end = text.find("\n", part_end)
    if line_end >= 0 and not text[line_start:part_start].strip() and not text[part_end:line_end].strip():
        return text[:line_start] + text[line_end + 1 :]
    return text[:part_start].rstrip(" \t") + text[part_end:]


def _comma_after(text: str, offset: int) -> int | None:
    match = _SPACE.match(text, offset)
    offset = match.end() if match is not None else offset
    return offset if text[offset : offset + 1] == "," else None
