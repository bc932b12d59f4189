"""Conversion of transcript formats to turns. A wrong shape is an InvalidInput that names it, never its value."""

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, ParamSpec, TypeVar

from pydantic import ValidationError

from elytron_core import limits, strict_json
from elytron_core.clock import Instant, instant
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.evidence import ROLE_WORDS, TEXT_PARTS, EvidenceAuthority, EvidenceRole
from elytron_core.ids import require_name
from elytron_core.model import Value, invalid_input
from elytron_core.planes.transcript import Message
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse_json
from elytron_core.text import similarity

SECONDS_BELOW = 100_000_000_000
"""A smaller number is epoch seconds (to the year 5138). From here on it is milliseconds, and from 1,000 times as much
microseconds, then nanoseconds (each from 1973)."""
_ZONE = re.compile(r"([Zz]|[+-]\d{2}(:?\d{2}){0,2})\s*\Z")
_WORDED = TEXT_PARTS | {"voice_note"}
"""The parts of a message that were said, or written for its reader."""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """One message of a transcript: its conversation, the turn to commit, and the position in the file."""

    conversation: ConversationKey
    turn: TurnDraft
    title: str | None
    done_bytes: int
    place: str = ""
    """Where it is in its file, in words."""
    owner: str | None = None
    """Whose memory it is in a store of several users, by the name that store has for them."""

    @property
    def has_own_id(self) -> bool:
        """True if its format gives it an id, by which it is recognised."""
        return self.turn.host_id is not None


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that cannot be read: where it is and what is wrong, never its value."""

    place: str
    problem: str
    line: int | None = None


class DateOrder(StrEnum):
    """Order of day, month and year in the dates of a file."""

    DMY = "dmy"
    MDY = "mdy"
    YMD = "ymd"


class DateChoice(NamedTuple):
    """Order in which the dates of a file are to be read, None for the one that fits best, and why."""

    order: DateOrder | None = None
    reason: str = "it was requested"


class DateReading(Value):
    """How the dates of a file were read and why; `is_ambiguous` if another order fits them as well."""

    order: DateOrder
    reason: str
    is_ambiguous: bool = False


class OmissionReason(StrEnum):
    """Why something of a transcript is not stored."""

    SYSTEM = "system"
    """A system's message; the caller may ask for it."""
    TOOL = "tool"
    """A tool's call or result; the caller may ask for results."""
    HIDDEN = "hidden"
    """Not shown to its user."""
    BRANCH = "branch"
    """On a path of the conversation that its user left."""
    SERVICE = "service"
    """A notice of the program, such as that a person joined."""
    MEDIA = "media"
    """A picture, sound or file without words."""
    DELETED = "deleted"
    """Deleted by its writer."""
    METADATA = "metadata"
    """About the file, not said in it."""
    ATTACHMENT = "attachment"
    """The text of a file that was attached."""
    NO_WORDS = "no_words"
    OTHER_FILE = "other_file"
    """A file of the folder or ZIP that is no transcript."""
    UNSAFE_NAME = "unsafe_name"
    """A file of a ZIP whose name leads out of it, or that is a link."""
    OTHER_OWNER = "other_owner"
    """The memory of a user that was not requested."""
    NO_SENTENCE = "no_sentence"
    """A record of another memory that says nothing in words, such as an entity without a description."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something of a transcript that is not stored."""

    reason: OmissionReason
    count: int = 1


@dataclass(frozen=True, slots=True)
class ReaderRemarks:
    """What a reader says at the end: the times without a zone, read as UTC, and the unknown keys of records."""

    naive_times: int = 0
    unknown_keys: int = 0


ReadItem = ImportedMessage | LeftOut | SkippedRecord | DateReading | ReaderRemarks
"""What a reader yields: messages, what is left out on purpose, what cannot be read, and how it was read."""
Reader = Callable[[ConversationKey, DateChoice], Iterator[ReadItem]]
"""Yields what one transcript holds, in order, from the beginning at each call.

The key takes what names no conversation. Raises UnreadableFile.
"""


def strip_mark(data: bytes, /) -> bytes:
    """Return the beginning of a file without the mark that some programs put before UTF-8."""
    return data.removeprefix(codecs.BOM_UTF8)


def foreign_json(data: bytes, /, *, limit: int = limits.JSON_BYTES) -> Json:
    """Return the JSON that another program wrote; half a surrogate pair becomes U+FFFD. Raises as `parse_json`."""
    return parse_json(strict_json.mend_surrogates(strip_mark(data)), limit=limit)


def object_members(value: Json, /, *, what: str) -> dict[str, Json]:
    """Return `value`, which must be an object."""
    if not isinstance(value, dict):
        raise InvalidInput(field=what, problem="is not an object")
    return value


def list_items(value: Json, /, *, what: str) -> list[Json]:
    """Return `value`, which must be a list."""
    if not isinstance(value, list):
        raise InvalidInput(field=what, problem="is not a list")
    return value


def optional_name(value: Json, /, *, what: str) -> str | None:
    """Return a name as scopes and speakers take it, or None if there is none."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(field=what, problem="is not a text")
    require_name(value, field=what, limit=limits.NAME_CHARS)
    return value


def required_name(value: Json, /, *, what: str) -> str:
    """Return a name as scopes take it."""
    name = optional_name(value, what=what)
    if name is None:
        raise InvalidInput(field=what, problem="is missing")
    return name


def optional_title(value: Json, /) -> str | None:
    """Return `value` as a title: printable, on one line, cut to its bound."""
    if not isinstance(value, str):
        return None
    line = " ".join("".join(char if char.isprintable() else " " for char in value).split())
    return line[: limits.NAME_CHARS].strip() or None


def named_role(value: Json, /, *, what: str = "role") -> EvidenceRole:
    """Return the role that `value` names, in the words of any of the formats."""
    role = ROLE_WORDS.get(value) if isinstance(value, str) else None
    if role is None:
        raise InvalidInput(field=what, problem=f"must be one of {', '.join(ROLE_WORDS)}")
    return role


def optional_moment(value: Json, /, *, what: str = "timestamp") -> Instant | None:
    """Return the instant in ISO 8601 text or in an epoch number, whose size says the unit; None if there is none."""
    if value is None or isinstance(value, str):
        return instant(value, field=what) if value is not None else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field=what, problem="must be a text or a number")
    if abs(value) < SECONDS_BELOW:
        return instant(round(value * 1000), field=what)
    units = (unit for unit in (1, 1_000, 1_000_000) if abs(value) < SECONDS_BELOW * 1000 * unit)
    unit = next(units, None)
    # What is larger, infinite or no number is refused as it is.
    return instant(value if unit is None else round(value / unit), field=what)


def content_text(content: Json, /, *, what: str = "content") -> str:
    """Return the words of `content`: a text, or the text parts of a list; pictures and calls have none."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(words for part in content if (words := _part_text(part, what=what)))
        case _:
            raise InvalidInput(field=what, problem="must be a text or a list of parts")


def _part_text(part: Json, *, what: str) -> str:
    match part:
        case None:
            return ""
        case str():
            return part
        case dict():
            words = part.get("text") if str(part.get("type", "text")) in _WORDED else None
            if words is None:
                return ""
            if not isinstance(words, str):
                raise InvalidInput(field=what, problem="has a text part without text")
            return words
        case _:
            raise InvalidInput(field=what, problem="has a part that is neither a text nor an object")


def spoken_turn(message: dict[str, Json], /) -> TurnDraft | None:
    """Return a message `{role, content, timestamp?, name?}` as a turn; None if it has no words."""
    role, text = named_role(message.get("role")), content_text(message.get("content"))
    at = optional_moment(message.get("timestamp"))
    speaker = optional_name(message.get("name"), what="name")
    return None if similarity.is_blank(text) else message_turn(text, role=role, speaker=speaker, at=at)


def message_turn(
    text: str,
    /,
    *,
    role: EvidenceRole = EvidenceRole.USER,
    speaker: str | None = None,
    at: Instant | None = None,
    own_id: str | None = None,
) -> TurnDraft:
    """Return one message as a turn, named by its own id where its format gives one."""
    try:
        message = Message(role=role, text=text, speaker=speaker, at=at)
        return TurnDraft(messages=(message,), host_id=own_id)
    except ValidationError as error:
        raise invalid_input(error) from None


def outside_words(draft: TurnDraft, /) -> TurnDraft:
    """Return a turn of which nobody here vouches for the words: a mail, a bot's message, a document."""
    authority = EvidenceAuthority.EXTERNAL_CONTENT
    messages = tuple(message.model_copy(update={"authority": authority}) for message in draft.messages)
    return draft.model_copy(update={"messages": messages})


ReadT = TypeVar("ReadT")
ArgumentsT = ParamSpec("ArgumentsT")


class ReaderPlace:
    """Position of a reader in its document, for error messages and progress; and how it is to read dates."""

    def __init__(self, size: int, dates: DateChoice, /) -> None:
        self._size = size
        self.dates = dates
        self.words = "the document"
        self.done_bytes = 0
        self.naive_times = 0
        self.unknown_keys = 0

    def now(self, words: str, share: float, /) -> None:
        """Note the part that is being read, and the share of the document before it."""
        self.words = words
        self.done_bytes = round(self._size * share)

    def attempt(
        self, read: Callable[ArgumentsT, ReadT], /, *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
    ) -> ReadT | SkippedRecord:
        """Return what `read` makes of the part that is being read, or what is wrong with it."""
        try:
            return read(*args, **kwargs)
        except (InvalidInput, LimitExceeded) as error:
            return SkippedRecord(self.words, error.message)

    def make_message(
        self, key: ConversationKey, draft: TurnDraft, /, *, title: str | None = None, owner: str | None = None
    ) -> ImportedMessage:
        """Return a message of the part that is being read."""
        return ImportedMessage(key, draft, title, self.done_bytes, self.words, owner)

    def moment(self, value: Json, /, *, what: str = "timestamp") -> Instant | None:
        """Return a time as `optional_moment` does, and count it if it has no zone; an empty text is no time."""
        if isinstance(value, str):
            value = value.strip().removesuffix(" UTC") + "Z" * value.rstrip().endswith(" UTC")
            if not value:
                return None
            self.naive_times += _ZONE.search(value) is None or len(value) <= len("2026-01-01")
        return optional_moment(value, what=what)

    @property
    def remarks(self) -> ReaderRemarks:
        """What was noted while reading."""
        return ReaderRemarks(self.naive_times, self.unknown_keys)


SourceT = TypeVar("SourceT")
SourceReader = Callable[[SourceT, ConversationKey, ReaderPlace], Iterator[ReadItem]]
"""Reads a source in its own form: a JSON document, a text, one line, the files of a folder, a database."""
DocumentFormat = SourceReader[Json]


def document_messages(
    document: SourceT, form: SourceReader[SourceT], home: ConversationKey, dates: DateChoice, /, *, name: str, size: int
) -> Iterator[ReadItem]:
    """Yield what `form` reads in the `document` of a file. Raises UnreadableFile if it is none of that form."""
    place = ReaderPlace(size, dates)
    try:
        yield from form(document, home, place)
    except (InvalidInput, LimitExceeded) as error:
        raise UnreadableFile(name=name, problem=f"{error.message} ({place.words})") from None
    yield place.remarks
