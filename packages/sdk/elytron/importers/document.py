"""A transcript that is one JSON document: parsed as a whole, read from memory."""

from collections.abc import Callable, Iterator

from elytron.importers.message_shape import LeftOut, Said
from elytron_core.errors import InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json


class Place:
    """Position of a reader in its document: for error messages and progress."""

    def __init__(self, size: int, /) -> None:
        self._size = size
        self.words = "the document"
        self.done_bytes = 0

    def now(self, words: str, share: float, /) -> None:
        """Note the part that is being read, and the share of the document before it."""
        self.words = words
        self.done_bytes = round(self._size * share)


DocumentFormat = Callable[[Json, ConversationKey, Place], Iterator[Said | LeftOut]]


def messages(
    document: Json, form: DocumentFormat, home: ConversationKey, /, *, name: str, size: int
) -> Iterator[Said | LeftOut]:
    """Yield what `form` reads in the `document` of a file. Raises UnreadableFile."""
    place = Place(size)
    try:
        yield from form(document, home, place)
    except (InvalidInput, LimitExceeded) as error:
        raise UnreadableFile(name=name, problem=f"{error.message} ({place.words})") from None
