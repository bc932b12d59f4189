"""Items of frameworks in a conversation: each is stored whole beside its words, in order, and erased with them."""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar
from uuid import uuid4

from pydantic import JsonValue, ValidationError

from elytron.api import MemoryFace
from elytron.intake import json_text, scrub_json
from elytron.runtime_records import RecordDraft, RecordName, RuntimeRecords, records_of
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.contracts.transcript import (
    CanonicalTurnDelta,
    MemoryTranscriptCommitRequest,
    MemoryTranscriptReplayRequest,
    MemoryWriteRequest,
    RedactedTranscriptTurn,
    TranscriptReplayView,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.errors import LimitExceeded, NotFound, PreconditionFailed, TurnConflict
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import is_name
from elytron_core.planes.records import copies_of_turn
from elytron_core.planes.transcript import Message, OpaqueItem
from elytron_core.scope import Scope
from elytron_core.strict_json import sha256_digest

logger = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")
ITEM_BYTES: Final = limits.JSON_BYTES
"""Size of the largest item that is stored."""
CHANGE_ATTEMPTS: Final = 64
"""How often a change is planned again when another writer was faster."""
_BACKOFF_S: Final = 0.01
_BACKOFF_LIMIT_S: Final = 0.2
_PIECE_CHARS: Final = 48_000
"""Characters of one piece of an item that is larger than a turn can hold."""
_PIECES: Final = "elytron.pieces"
"""Kind of the item that says in how many pieces another one is stored."""


@dataclass(frozen=True, slots=True)
class ConversationItem:
    """A framework's item with what memory is told of it. Without `text` it is stored, and no recall finds it."""

    value: JsonValue
    kind: str
    role: EvidenceRole = EvidenceRole.USER
    text: str = ""
    host_id: str | None = None
    """The framework's own id, under which it is stored once."""
    at: Instant | None = None
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as it was read, with the turn that holds it."""

    value: Any
    turn_id: str
    recorded_at: Instant


@dataclass(frozen=True, slots=True)
class ItemTurn:
    """The turn of an item, and the records that are committed with it if the item is too large for a turn."""

    draft: TurnDraft
    pieces: tuple[RecordDraft, ...] = ()

    @property
    def piece_names(self) -> list[RecordName]:
        """Return the names of the records."""
        return [piece.name for piece in self.pieces]

    @property
    def delta(self) -> CanonicalTurnDelta:
        """Return the turn in the form that is committed together with records."""
        (message,) = self.draft.messages
        is_answer = message.role is EvidenceRole.ASSISTANT
        return CanonicalTurnDelta(
            turn_id=self.draft.host_id or uuid4().hex,
            input_messages=() if is_answer else (message,),
            assistant_message=message if is_answer else None,
            items=self.draft.items,
        )

    def pieces_of(self, turn_id: str | None, _message_ids: tuple[str, ...], /) -> tuple[RecordDraft, ...]:
        """Return the records, or none if the turn is not stored."""
        return self.pieces if turn_id is not None else ()


def host_name(text: str, /) -> str:
    """Return a framework's id as a name: itself where it is one, else its digest."""
    return text if is_name(text) else sha256_digest(text.encode("utf-8", "surrogatepass"))


async def settle_change(change: Callable[[], Awaitable[ResultT]], /) -> ResultT:
    """Return what a change of records gives, made again while other writers are faster.

    Raises PreconditionFailed after many times.
    """
    for attempt in range(1, CHANGE_ATTEMPTS):
        try:
            return await change()
        except PreconditionFailed:
            # Many writers of one head would otherwise all plan again after each commit.
            backoff_s = min(attempt * _BACKOFF_S, _BACKOFF_LIMIT_S)
            await asyncio.sleep(backoff_s * random.random())  # noqa: S311 - spreads writers, guards nothing
    return await change()


class ConversationItems:
    """The items of one conversation, which its scope names. `issuer` is the framework that they are of."""

    def __init__(self, memory: MemoryFace, scope: Scope, /, *, issuer: str) -> None:
        self._memory = memory
        self._scope = scope
        self._issuer = issuer

    async def append(self, items: Sequence[ConversationItem], /) -> None:
        """Store items after the existing ones: up to 1,000 in one commit, each large one in its own.

        An item whose host id is known is not stored again. Raises LimitExceeded for an item of more than 16 MiB, and
        Unsupported for one of more than 64 KiB on a server, before anything is stored.
        """
        turns = [self.item_turn(item) for item in items]
        records = records_of(self._memory, scope=self._scope) if any(turn.pieces for turn in turns) else None
        for is_large, group in groupby(turns, key=lambda turn: bool(turn.pieces)):
            if records is not None and is_large:
                for turn in group:
                    await self._write_large(records, turn)
            else:
                drafts = [turn.draft for turn in group]
                for start in range(0, len(drafts), limits.TURNS_PER_COMMIT):
                    await self._write(drafts[start : start + limits.TURNS_PER_COMMIT])

    def item_turn(self, item: ConversationItem, /) -> ItemTurn:
        """Return the turn that holds an item, with the records of what is too large for a turn."""
        message = Message(role=item.role, text=item.text, speaker=item.speaker, at=item.at)
        host_id = host_name(item.host_id) if item.host_id is not None else None
        body = clean_json(item.value)
        pieces: tuple[RecordDraft, ...] = ()
        try:
            opaque = OpaqueItem(kind=item.kind, issuer=self._issuer, body=body)
        except ValidationError:
            host_id = host_id or uuid4().hex
            texts = text_pieces(body)
            # With the digest, the turn of an item with other content is another turn.
            place = json_text({"pieces": len(texts), "digest": sha256_digest(body.encode())})
            opaque = OpaqueItem(kind=_PIECES, issuer=self._issuer, body=place)
            names = self._piece_names(host_id, len(texts))
            # Redacted as a whole: the end of one piece and the beginning of the next are no texts of their own.
            pieces = tuple([RecordDraft(*name, text, is_opaque=True) for name, text in zip(names, texts, strict=True)])
        return ItemTurn(TurnDraft(messages=(message,), host_id=host_id, items=(opaque,)), pieces)

    async def read(self) -> list[StoredItem]:
        """Return the items in order, without those that were erased."""
        return [item async for turn in self._turns() for item in await self._items_of(turn)]

    async def erase(self) -> int:
        """Erase the conversation's turns with all that rests on them; return how many there were."""
        turn_ids = [turn.id async for turn in self._turns()]
        for start in range(0, len(turn_ids), limits.WRITES_PER_REQUEST):
            ids = tuple(turn_ids[start : start + limits.WRITES_PER_REQUEST])
            await self._memory.operate(MemoryEraseRequest(scope=self._scope, ids=ids))
        return len(turn_ids)

    async def _write(self, drafts: Sequence[TurnDraft]) -> None:
        try:
            await self._memory.operate(
                MemoryWriteRequest(scope=self._scope, write=TranscriptWrite(turns=tuple(drafts)))
            )
        except TurnConflict:
            # One of them is stored with other content: it stays as it was, and the others are stored.
            if len(drafts) == 1:
                self._report_conflict()
                return
            for draft in drafts:
                await self._write((draft,))

    async def _write_large(self, records: RuntimeRecords, turn: ItemTurn) -> None:
        request = MemoryTranscriptCommitRequest(scope=self._scope, delta=turn.delta)
        try:
            await records.commit_turn(request, turn.piece_names, turn.pieces_of)
        except TurnConflict:
            self._report_conflict()

    def _report_conflict(self) -> None:
        logger.warning(
            "an item of %s was sent again with other content: the stored one was left unchanged", self._issuer
        )

    async def _turns(self) -> AsyncIterator[RedactedTranscriptTurn]:
        cursor: str | None = None
        while True:
            request = MemoryTranscriptReplayRequest(
                scope=self._scope, view=TranscriptReplayView.RAW_OWNER_ONLY, limit=limits.PAGE_MAX, cursor=cursor
            )
            page = await self._memory.operate(request)
            for turn in page.slice.turns:
                yield turn
            if not page.has_more:
                return
            cursor = page.next_cursor

    async def _items_of(self, turn: RedactedTranscriptTurn) -> list[StoredItem]:
        items: list[StoredItem] = []
        for item in turn.items:
            if item.issuer != self._issuer:
                continue
            body = item.body
            if item.kind == _PIECES:
                body = await self._read_pieces(turn.host_turn_id or "", json.loads(body))
            items.append(StoredItem(json.loads(body), turn.id, turn.recorded_at))
        return items

    async def _read_pieces(self, host_id: str, place: dict[str, Any] | int) -> str:
        # Builds that stored only the number of pieces did not separate channels.
        is_old = isinstance(place, int)
        names = self._piece_names(host_id, place if isinstance(place, int) else place["pieces"], is_old=is_old)
        records = await records_of(self._memory, scope=self._scope).get_all(names)
        missing = next((name for name, record in zip(names, records, strict=True) if record is None), None)
        if missing is not None:
            raise NotFound(what="piece of an item", name=missing[1])
        return "".join(str(record.value) for record in records if record is not None)

    def _piece_names(self, host_id: str, count: int, *, is_old: bool = False) -> list[RecordName]:
        # The store recognises these as copies of the turn, and erases them with it.
        channel, conversation = self._scope.conversation_key
        namespace = copies_of_turn(host_id, conversation, None if is_old else channel)
        return [(namespace, f"{self._issuer}:{place}") for place in range(count)]


def clean_json(value: JsonValue, /) -> str:
    """Return a value as JSON without credentials and blocks of recalled memory. It may be cut into pieces."""
    return scrub_json(json_text(value))


def text_pieces(text: str, /) -> list[str]:
    """Return a text in pieces of which a record holds each. Raises LimitExceeded for more than 16 MiB."""
    if (size := len(text.encode())) > ITEM_BYTES:
        raise LimitExceeded(what="bytes of an item", limit=ITEM_BYTES, found=size)
    return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]


def mended_text(text: str, /) -> str:
    """Return a text as memory can store it: U+FFFD replaces each half of a surrogate pair, as models may write it."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def joined_text(parts: Iterable[object], /) -> str:
    """Return the texts among `parts` on lines of their own, without blank ones."""
    return "\n".join(part for part in parts if isinstance(part, str) and part.strip())
