"""Reassembly of characters that a server split across two events.

Some servers cut their answer by UTF-16 units and write half of a surrogate pair into each event as an escape. Others
cut it by bytes and write half of a UTF-8 sequence. Either way a character such as an emoji arrives in pieces.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, cast

_MAYBE_SPLIT: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""A JSON escape of half a surrogate pair."""
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_RAW_BYTES: Final = re.compile("[\udc80-\udcff]+")
"""Invalid UTF-8 bytes as written by `surrogateescape`."""
_OPEN: Final = re.compile("(?:[\ud800-\udbff]|[\udcc2-\udcf4][\udc80-\udcbf]{0,2})$")
"""The beginning of a character at the end of a text."""
_PLACES: Final = 64
"""Maximum texts of one answer that may wait for the rest of a character."""
_NUMBERS: Final = ("index", "output_index", "content_index", "item_id")
"""Fields that say which of several texts of an answer a piece belongs to."""


class SplitCharacters:
    """Joins characters split across the events of one answer. No I/O."""

    def __init__(self) -> None:
        self._halves: dict[tuple[object, ...], str] = {}

    def parse(self, frame: bytes, /) -> Mapping[str, object] | None:
        """Return the JSON object in `frame` with complete characters, or None.

        The beginning of a character at the end of a text is withheld until the next text in the same place.
        """
        try:
            text, has_pieces = frame.decode(), _MAYBE_SPLIT.search(frame) is not None
        except UnicodeDecodeError:
            text, has_pieces = frame.decode("utf-8", "surrogateescape"), True
        try:
            parsed: object = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(parsed, dict):
            return None
        event = cast("dict[str, object]", parsed)
        return cast("dict[str, object]", self._joined(event, ())) if has_pieces or self._halves else event

    def _joined(self, value: object, fragment_path: tuple[object, ...]) -> object:
        match value:
            case str():
                return self._join_text(value, fragment_path)
            case dict():
                fields = cast("dict[str, object]", value)
                fragment_place = (
                    *fragment_path,
                    *(fields.get(name) for name in _NUMBERS if isinstance(fields.get(name), int | str)),
                )
                return {name: self._joined(field, (*fragment_place, name)) for name, field in fields.items()}
            case list():
                return [self._joined(item, fragment_path) for item in cast("list[object]", value)]
            case _:
                return value

    def _join_text(self, text: str, fragment_path: tuple[object, ...]) -> str:
        if not text:
            return text
        text = self._halves.pop(fragment_path, "") + text
        if text.isascii():
            return text
        text = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        if (piece_match := _OPEN.search(text)) is not None and len(self._halves) < _PLACES:
            self._halves[fragment_path] = piece_match[0]
            text = text[: piece_match.start()]
        return _RAW_BYTES.sub(lambda run: run[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), text)
