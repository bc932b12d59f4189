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


def messages(file: IO[bytes], home: ConversationKey, /, *, name: str, size: int) -> Iterator[Said | LeftOut]:
    """Yield the messages in the first `size` bytes of `file`; a line that others are appending is not waited for."""
    places: Counter[ConversationKey] = Counter()
    for number, line, done in _lines(file, name=name, size=size):
        try:
            yield _said(line, home, places, done)
        except (InvalidInput, LimitExceeded) as error:
            raise UnreadableFile(name=name, problem=error.message, line=number) from None


def _lines(file: IO[bytes], *, name: str, size: int) -> Iterator[tuple[int, bytes, int]]:
    file.seek(0)
    done = number = 0
    while done < size:
        line = file.readline(min(limits.IMPORT_LINE_BYTES + 1, size - done))
        if not line:
            return
        number += 1
        done += len(line)
        if len(line) > limits.IMPORT_LINE_BYTES:
            problem = f"is longer than {limits.IMPORT_LINE_BYTES} bytes"
            raise UnreadableFile(name=name, problem=problem, line=number)
        text = message_shape.unmarked(line) if number == 1 else line
        if text.strip():
            yield number, text, done


def _said(line: bytes, home: ConversationKey, places: Counter[ConversationKey], done: int) -> Said | LeftOut:
    message = message_shape.members(parse(line), what="line")
    named = message_shape.name(message.get("conversation"), what="conversation")
    key = ConversationKey(home.channel, named or home.conversation)
    position = places[key]
    places[key] += 1
    if "content" not in message:
        raise InvalidInput(field="content", problem="is missing")
    draft = message_shape.spoken(message, key, position=position)
    if draft is None:
        return LeftOut(Omission.NO_WORDS)
    return Said(conversation=key, turn=draft, title=None, done_bytes=done)
