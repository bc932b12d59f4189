"""Slack exports: one file per day and channel, and the list of people."""

import html
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from elytron.importers import message_shape
from elytron.importers.bundles import BundleMember, FileBundle
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

CHANNEL: Final = "slack"
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_LISTS: Final = ("channels.json", "groups.json", "dms.json", "mpims.json")
_WORDED: Final = frozenset({"", "thread_broadcast", "me_message", "file_share", "bot_message", "file_comment"})
"""Types of messages that somebody wrote; all others are notices."""
_MARK: Final = re.compile(r"<([@#!]?)([^<>|\n]{1,2000})(?:\|([^<>\n]{0,2000}))?>")


def is_slack(bundle: FileBundle, /) -> bool:
    """Return whether a bundle is a Slack workspace export."""
    has_lists = any(bundle.files_named(name) for name in _LISTS)
    return has_lists and bool(bundle.files_named("users.json")) and bool(_day_files(bundle))


def _day_files(bundle: FileBundle) -> list[BundleMember]:
    return [
        member
        for member in bundle.members
        if _DAY.fullmatch(PurePosixPath(member.name).name) and len(PurePosixPath(member.name).parts) > 1
    ]


def read_slack(bundle: FileBundle, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield each channel's messages in order, with their authors' names."""
    names = _people_names(bundle)
    ids = _channel_ids(bundle)
    days = _day_files(bundle)
    for number, member in enumerate(days):
        folder = PurePosixPath(member.name).parent.name
        own = ids.get(folder, folder)
        key = ConversationKey(CHANNEL, message_shape.optional_title(own) or "channel")
        place.now(member.name, number / len(days))
        try:
            messages = message_shape.list_items(member.json(), what="messages")
        except (UnreadableFile, InvalidInput) as error:
            yield SkippedRecord(member.name, error.message)
            continue
        for position, message in enumerate(messages, start=1):
            place.now(f"{member.name}, message {position}", number / len(days))
            read = place.attempt(_slack_message, message, own, names)
            title = message_shape.optional_title(folder)
            yield place.make_message(key, read, title=title) if isinstance(read, TurnDraft) else read


def _list_entries(bundle: FileBundle, name: str) -> Iterator[dict[str, Json]]:
    """Yield the entries of one of the lists. An unreadable list gives no names, so messages keep the ids."""
    for member in bundle.files_named(name):
        try:
            document = member.json()
        except (UnreadableFile, LimitExceeded):
            continue
        yield from (entry for entry in document if isinstance(entry, dict)) if isinstance(document, list) else ()


def _people_names(bundle: FileBundle) -> dict[str, str]:
    people: dict[str, str] = {}
    for user in _list_entries(bundle, "users.json"):
        profile = user.get("profile")
        profile = profile if isinstance(profile, dict) else {}
        spellings = (profile.get("display_name"), user.get("real_name"), profile.get("real_name"), user.get("name"))
        name = next((title for each in spellings if (title := message_shape.optional_title(each))), None)
        if name is not None and isinstance(own := user.get("id"), str):
            people[own] = name
    return people


def _channel_ids(bundle: FileBundle) -> dict[str, str]:
    """Return channel ids by folder name. Folders of direct messages are named by id."""
    return {
        name: own
        for file_name in _LISTS
        for entry in _list_entries(bundle, file_name)
        if isinstance(name := entry.get("name") or entry.get("id"), str) and isinstance(own := entry.get("id"), str)
    }


def _slack_message(value: Json, channel: str, names: dict[str, str]) -> TurnDraft | LeftOut:
    message = message_shape.object_members(value, what="message")
    subtype = str(message.get("subtype") or "")
    if subtype == "tombstone" or message.get("hidden") is True:
        return LeftOut(OmissionReason.DELETED)
    if message.get("type") != "message" or subtype not in _WORDED:
        return LeftOut(OmissionReason.SERVICE)
    words = _plain_words(message_shape.content_text(message.get("text"), what="text"), names)
    if similarity.is_blank(words):
        return LeftOut(OmissionReason.MEDIA if message.get("files") else OmissionReason.NO_WORDS)
    stamp = message.get("ts")
    seconds = float(stamp) if isinstance(stamp, str) and re.fullmatch(r"\d{1,12}(\.\d{1,9})?", stamp) else None
    if seconds is None:
        raise InvalidInput(field="ts", problem="is not a Slack timestamp")
    user, is_bot = message.get("user"), bool(message.get("bot_id"))
    speaker = names.get(user) if isinstance(user, str) else None
    speaker = speaker or message_shape.optional_title(message.get("username")) or message_shape.optional_title(user)
    draft = message_shape.message_turn(
        words,
        speaker=speaker or "bot",
        at=message_shape.optional_moment(seconds, what="ts"),
        own_id=message_shape.optional_title(f"{channel}.{stamp}"),
    )
    return message_shape.outside_words(draft) if is_bot else draft


def _plain_words(text: str, names: dict[str, str]) -> str:
    """Return a message as people read it: names instead of ids, labels instead of links."""

    def label_of(mark: re.Match[str]) -> str:
        kind, target, label = mark[1], mark[2], mark[3]
        match kind:
            case "@":
                return f"@{names.get(target, label or target)}"
            case "#":
                return f"#{label or target}"
            case "!":
                return label or f"@{target.partition('^')[0]}"
            case _:
                return f"{label} ({target})" if label and label != target else target

    return html.unescape(_MARK.sub(label_of, text))
