"""Discord: its data package (the user's own messages), and DiscordChatExporter files."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from elytron.importers import message_shape
from elytron.importers.bundles import BundleMember, FileBundle
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

CHANNEL: Final = "discord"
_WRITTEN_KINDS: Final = frozenset({"Default", "Reply", "0", "19", "ChatInputCommand", "ThreadStarterMessage"})
"""Types of messages that somebody wrote; all others are notices."""


def is_exporter_file(document: Json, /) -> bool:
    """Return whether a JSON document is a channel exported by DiscordChatExporter."""
    return isinstance(document, dict) and {"guild", "channel", "messages"} <= document.keys()


def read_exporter_file(document: Json, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield a channel's messages with their authors' names."""
    members = message_shape.object_members(document, what="export")
    channel = message_shape.object_members(members.get("channel"), what="channel")
    own = message_shape.required_name(channel.get("id"), what="channel id")
    key, title = ConversationKey(CHANNEL, own), message_shape.optional_title(channel.get("name"))
    messages = message_shape.list_items(members.get("messages"), what="messages")
    for position, value in enumerate(messages, start=1):
        place.now(f"message {position}", (position - 1) / len(messages))
        read = place.attempt(_exporter_message, value, own, place)
        yield place.make_message(key, read, title=title) if isinstance(read, TurnDraft) else read


def _exporter_message(value: Json, channel: str, place: ReaderPlace) -> TurnDraft | LeftOut:
    message = message_shape.object_members(value, what="message")
    if str(message.get("type", "Default")) not in _WRITTEN_KINDS:
        return LeftOut(OmissionReason.SERVICE)
    words = message_shape.content_text(message.get("content"))
    if similarity.is_blank(words):
        has_media = bool(message.get("attachments") or message.get("embeds") or message.get("stickers"))
        return LeftOut(OmissionReason.MEDIA if has_media else OmissionReason.NO_WORDS)
    author = message_shape.object_members(message.get("author"), what="author")
    speaker = message_shape.optional_title(author.get("nickname")) or message_shape.optional_title(author.get("name"))
    own = message_shape.required_name(message.get("id"), what="message id")
    at = place.moment(message.get("timestamp"), what="timestamp")
    draft = message_shape.message_turn(words, speaker=speaker or "unknown", at=at, own_id=f"{channel}.{own}")
    return message_shape.outside_words(draft) if author.get("isBot") is True else draft


def is_data_package(bundle: FileBundle, /) -> bool:
    """Return whether a bundle is Discord's data package."""
    return bool(_channel_files(bundle))


def _channel_files(bundle: FileBundle) -> list[BundleMember]:
    return [
        member
        for member in bundle.files_named("messages.json")
        if PurePosixPath(member.name).parent.name.lstrip("c").isdigit()
        and PurePosixPath(member.name).parent.parent.name.lower() == "messages"
    ]


def read_data_package(bundle: FileBundle, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the user's own messages in each channel, oldest first."""
    titles = _channel_titles(bundle)
    files = _channel_files(bundle)
    for number, member in enumerate(files):
        own = PurePosixPath(member.name).parent.name.lstrip("c")
        place.now(member.name, number / len(files))
        try:
            messages = message_shape.list_items(member.json(), what="messages")
        except (UnreadableFile, InvalidInput) as error:
            yield SkippedRecord(member.name, error.message)
            continue
        key, title = ConversationKey(CHANNEL, own), titles.get(own)
        for position, value in enumerate(reversed(messages), start=1):
            place.now(f"{member.name}, message {position} from the end", number / len(files))
            read = place.attempt(_own_message, value, own, place)
            yield place.make_message(key, read, title=title) if isinstance(read, TurnDraft) else read


def _channel_titles(bundle: FileBundle) -> dict[str, str]:
    titles: dict[str, str] = {}
    for member in bundle.files_named("index.json"):
        try:
            document = member.json()
        except UnreadableFile:
            continue
        for own, name in document.items() if isinstance(document, dict) else ():
            if title := message_shape.optional_title(name):
                titles[own] = title
    return titles


def _own_message(value: Json, channel: str, place: ReaderPlace) -> TurnDraft | LeftOut:
    message = message_shape.object_members(value, what="message")
    words = message_shape.content_text(message.get("Contents"), what="Contents")
    if similarity.is_blank(words):
        return LeftOut(OmissionReason.MEDIA if message.get("Attachments") else OmissionReason.NO_WORDS)
    own = message.get("ID")
    if not isinstance(own, int | str) or own == "":
        raise InvalidInput(field="ID", problem="is missing")
    at = place.moment(message.get("Timestamp"), what="Timestamp")
    return message_shape.message_turn(words, at=at, own_id=message_shape.optional_title(f"{channel}.{own}"))
