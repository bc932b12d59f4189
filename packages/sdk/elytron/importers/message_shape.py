"""Convert transcript formats to turns. Errors about malformed values name the field but never the value."""

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

UNREAD_TIMES = 20
"""Maximum number of unreadable times that a reader's remarks name."""
SECONDS_BELOW = 100_000_000_000
"""Smaller numbers are epoch seconds (up to the year 5138), larger ones milliseconds. From 1,000 times this value they
are microseconds, then nanoseconds (each from 1973)."""
_ZONE = re.compile(r"([Zz]|[+-]\d{2}(:?\d{2}){0,2})\s*\Z")
_WORDED = TEXT_PARTS | {"voice_note"}
"""Part types that were said, or written for the message's reader."""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """One message of a transcript: its conversation, the turn to commit, and its position in the file."""

    conversation: ConversationKey
    turn: TurnDraft
    title: str | None
    done_bytes: int
    place: str = ""
    """Readable description of its position in the file."""
    owner: str | None = None
    """The user whose memory it is, as named by a multi-user store."""

    @property
    def has_own_id(self) -> bool:
        """True if the format provides an id, by which the message is recognised."""
        return self.turn.host_id is not None


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """An unreadable record: its position and the problem, never its value."""

    place: str
    problem: str
    line: int | None = None


class DateOrder(StrEnum):
    """Order of day, month and year in a file's dates."""

    DMY = "dmy"
    MDY = "mdy"
    YMD = "ymd"


class DateChoice(NamedTuple):
    """The order in which a file's dates are to be read, or None for the best fit, and the reason."""

    order: DateOrder | None = None
    reason: str = "it was requested"


class DateReading(Value):
    """How a file's dates were read, and why. `is_ambiguous` means that another order fits equally well."""

    order: DateOrder
    reason: str
    is_ambiguous: bool = False


class OmissionReason(StrEnum):
    """Why a part of a transcript is not stored."""

    SYSTEM = "system"
    """A system message; stored only on request."""
    TOOL = "tool"
    """A tool call or result; results are stored only on request."""
    HIDDEN = "hidden"
    """Content that was not shown to the user."""
    BRANCH = "branch"
    """A message on a branch of the conversation that the user left."""
    SERVICE = "service"
    """A notice from the program, such as that a person joined."""
    MEDIA = "media"
    """An image, audio or file without text."""
    DELETED = "deleted"
    """Deleted by its author."""
    METADATA = "metadata"
    """Information about the file rather than part of its content."""
    ATTACHMENT = "attachment"
    """The text of an attached file."""
    NO_WORDS = "no_words"
    OTHER_FILE = "other_file"
    """A file in the folder or ZIP file that is not a transcript."""
    UNSAFE_NAME = "unsafe_name"
    """A ZIP member that is a link or whose name points outside the archive."""
    OTHER_OWNER = "other_owner"
    """The memory of a user who was not requested."""
    NO_SENTENCE = "no_sentence"
    """A record of another memory system that contains no sentence, such as an entity without a description."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of a transcript that is not stored."""

    reason: OmissionReason
    count: int = 1


@dataclass(frozen=True, slots=True)
class ReaderRemarks:
    """A reader's final remarks: how many times had no zone and were read as UTC, and how many keys were unknown.

    `unread_times` are the first times that could not be read, which do not discard their messages.
    """

    naive_times: int = 0
    unknown_keys: int = 0
    unread_times: tuple[SkippedRecord, ...] = ()


ReadItem = ImportedMessage | LeftOut | SkippedRecord | DateReading | ReaderRemarks
"""What a reader yields: messages, intentional omissions, unreadable records, and how the file was read."""
Reader = Callable[[ConversationKey, DateChoice], Iterator[ReadItem]]
"""Yields a transcript's content in order, from the beginning at each call.

Messages without a conversation are put into the given one. Raises UnreadableFile.
"""


def strip_mark(data: bytes, /) -> bytes:
    """Strip the UTF-8 byte order mark from the beginning of a file."""
    return data.removeprefix(codecs.BOM_UTF8)


def foreign_json(data: bytes, /, *, limit: int = limits.JSON_BYTES) -> Json:
    """Parse another program's JSON; lone surrogates become U+FFFD. Raises the errors of `parse_json`.

    An object may have many keys, so that it is refused with its record rather than with the whole document.
    """
    return parse_json(strict_json.mend_surrogates(strip_mark(data)), limit=limit, has_many_keys=True)


def object_members(value: Json, /, *, what: str) -> dict[str, Json]:
    """Return `value`, which must be an object, with a limited number of keys."""
    if not isinstance(value, dict):
        raise InvalidInput(field=what, problem="is not an object")
    if len(value) > strict_json.JSON_KEYS:
        raise InvalidInput(field=what, problem=f"has more than {strict_json.JSON_KEYS} keys")
    return value


def list_items(value: Json, /, *, what: str) -> list[Json]:
    """Return `value`, which must be a list."""
    if not isinstance(value, list):
        raise InvalidInput(field=what, problem="is not a list")
    return value


def optional_name(value: Json, /, *, what: str) -> str | None:
    """Return a valid name for scopes and speakers, or None if it is empty."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(field=what, problem="is not a string")
    require_name(value, field=what, limit=limits.NAME_CHARS)
    return value


def required_name(value: Json, /, *, what: str) -> str:
    """Return a valid name for scopes."""
    name = optional_name(value, what=what)
    if name is None:
        raise InvalidInput(field=what, problem="is missing")
    return name


def optional_title(value: Json, /) -> str | None:
    """Return `value` as a title: printable, on one line, truncated to the length limit."""
    if not isinstance(value, str):
        return None
    line = " ".join("".join(char if char.isprintable() else " " for char in value).split())
    return line[: limits.NAME_CHARS].strip() or None


def named_role(value: Json, /, *, what: str = "role") -> EvidenceRole:
    """Return the role that `value` names, in any format's vocabulary."""
    role = ROLE_WORDS.get(value) if isinstance(value, str) else None
    if role is None:
        raise InvalidInput(field=what, problem=f"must be one of {', '.join(ROLE_WORDS)}")
    return role


def optional_moment(value: Json, /, *, what: str = "timestamp") -> Instant | None:
    """Parse ISO 8601 text or an epoch number, whose magnitude determines the unit. Return None for None."""
    if value is None or isinstance(value, str):
        return instant(value, field=what) if value is not None else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field=what, problem="must be a string or a number")
    if abs(value) < SECONDS_BELOW:
        return instant(round(value * 1000), field=what)
    units = (unit for unit in (1, 1_000, 1_000_000) if abs(value) < SECONDS_BELOW * 1000 * unit)
    unit = next(units, None)
    # Values that are larger, infinite or NaN are passed on and refused.
    return instant(value if unit is None else round(value / unit), field=what)


def content_text(content: Json, /, *, what: str = "content") -> str:
    """Return the text of `content`: a string, or the text parts of a list. Images and calls have none."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(words for part in content if (words := _part_text(part, what=what)))
        case _:
            raise InvalidInput(field=what, problem="must be a string or a list of parts")


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
            raise InvalidInput(field=what, problem="has a part that is neither a string nor an object")


def spoken_turn(message: dict[str, Json], /) -> TurnDraft | None:
    """Convert a message `{role, content, timestamp?, name?}` to a turn, or return None if it is blank."""
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
    """Return one message as a turn, with `own_id` as its id if the format provides one."""
    try:
        message = Message(role=role, text=text, speaker=speaker, at=at)
        return TurnDraft(messages=(message,), host_id=own_id)
    except ValidationError as error:
        raise invalid_input(error) from None


def outside_words(draft: TurnDraft, /) -> TurnDraft:
    """Mark a turn's text as external content, which no user vouches for: mail, a bot's message, a document."""
    authority = EvidenceAuthority.EXTERNAL_CONTENT
    messages = tuple(message.model_copy(update={"authority": authority}) for message in draft.messages)
    return draft.model_copy(update={"messages": messages})


ReadT = TypeVar("ReadT")
ArgumentsT = ParamSpec("ArgumentsT")


class ReaderPlace:
    """A reader's position in its document, for error messages and progress, and how it should read dates."""

    def __init__(self, size: int, dates: DateChoice, /) -> None:
        self._size = size
        self.dates = dates
        self.words = "the document"
        self.done_bytes = 0
        self.naive_times = 0
        self.unknown_keys = 0
        self.unread_times: list[SkippedRecord] = []

    def now(self, words: str, share: float, /) -> None:
        """Set the current part, and the share of the document that precedes it."""
        self.words = words
        self.done_bytes = round(self._size * share)

    def attempt(
        self, read: Callable[ArgumentsT, ReadT], /, *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
    ) -> ReadT | SkippedRecord:
        """Return the result of `read`, or a record of what is wrong with the current part."""
        try:
            return read(*args, **kwargs)
        except (InvalidInput, LimitExceeded) as error:
            return SkippedRecord(self.words, error.message)

    def make_message(
        self, key: ConversationKey, draft: TurnDraft, /, *, title: str | None = None, owner: str | None = None
    ) -> ImportedMessage:
        """Return a message at the current position."""
        return ImportedMessage(key, draft, title, self.done_bytes, self.words, owner)

    def moment(self, value: Json, /, *, what: str = "timestamp") -> Instant | None:
        """Like `optional_moment`, but count times without a zone and return None for an empty string."""
        if isinstance(value, str):
            value = value.strip().removesuffix(" UTC") + "Z" * value.rstrip().endswith(" UTC")
            if not value:
                return None
        moment = optional_moment(value, what=what)
        if isinstance(value, str):
            self.naive_times += _ZONE.search(value) is None or len(value) <= len("2026-01-01")
        return moment

    def note_unread_time(self, name: str, /) -> None:
        """Note that a time of the current part cannot be read, so that its message gets the time of the import."""
        if len(self.unread_times) < UNREAD_TIMES:
            self.unread_times.append(SkippedRecord(self.words, f"{name} is not a time"))

    @property
    def remarks(self) -> ReaderRemarks:
        """Remarks collected while reading."""
        return ReaderRemarks(self.naive_times, self.unknown_keys, tuple(self.unread_times))


SourceT = TypeVar("SourceT")
SourceReader = Callable[[SourceT, ConversationKey, ReaderPlace], Iterator[ReadItem]]
"""Reads a source in its parsed form: a JSON document, a text, one line, the files of a folder, or a database."""
DocumentFormat = SourceReader[Json]


def document_messages(
    document: SourceT, form: SourceReader[SourceT], home: ConversationKey, dates: DateChoice, /, *, name: str, size: int
) -> Iterator[ReadItem]:
    """Yield what `form` reads from a file's `document`. Raises UnreadableFile if it does not have that form."""
    place = ReaderPlace(size, dates)
    try:
        yield from form(document, home, place)
    except (InvalidInput, LimitExceeded) as error:
        raise UnreadableFile(name=name, problem=f"{error.message} ({place.words})") from None
    yield place.remarks
