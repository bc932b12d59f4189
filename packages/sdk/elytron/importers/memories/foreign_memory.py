"""Another system's memory as evidence: ranked below users' words, under that system's id, never as a quotation."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from elytron.importers import message_shape
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord, SourceReader
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.ids import is_name
from elytron_core.model import invalid_input
from elytron_core.planes.transcript import Message, OpaqueItem, TurnSource
from elytron_core.policy.imported_messages import ENDED_AT
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, sha256_digest
from elytron_core.text import similarity

MEMORIES: Final = "memories"
"""The one conversation for a system's memories, so that each is recognised by its id in whichever file it is."""
_DETAILS: Final = 32
_DETAIL_CHARS: Final = 1_000
_ID_DIGITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignMemory:
    """A sentence that another system derived, or a note in it, with what the system recorded about it."""

    system: str
    id: str
    text: str
    owner: str | None = None
    """The user whose memory it is, in a multi-user store."""
    at: Instant | None = None
    ended_at: Instant | None = None
    """When it was deleted, expired or ceased to be true there. It is then imported as history."""
    tags: tuple[str, ...] = ()
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Scalars become metadata, prefixed with the system's name."""
    unknown: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Keys of the record that the published format does not define: stored next to the text, and counted."""
    authority: EvidenceAuthority = EvidenceAuthority.ARCHIVE_EVIDENCE


def memory_item(place: ReaderPlace, memory: ForeignMemory, /) -> ReadItem:
    """Return a memory as a message from its system, or an omission if it is blank. Raises InvalidInput."""
    place.unknown_keys += len(memory.unknown)
    if similarity.is_blank(memory.text):
        return LeftOut(OmissionReason.NO_WORDS)
    draft = _memory_draft(memory)
    return place.make_message(ConversationKey(memory.system, MEMORIES), draft, owner=memory.owner)


def _memory_draft(memory: ForeignMemory) -> TurnDraft:
    metadata: dict[str, str | int | float | bool | None] = {
        f"{memory.system}.{name}"[: limits.NAME_CHARS]: value if not isinstance(value, str) else value[:_DETAIL_CHARS]
        for name, value in list(memory.details.items())[:_DETAILS]
        if isinstance(value, str | int | float | bool) and value != "" and is_name(f"{memory.system}.{name}")
    }
    if memory.ended_at is not None:
        metadata[ENDED_AT] = memory.ended_at
    try:
        message = Message(
            role=EvidenceRole.ASSISTANT,
            text=memory.text,
            speaker=memory.system,
            at=memory.at,
            authority=memory.authority,
        )
        return TurnDraft(
            messages=(message,),
            host_id=host_name(memory.system, memory.id),
            tags=tuple(dict.fromkeys(filter(is_name, memory.tags)))[: limits.TAGS],
            metadata=metadata,
            source=TurnSource(provider=memory.system),
            items=_unknown_items(memory),
        )
    except ValidationError as error:
        raise invalid_input(error) from None


def host_name(system: str, own_id: str, /) -> str:
    """Return the name that identifies a record: its system and id, or the id's digest if it is not a valid name."""
    name = f"{system}:{own_id}"
    return name if is_name(name) else f"{system}:{sha256_digest(own_id.encode('utf-8', 'replace'))[:_ID_DIGITS]}"


def _unknown_items(memory: ForeignMemory) -> tuple[OpaqueItem, ...]:
    if not memory.unknown:
        return ()
    body = json.dumps(dict(memory.unknown), ensure_ascii=False, sort_keys=True)
    if len(body.encode("utf-8", "replace")) > limits.OPAQUE_ITEM_BYTES:
        return ()
    return (OpaqueItem(kind="unknown_keys", issuer=memory.system, body=body),)


def own_text(record: Mapping[str, Json], names: Iterable[str], /) -> str:
    """Return the first non-blank string under `names`, or an empty string."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def own_id(record: Mapping[str, Json], text: str, /, *names: str) -> str:
    """Return a record's id. A record without an id is identified by a digest of its text."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str | int) and value != "" and not isinstance(value, bool):
            return str(value)
    return f"text-{sha256_digest(text.encode('utf-8', 'replace'))[:_ID_DIGITS]}"


def text_list(value: Json, /) -> tuple[str, ...]:
    """Return the strings in a list; any other value has none."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def unknown_keys(record: Mapping[str, Json], names: frozenset[str], /) -> dict[str, Json]:
    """Return a record's members whose keys are not in `names`, except nulls."""
    return {name: value for name, value in record.items() if name not in names and value is not None}


def each_record(
    records: Iterable[Json],
    what: str,
    place: ReaderPlace,
    read: SourceReader[dict[str, Json]],
    home: ConversationKey,
    /,
) -> Iterator[ReadItem]:
    """Yield what `read` returns for each record. A bad record is skipped and does not stop the others."""
    total = len(records) if isinstance(records, list) else None
    for number, record in enumerate(records, start=1):
        place.now(f"{what} {number}", (number - 1) / total if total else 0)
        yield from attempt_record(place, read, record, home)


def attempt_record(
    place: ReaderPlace, read: SourceReader[dict[str, Json]], record: Json, home: ConversationKey, /
) -> Iterator[ReadItem]:
    """Yield what `read` returns for one record, or a note that it is unreadable."""

    def read_all() -> list[ReadItem]:
        return list(read(message_shape.object_members(record, what="record"), home, place))

    items = place.attempt(read_all)
    yield from [items] if isinstance(items, SkippedRecord) else items


def record_list(document: Json, /, *names: str) -> list[Json]:
    """Return a document's records: the document itself, or the list under the first of `names`. Raises InvalidInput."""
    if isinstance(document, list):
        return document
    members = message_shape.object_members(document, what="export")
    for name in names:
        value = members.get(name)
        if isinstance(value, list):
            return value
    raise InvalidInput(field="export", problem=f"has none of the lists {', '.join(names)}")
