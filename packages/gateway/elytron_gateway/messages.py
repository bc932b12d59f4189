"""Conversion of request messages to session messages. Attached files are stored with the text that can be extracted."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from elytron.context import OperationContext
from elytron_adapter.system_documents import record_of
from elytron_core import limits, strict_json
from elytron_core.errors import Conflict, InvalidInput, PayloadTooLarge, UnsupportedMedia
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.servers.gateway import ATTACHMENTS, MessageAttachment, MessageItem
from elytron_core.planes.transcript import Message
from elytron_gateway import collection
from elytron_gateway import limits as gateway_limits
from elytron_gateway.collection import CollectionRepository, commit_changes
from elytron_gateway.extraction.child_process import FileExtraction, UnreadableUpload
from elytron_gateway.extraction.file_text import media_type
from elytron_gateway.names import MemoryOwner
from elytron_gateway.resources import AllowedSources, read_source
from elytron_gateway.upstream.port import UpstreamItem, UpstreamMessage
from elytron_gateway.wire import ContentItem, WireMessage

_READABLE = frozenset({"doc", "pdf", "html"})
_PREFIX = "a_"
"""Prefix of an attachment's id; its key is the rest."""


@dataclass(frozen=True, slots=True)
class MessageUpload:
    """A file sent with the messages."""

    name: str
    mime: str
    data: bytes


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file of a message: its item, and its bytes if any."""

    item: ContentItem
    data: bytes
    mime: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message ready for the upstream, and its files."""

    message: UpstreamMessage
    files: tuple[MessageFile, ...]
    parts: tuple[str | MessageFile, ...] = ()
    """Its items, in order."""


@dataclass(slots=True)
class _ReachableFiles:
    """The files that items may refer to: those sent along, and `remaining_bytes` of those in allowed folders."""

    uploads: Mapping[str, MessageUpload]
    allowed: AllowedSources
    extraction: FileExtraction
    remaining_bytes: int


async def parse_messages(
    messages: Sequence[WireMessage],
    /,
    *,
    uploads: Mapping[str, MessageUpload],
    allowed: AllowedSources,
    extraction: FileExtraction,
    key: str | None = None,
) -> tuple[ParsedMessage, ...]:
    """Return the messages for the upstream, each under a part of `key` if there is one.

    Raises InvalidInput for wrong base64, an `upload_id` without its file, a file that no message names, or a
    `file:` address if the server reads no folder; PermissionRefused for one in none of its folders, and
    PayloadTooLarge if such files are too large together.
    """
    reachable_files = _ReachableFiles(uploads, allowed, extraction, gateway_limits.RESOURCE_BYTES)
    parsed = [await _parse_message(number, message, reachable_files) for number, message in enumerate(messages)]
    upload_ids = {file.item.upload_id for one in parsed for file in one.files}
    unnamed_uploads = uploads.keys() - upload_ids
    if unnamed_uploads:
        raise InvalidInput(field="files", problem="include one that no content item refers to by its upload_id")
    if key is None:
        return tuple(parsed)
    digest = strict_json.sha256_digest(key.encode())[:32]
    return tuple(
        replace(one, message=replace(one.message, key=f"{digest}.{number}")) for number, one in enumerate(parsed)
    )


def mark_message(parsed: ParsedMessage, /, *, tags: tuple[str, ...], is_outside: bool) -> ParsedMessage:
    """Return a message with its session's tags, marked if it is based on content from outside."""
    return replace(parsed, message=replace(parsed.message, tags=(*parsed.message.tags, *tags), is_outside=is_outside))


def require_call_ids(messages: Sequence[WireMessage], /) -> None:
    """Raise InvalidInput for a tool's answer that names no call, because upstreams reject it."""
    for number, message in enumerate(messages):
        if message.role == "tool" and not message.tool_call_id:
            raise InvalidInput(field=f"messages.{number}.tool_call_id", problem="is required by the upstream")


async def keep_files(
    ctx: OperationContext, owner: MemoryOwner, session_id: str, parsed: ParsedMessage, memory_id: str, /
) -> list[tuple[str, MessageAttachment]]:
    """Store the files of one message, once if it has a key; return their records with their ids."""
    repository = CollectionRepository(ctx, ATTACHMENTS, MessageAttachment)
    records: list[tuple[str, MessageAttachment]] = []
    for number, file in enumerate(parsed.files):
        key = await _message_key(ctx, owner, session_id, parsed.message.key, number)
        stored_record = await repository.get(owner.space, key)
        if stored_record is not None:
            records.append((f"{_PREFIX}{key}", stored_record.value))
            continue
        record = MessageAttachment(
            memory_id=memory_id,
            session_id=session_id,
            upload_id=file.item.upload_id,
            kind=file.item.type,
            name=file.item.name or file.name[: limits.NAME_CHARS],
            ext=file.item.ext or "",
            mime=file.mime,
            size=len(file.data),
            uri=file.item.uri or "",
            at=ctx.clock.now(),
        )
        # The bytes before the record, which promises them.
        if file.data:
            await collection.keep_blob(ctx, owner.space, key, file.data)
        try:
            await commit_changes(ctx, owner.space, repository.put(key, record, expects=0))
        except Conflict:
            # A repeat under the same key was quicker, and its record is as good.
            stored_record = await repository.get(owner.space, key)
            if stored_record is None:
                raise
            record = stored_record.value
        records.append((f"{_PREFIX}{key}", record))
    return records


async def drop_files(
    ctx: OperationContext, owner: MemoryOwner, records: Sequence[tuple[str, MessageAttachment]], /
) -> None:
    """Remove files stored for messages that were rejected."""
    repository = CollectionRepository(ctx, ATTACHMENTS, MessageAttachment)
    for attachment_id, _ in records:
        document = await repository.get(owner.space, attachment_id.removeprefix(_PREFIX))
        if document is not None:
            # The record first, for the same reason: it names no bytes that are gone.
            await commit_changes(ctx, owner.space, repository.remove(document))
            await collection.remove_blobs(ctx, owner.space, document.key)


def with_items(parsed: ParsedMessage, attachments: Sequence[tuple[str, MessageAttachment]], /) -> UpstreamMessage:
    """Return the message for an upstream that reads files itself; `attachments` are their records.

    An item with only an address is not sent: an upstream would fetch it from there.
    """
    if not any(file.data for file in parsed.files):
        return parsed.message
    keys = iter([attachment_id.removeprefix(_PREFIX) for attachment_id, _ in attachments])
    items = [_content_item(part, "" if isinstance(part, str) else next(keys)) for part in parsed.parts]
    return replace(parsed.message, items=tuple(item for item in items if item.item.text or item.data))


def _content_item(part: str | MessageFile, key: str) -> UpstreamItem:
    if isinstance(part, str):
        return UpstreamItem(MessageItem(type="text", text=part))
    if not part.data:
        return UpstreamItem(MessageItem(type="text", text=_file_name(part)))
    name = part.item.name or part.name
    extension = part.item.ext or PurePosixPath(name).suffix.lstrip(".") or "bin"
    return UpstreamItem(
        MessageItem(type=part.item.type, attachment=key, name=name[: limits.NAME_CHARS], ext=extension), part.data
    )


async def _message_key(
    ctx: OperationContext, owner: MemoryOwner, session_id: str, told_key: str | None, message_number: int
) -> str:
    if told_key is None:
        return collection.new_key(ctx)
    return (await record_of(ctx, owner.space)).tag("gateway attachment", session_id, told_key, str(message_number))


async def _parse_message(message_number: int, message: WireMessage, reach: _ReachableFiles) -> ParsedMessage:
    items = message.content if isinstance(message.content, tuple) else ()
    texts = [message.content] if isinstance(message.content, str) else []
    parts: list[str | MessageFile] = []
    for place, item in enumerate(items):
        if item.text is not None:
            parts.append(item.text)
            texts.append(item.text)
            continue
        file = await _item_file(item, reach, field=f"messages.{message_number}.content.{place}")
        parts.append(file)
        texts.append(await _text_of(file, reach.extraction))
    calls = [call.model_dump(mode="json") for call in message.tool_calls or ()]
    if calls:
        texts.append(json.dumps(calls, ensure_ascii=False))
    text_message = Message(
        role=EvidenceRole(message.role),
        text="\n".join(text for text in texts if text)[: limits.MESSAGE_CHARS],
        speaker=message.sender_name or message.sender_id,
        at=message.timestamp,
    )
    metadata: dict[str, str | int | float | bool | None] = {"sender_id": message.sender_id}
    if message.tool_call_id:
        metadata["tool_call_id"] = message.tool_call_id
    files = tuple(part for part in parts if isinstance(part, MessageFile))
    return ParsedMessage(UpstreamMessage(text_message, metadata=metadata), files, tuple(parts))


async def _item_file(item: ContentItem, reach: _ReachableFiles, *, field: str) -> MessageFile:
    if item.upload_id is not None:
        upload = reach.uploads.get(item.upload_id)
        if upload is None:
            raise InvalidInput(field=f"{field}.upload_id", problem="does not name a file of the request")
        return MessageFile(item, upload.data, upload.mime, upload.name)
    if item.base64 is not None:
        # Measured before it is decoded: four characters are three bytes.
        if len(item.base64) > gateway_limits.RESOURCE_BYTES * 4 // 3 + 4:
            raise PayloadTooLarge(limit=gateway_limits.RESOURCE_BYTES, what=f"{field}.base64", way_out="split the file")
        try:
            return MessageFile(item, base64.b64decode(item.base64, validate=True))
        except (binascii.Error, ValueError):
            raise InvalidInput(field=f"{field}.base64", problem="is not base64") from None
    assert item.uri is not None
    if not item.uri.lower().startswith("file:"):
        return MessageFile(item, b"")
    if not reach.allowed.folders:
        problem = "is a file: address, but this server reads no shared folder"
        raise InvalidInput(field=f"{field}.uri", problem=problem)
    source = await read_source(item.uri, reach.allowed, max_bytes=reach.remaining_bytes)
    reach.remaining_bytes -= len(source.data)
    return MessageFile(item, source.data, name=source.file_name[: limits.NAME_CHARS])


async def _text_of(file: MessageFile, extraction: FileExtraction) -> str:
    """Return the text that represents a file: its text if readable, otherwise a note that it was there."""
    file_note = _file_name(file)
    name = file.item.name or file.name
    if file.item.type not in _READABLE or not file.data:
        return file_note
    try:
        kind = media_type(file.data, name=name or f"file.{file.item.ext or ''}", declared=file.mime)
        chunks = await extraction.chunks(file.data, kind)
    except (UnreadableUpload, UnsupportedMedia):
        return file_note
    return "\n".join((file_note, *(chunk.text for chunk in chunks)))


def _file_name(file: MessageFile) -> str:
    name = file.item.name or file.name or file.item.uri or ""
    return f"[{file.item.type}: {name}]" if name else f"[{file.item.type}]"
