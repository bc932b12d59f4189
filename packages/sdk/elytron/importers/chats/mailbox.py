"""Mailboxes (mbox): each mail under its author's name, without quoted replies, signatures and attachments."""

import codecs
import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.utils import parseaddr
from typing import Any, Final

from elytron.importers import message_shape
from elytron.importers.chats.gemini import plain_text
from elytron.importers.json_lines import LineFile
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core.clock import instant
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import sha256_digest
from elytron_core.text import similarity

CHANNEL: Final = "mail"
_MAIL_BYTES: Final = 4 * 1024 * 1024
_MAIL_LINES: Final = 100_000
"""Maximum number of bytes and lines read of one mail. The text precedes the attachments."""
_REQUIRED_HEADERS: Final = ("From", "Date", "Message-ID")
"""A text without any of these follows a line that only looks like the start of a mail."""
_LINE_BYTES: Final = 64 * 1024
_PARTS: Final = 250
_HEADER_CHARS: Final = 2_000
_HEADERS_CHARS: Final = 64 * 1024
"""Maximum size of one header and of all headers that are parsed, for which the standard library may need seconds."""
_CUT_HEADERS: Final = frozenset({"subject", "references", "in-reply-to"})
"""Headers whose beginning suffices."""
_SLOW_CHARSETS: Final = frozenset({"idna", "punycode"})
"""Encodings of names, which no mail has and whose decoding takes quadratic time."""
_START: Final = b"From "
_HEADER: Final = re.compile(rb"[A-Za-z][A-Za-z0-9-]{0,60}:")
_ESCAPED: Final = re.compile(rb">+From ")
_INTRODUCTION: Final = re.compile(r"[^\n]{0,300}(?:\d{4}|\d{1,2}:\d{2}|@)[^\n]{0,200}:\s*")
"""The line that introduces a quotation in any language, such as "On 3 May 2026 at 10:00 Ada wrote:"."""
_SIGNATURE: Final = re.compile(r"\n-- ?\n")
_DIGITS: Final = 24
# Exceptions that the standard library raises for various kinds of damaged headers and bodies.
_DAMAGED: Final = (ValueError, LookupError, AttributeError, TypeError, RecursionError, AssertionError)


def begins_mailbox(head: bytes, /) -> bool:
    """Return whether a file begins like a mailbox: a line with a sender, then headers."""
    first, _, rest = head.partition(b"\n")
    return first.startswith(_START) and _HEADER.match(rest.lstrip(b">")) is not None


def read_mailbox(source: LineFile, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the mails in file order, each in the conversation of its thread."""
    for number, data in enumerate(_mail_bytes(source, place), start=1):
        place.words = f"mail {number}"
        try:
            items = list(_mail_items(data, place))
        except (InvalidInput, LimitExceeded) as error:
            items = [SkippedRecord(place.words, error.message)]
        except _DAMAGED:
            items = [SkippedRecord(place.words, "is damaged")]
        yield from items


def _mail_bytes(source: LineFile, place: ReaderPlace) -> Iterator[bytes]:
    """Yield the bytes of each mail, up to the size limit."""
    source.file.seek(0)
    offset = size = 0
    lines: list[bytes] = []
    is_start = True
    while offset < source.size and (line := source.file.readline(min(_LINE_BYTES, source.size - offset))):
        offset += len(line)
        if is_start and line.startswith(_START):
            if lines:
                yield b"".join(lines)
            lines, size = [], 0
            place.now("a mail", offset / source.size)
        elif size < _MAIL_BYTES and len(lines) < _MAIL_LINES:
            lines.append(line[1:] if _ESCAPED.match(line) else line)
            size += len(line)
        is_start = not line.strip()
    if lines:
        yield b"".join(lines)


class _MailParser:
    """Parses one mail within limits on its parts and headers. Raises LimitExceeded and InvalidInput beyond them."""

    def __init__(self) -> None:
        self._registry = HeaderRegistry()
        self._headers: dict[tuple[str, str], Any] = {}
        self._parts = self._chars = 0

    def parse(self, data: bytes, /) -> EmailMessage:
        """Return the mail, whose headers are parsed only when they are read."""
        rules = policy.EmailPolicy(message_factory=self._add_part, header_factory=self._parse_header)
        mail = message_from_bytes(data, policy=rules)
        assert isinstance(mail, EmailMessage)
        return mail

    def _add_part(self, policy: policy.Policy | None = None) -> EmailMessage:
        self._parts += 1
        if self._parts > _PARTS:
            raise LimitExceeded(what="parts of a mail", limit=_PARTS, found=self._parts)
        return EmailMessage(policy)

    def _parse_header(self, name: str, value: str) -> Any:
        """Parse a header once, however often it is read."""
        if (name, value) not in self._headers:
            text = value[:_HEADER_CHARS] if name.lower() in _CUT_HEADERS else value
            self._chars += len(text)
            if len(text) > _HEADER_CHARS:
                raise InvalidInput(field=name, problem=f"has more than {_HEADER_CHARS} characters")
            if self._chars > _HEADERS_CHARS:
                raise LimitExceeded(what="characters in the headers of a mail", limit=_HEADERS_CHARS, found=self._chars)
            self._headers[name, value] = self._registry(name, text)
        return self._headers[name, value]


def _mail_items(data: bytes, place: ReaderPlace) -> Iterator[ReadItem]:
    mail = _MailParser().parse(data)
    if not any(name in mail for name in _REQUIRED_HEADERS):
        yield SkippedRecord(place.words, f"has none of the headers {', '.join(_REQUIRED_HEADERS)}")
        return
    attachments = sum(1 for part in mail.walk() if part.get_filename())
    if attachments:
        yield LeftOut(OmissionReason.ATTACHMENT, attachments)
    words = _own_words(_body_text(mail))
    if similarity.is_blank(words):
        yield LeftOut(OmissionReason.NO_WORDS)
        return
    own_id = _message_ids(str(mail.get("Message-ID", "")))[:1] or [sha256_digest(data)[:_DIGITS]]
    earlier_ids = _message_ids(str(mail.get("References", ""))) or _message_ids(str(mail.get("In-Reply-To", "")))
    thread = sha256_digest((earlier_ids or own_id)[0].encode("utf-8", "replace"))[:_DIGITS]
    title = message_shape.optional_title(str(mail.get("Subject", "")))
    if title is not None and not earlier_ids:
        words = f"{title}\n\n{words}"  # a thread is also searched for by its subject; replies would only repeat it
    yield place.make_message(ConversationKey(CHANNEL, thread), _mail_draft(mail, words, own_id[0], place), title=title)


def _mail_draft(mail: EmailMessage, words: str, own_id: str, place: ReaderPlace) -> TurnDraft:
    name, address = parseaddr(str(mail.get("From", "")))
    date = mail["Date"]
    moment = date.datetime if date is not None else None
    if date is not None and moment is None:
        place.note_unread_time("Date")
    place.naive_times += moment is not None and moment.tzinfo is None
    draft = message_shape.message_turn(
        words,
        speaker=message_shape.optional_title(name) or message_shape.optional_title(address) or "unknown",
        at=instant(moment, field="Date") if moment is not None else None,
        own_id=message_shape.optional_title(own_id) or "mail",
    )
    return message_shape.outside_words(draft)


def _message_ids(header: str) -> list[str]:
    return re.findall(r"<([^<>\s]{1,150})>", header[:10_000])


def _body_text(mail: EmailMessage) -> str:
    part = mail.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    try:
        charset = codecs.lookup(part.get_content_charset("utf-8") or "utf-8").name
        text = data.decode("utf-8" if charset in _SLOW_CHARSETS else charset, "replace")
    except LookupError:
        text = data.decode("utf-8", "replace")
    text = text.replace("\r\n", "\n").replace("\0", "")
    return plain_text(text) if part.get_content_subtype() == "html" else text


def _own_words(text: str) -> str:
    """Return a mail's own text, without signature, quoted lines, and lines that introduce a quotation."""
    text = _SIGNATURE.split(text, maxsplit=1)[0]
    lines: list[str] = []
    for line in text.split("\n"):
        if not line.startswith(">"):
            lines.append(line)
            continue
        while lines and not lines[-1].strip():
            lines.pop()
        if lines and _INTRODUCTION.fullmatch(lines[-1]):
            lines.pop()
    return "\n".join(lines).strip()
