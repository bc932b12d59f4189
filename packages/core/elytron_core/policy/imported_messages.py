"""How an imported message is recognised among stored ones, and after it was erased."""

import re
from collections.abc import Sequence
from typing import Final

from elytron_core.clock import Instant, as_datetime, instant
from elytron_core.planes.transcript import Message, Metadata, TurnOrigin
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import canonical_bytes, sha256_digest

ERASED: Final = "it was erased here, and stays erased"
OWNERS_VERSION: Final = "it has changed, but was hidden, edited or deleted here, and stays so"
REDATED: Final = "day and month of its date were read the other way round: it is shown at its new time"
ENDED_AT: Final = "ended_at"
"""Metadata of an imported memory: since when its own system has it as deleted, expired or no longer true."""
MINUTE_MS: Final = 60_000
_ID_DIGITS: Final = 32
_UNSEEN: Final = re.compile("[\u200b-\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]+")


def ended_parts(
    metadata: Metadata, origin: TurnOrigin, messages: Sequence[Message], /, *, now: Instant
) -> dict[int, Instant]:
    """Return the messages of an imported turn that have ended in their own system: they come in hidden, as history."""
    ended_at = metadata.get(ENDED_AT) if origin is TurnOrigin.IMPORTED else None
    if not isinstance(ended_at, int) or isinstance(ended_at, bool) or ended_at > now:
        return {}
    return dict.fromkeys(range(len(messages)), Instant(ended_at))


def minute_of(at: Instant, /) -> int:
    """Return the minute of a time, because exports of one chat may or may not contain seconds."""
    return at // MINUTE_MS


def swapped_time(at: Instant, /) -> Instant:
    """Return a time with day and month swapped; unchanged if that is no valid date."""
    utc_datetime = as_datetime(at)
    return (
        instant(utc_datetime.replace(month=utc_datetime.day, day=utc_datetime.month)) if utc_datetime.day <= 12 else at
    )


def message_form(message: Message, /) -> tuple[str, str, str]:
    """Return role, speaker and words of a message, without invisible characters that differ between exports."""
    return message.role.value, message.speaker or "", " ".join(_UNSEEN.sub("", message.text).split())


def content_id(message: Message, repeat: int, /, *context: str) -> str:
    """Return the id of a message whose format has none, made of its content, speaker and minute.

    `repeat` counts the equal messages of that minute before it. One without a time needs its `context` too.
    """
    minute = minute_of(message.at) if message.at is not None else None
    return sha256_digest(canonical_bytes((*message_form(message), minute, repeat, *context)))[:_ID_DIGITS]


def erased_names(message: Message, key: ConversationKey, host_id: str | None, /) -> tuple[tuple[str, ...], ...]:
    """Return the names that recognise an erased message: its content at that minute, and its id.

    Without a time it is recognised in its own conversation only.
    """
    minute_or_conversation = (str(minute_of(message.at)),) if message.at is not None else ("", *key)
    content_name = ("content", *message_form(message), *minute_or_conversation)
    return (content_name, ("id", *key, host_id)) if host_id is not None else (content_name,)
