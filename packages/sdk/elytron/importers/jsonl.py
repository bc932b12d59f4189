"""JSON Lines: one message {role, content, timestamp?, name?, conversation?} on each line, read as a stream."""

from collections import Counter
from collections.abc import Iterator
from typing import IO

from elytron.importers import message_shape
from elytron.importers.message_shape import LeftOut, Omission, Said
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import parse
from elytron_core.text import similarity


class JsonLines:
    """Reads the first `size` bytes of `file`, a line at a time; a line that others are appending is not waited for."""

    def __init__(self, file: IO[bytes], /, *, name: str, size: int) -> None:
        self._file = file
        self._name = name
        self._size = size

    def messages(self, home: ConversationKey, /) -> Iterator[Said | LeftOut]:
        places: Counter[ConversationKey] = Counter()
        for number, line, done in self._lines():
            try:
                said = _said(line, home, places, done)
            except (InvalidInput, LimitExceeded) as error:
                raise UnreadableFile(name=self._name, problem=error.message, line=number) from None
            yield said if said is not None else LeftOut(Omission.NO_WORDS)

    def _lines(self) -> Iterator[tuple[int, bytes, int]]:
        self._file.seek(0)
        done = number = 0
        while done < self._size:
            line = self._file.readline(min(limits.IMPORT_LINE_BYTES + 1, self._size - done))
            if not line:
                return
            number += 1
            done += len(line)
            if len(line) > limits.IMPORT_LINE_BYTES:
                problem = f"is longer than {limits.IMPORT_LINE_BYTES} bytes"
                raise UnreadableFile(name=self._name, problem=problem, line=number)
            text = message_shape.unmarked(line) if number == 1 else line
            if text.strip():
                yield number, text, done


def _said(line: bytes, home: ConversationKey, places: Counter[ConversationKey], done: int) -> Said | None:
    message = message_shape.members(parse(line), what="line")
    key = ConversationKey(
        home.channel, message_shape.name(message.get("conversation"), what="conversation") or home.conversation
    )
    position = places[key]
    places[key] += 1
    if "content" not in message:
        raise InvalidInput(field="content", problem="is missing")
    role = message_shape.role(message.get("role"))
    words = message_shape.text(message["content"])
    at = message_shape.moment(message.get("timestamp"))
    speaker = message_shape.name(message.get("name"), what="name")
    if similarity.is_blank(words):
        return None
    draft = message_shape.turn(key, position=position, role=role, text=words, speaker=speaker, at=at)
    return Said(conversation=key, turn=draft, title=None, done_bytes=done)
