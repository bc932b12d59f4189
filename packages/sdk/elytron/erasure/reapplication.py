"""Erasures recorded in a space's journal, and their re-application to a restored older copy."""

import os
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple

from elytron.context import OperationContext
from elytron.documents.planes import PLANES, by_plane
from elytron.erasure.removal import erase_many, erase_space
from elytron.memories.lookup import Memory, MessageMemory, hit_of, stored_at
from elytron.state.space_records import REF
from elytron_core import strict_json
from elytron_core.clock import Instant
from elytron_core.contracts.archive import (
    ErasedMemory,
    ErasedSpace,
    ErasuresHead,
    ErasuresOutcome,
    MemoryErasuresApplyReport,
)
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.contracts.recall import RecallPlane
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound, StoreUnavailable, UnreadableFile
from elytron_core.ids import SYSTEM_SPACE, SpaceId, TurnId
from elytron_core.planes import facts, transcript
from elytron_core.planes.servers.gateway import KEYS, USERS, GatewayUser, KeyName
from elytron_core.planes.servers.system_documents import ACCESS_KEYS, AccessKey
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
    RequireRevision,
)
from elytron_core.scope import Scope
from elytron_core.strict_json import canonical_bytes

ERASURES_LINES: Final = 1_000_000
"""Spaces and erased memories that one file of erasures names."""
ERASURES_LINE_BYTES: Final = 4_096


_FILE_COLLECTIONS = frozenset({*PLANES, USERS, KEYS, ACCESS_KEYS})
"""The collections of a file: memories, and the keys and users of the system space."""


class ErasedItem(NamedTuple):
    """A whole document, or one message of a turn."""

    ref: DocumentRef
    part: int | None = None


@dataclass(slots=True)
class SpaceErasures:
    """Erasures in one space, each with the time of the last erased content."""

    space: SpaceId
    identity: str
    whole_at: Instant | None = None
    memories: dict[ErasedItem, Instant] = field(default_factory=dict[ErasedItem, Instant])

    def add(self, erased_item: ErasedItem, at: Instant, /) -> None:
        self.memories[erased_item] = max(at, self.memories.get(erased_item, at))

    def by_plane(self) -> dict[RecallPlane, int]:
        """Count documents, and messages of turns that were not erased as a whole."""
        counted_refs = (
            erased_item.ref
            for erased_item in self.memories
            if erased_item.part is None or ErasedItem(erased_item.ref) not in self.memories
        )
        return dict(Counter(PLANES[ref.collection] for ref in counted_refs if ref.collection in PLANES))


class FileErasures:
    """A file's erasures of each space: by its name, and by a tag of its secret, because another space may have the
    name."""

    def __init__(self) -> None:
        self._by_space: dict[tuple[SpaceId, str], SpaceErasures] = {}

    @property
    def spaces(self) -> tuple[SpaceErasures, ...]:
        return tuple(self._by_space.values())

    def of(self, space: SpaceId, identity: str, /) -> SpaceErasures:
        """Return a space's erasures, to which more can be added."""
        return self._by_space.setdefault((space, identity), SpaceErasures(space, identity))

    def find(self, space: SpaceId, identity: str, /) -> SpaceErasures | None:
        """Return the erasures of a space, or of the one that it was restored from under another name."""
        match = self._by_space.get((space, identity))
        return match or next((erasures for erasures in self._by_space.values() if erasures.identity == identity), None)


def read_erasures(path: Path, /) -> FileErasures:
    """Return the file's erasures. Raises UnreadableFile for another kind of file, a truncated one, or an invalid
    line."""
    try:
        with path.open("rb") as file:
            return _read_erasures(path.name, file)
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from error


def known_erasures(path: Path, /) -> FileErasures:
    """Return the file's erasures; empty if there is no file yet. Raises UnreadableFile."""
    # Checked with `os`, which also returns False for paths that may not be inspected.
    return read_erasures(path) if os.path.exists(path) else FileErasures()  # noqa: PTH110


def write_erasures(path: Path, erasures: FileErasures, /) -> None:
    """Write `erasures` atomically to a file that only its owner may read, replacing what was there."""
    lines = list(_erasure_lines(erasures))
    if len(lines) > ERASURES_LINES:
        raise LimitExceeded(what="lines in a file of erasures", limit=ERASURES_LINES, found=len(lines))
    temporary_path = ""
    try:
        file_descriptor, temporary_path = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(file_descriptor, "wb") as file:
            file.write(canonical_bytes(ErasuresHead(lines=len(lines))) + b"\n")
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary_path).replace(path)
    except (OSError, ValueError) as error:
        if temporary_path:
            Path(temporary_path).unlink(missing_ok=True)
        raise StoreUnavailable(f"cannot write {path.name!r}: name a file in your own folder") from error


def _erasure_lines(erasures: FileErasures) -> Iterator[bytes]:
    for space_erasures in erasures.spaces:
        yield (
            ErasedSpace(
                space=space_erasures.space, identity=space_erasures.identity, whole_at=space_erasures.whole_at
            ).to_bytes()
            + b"\n"
        )
        for ((collection, key), part), at in space_erasures.memories.items():
            yield ErasedMemory(collection=collection, key=key, part=part, at=at).to_bytes() + b"\n"


def _read_erasures(name: str, file: IO[bytes]) -> FileErasures:
    erasures = FileErasures()
    current_space: SpaceErasures | None = None
    line_index = -1
    expected_count = 0
    # One byte more than allowed reveals a longer line.
    while line_bytes := file.readline(ERASURES_LINE_BYTES + 1):
        line_index += 1
        if line_index > ERASURES_LINES or not line_bytes.endswith(b"\n"):
            raise UnreadableFile(name=name, problem="is not a file of erasures, or is truncated")
        try:
            fields = strict_json.parse_json(line_bytes, limit=ERASURES_LINE_BYTES)
            if line_index == 0:
                expected_count = ErasuresHead.model_validate(fields).lines
            elif isinstance(fields, dict) and "identity" in fields:
                line = ErasedSpace.model_validate(fields)
                current_space = erasures.of(line.space, line.identity)
                current_space.whole_at = line.whole_at
            else:
                _read_line(current_space, ErasedMemory.model_validate(fields))
        except (InvalidInput, ValueError):
            raise UnreadableFile(name=name, problem=f"has no valid erasure in line {line_index + 1}") from None
    # A file may be truncated just after a line.
    if line_index != expected_count:
        raise UnreadableFile(name=name, problem="is not a file of erasures, or is truncated")
    return erasures


def _read_line(space: SpaceErasures | None, line: ErasedMemory) -> None:
    if space is None or line.collection not in _FILE_COLLECTIONS:
        raise ValueError("a line that belongs to no space or plane")
    space.add(ErasedItem(DocumentRef(line.collection, line.key), line.part), line.at)


COLLECTIONS = frozenset({USERS, KEYS, ACCESS_KEYS})
"""Collections of keys and their users, in the system space."""


async def gather_ended(ctx: OperationContext, erasures: SpaceErasures, /) -> None:
    """Add the erased gateway users to `erasures`, and the keys that were erased, rotated or revoked."""
    stored_since: set[DocumentRef] = set()
    async for entry in store.scan_entries(ctx.store, SYSTEM_SPACE):
        if entry.ref.collection not in COLLECTIONS:
            continue
        if entry.ref.collection == KEYS and entry.action is JournalAction.DELETE:
            erasures.add(ErasedItem(entry.ref), entry.at)
        elif entry.digest:
            stored_since.add(entry.ref)
        elif entry.ref not in stored_since:
            erasures.add(ErasedItem(entry.ref), _moment_behind(entry.at))
    async for document in store.scan_documents(ctx.store, SYSTEM_SPACE, ACCESS_KEYS):
        key = AccessKey.from_bytes(document.body)
        ended_at = _moment_behind(key.revoked_at) if key.revoked_at is not None else key.rotated_at
        if ended_at is not None:
            erasures.add(ErasedItem(document.ref), ended_at)


async def end_again(ctx: OperationContext, record: SpaceRecord, erasures: SpaceErasures, /, *, dry_run: bool) -> bool:
    """End again what `erasures` names and the store holds; return whether there was anything. If killed, repeat it.

    An erased user goes with all spaces and access keys. A user whose key had ended is revoked, and needs a new key.
    """
    users = {
        document.ref: GatewayUser.from_bytes(document.body)
        async for document in store.scan_documents(ctx.store, SYSTEM_SPACE, USERS)
    }
    last_writes = await _last_writes(ctx)
    former_users = {ref: user for ref, user in users.items() if _is_ended(erasures, ref, last_writes.get(ref))}
    spaces = {space for user in former_users.values() for space in (*user.spaces, user.user_id)}
    name_by_document = {
        document: KeyName.from_bytes(document.body).user_id
        async for document in store.scan_documents(ctx.store, SYSTEM_SPACE, KEYS)
    }
    erased_names = {user.user_id for user in former_users.values()}
    ended_names = {
        document: name for document, name in name_by_document.items() if ErasedItem(document.ref) in erasures.memories
    }
    revoked_names = set(ended_names.values()) - erased_names
    refs = [*former_users, *(document.ref for document, name in name_by_document.items() if name in erased_names)]
    refs += [
        document.ref
        async for document in store.scan_documents(ctx.store, SYSTEM_SPACE, ACCESS_KEYS)
        if _has_ended(document, erasures, spaces)
    ]
    if dry_run or not (refs or revoked_names):
        return bool(refs or revoked_names)
    # The spaces first: while their user exists, the same call finds them again.
    for space in sorted(spaces):
        space_erasure = MemoryEraseRequest(whole_space=space)
        await erase_space(ctx, Scope(space=SpaceId(space)), space_erasure)
    if refs:
        await ctx.store.erase(ErasureTarget(space=SYSTEM_SPACE, at=ctx.clock.now(), refs=tuple(refs)))
    for document, name in ended_names.items():
        if name in revoked_names:
            await _revoke_key(ctx, record, document, name)
    return True


async def _revoke_key(ctx: OperationContext, record: SpaceRecord, key: Document, user_id: str) -> None:
    """Revoke a gateway user whose key, as this copy knows it, had ended."""
    (document,) = await ctx.store.get(SYSTEM_SPACE, (DocumentRef(USERS, record.tag("gateway user", user_id)),))
    if document is None:
        return
    now = ctx.clock.now()
    revocation = {"revoked_at": now, "salt": "", "key_tag": "", "is_computable": False}
    body = GatewayUser.from_bytes(document.body).model_copy(update=revocation).to_bytes()
    user_put = PutChange(document.ref, body, document.revision)
    entries = (
        EntryDraft(JournalAction.WRITE, document.ref, record.digest(body)),
        EntryDraft(JournalAction.DELETE, key.ref),
    )
    deletes = (DeleteChange(key.ref, key.revision),)
    requires = (RequireRevision(REF, 1),)
    batch = Batch(SYSTEM_SPACE, now, entries, (user_put,), deletes, requires, takes_back=True)
    await ctx.store.commit(batch)


async def _last_writes(ctx: OperationContext) -> dict[DocumentRef, Instant]:
    """Return when each user was last written."""
    return {
        entry.ref: entry.at
        async for entry in store.scan_entries(ctx.store, SYSTEM_SPACE)
        if entry.ref.collection == USERS
    }


def _is_ended(erasures: SpaceErasures, ref: DocumentRef, written_at: Instant | None) -> bool:
    ended_at = erasures.memories.get(ErasedItem(ref))
    return ended_at is not None and (written_at is None or written_at < ended_at)


def _has_ended(document: Document, erasures: SpaceErasures, spaces: Collection[str]) -> bool:
    key = AccessKey.from_bytes(document.body)
    is_open = key.revoked_at is None
    return key.space in spaces or (is_open and _is_ended(erasures, document.ref, key.rotated_at or key.created_at))


def _moment_behind(at: Instant) -> Instant:
    """Return the moment after `at`: what was created at `at` had ended by then."""
    return Instant(at + 1)


_CUTTING = frozenset({JournalAction.DELETE, JournalAction.LIFECYCLE})
_SAID_ONCE = frozenset({transcript.TURNS, facts.FACTS})
"""Their text never changes: closing or moving one writes no new text."""


async def gather_erasures(ctx: OperationContext, scope: Scope, file_erasures: FileErasures, /) -> SpaceErasures | None:
    """Add the erasures in the space's journal to `file_erasures`; None if nothing was ever written to it."""
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return None
    space_erasures = file_erasures.of(scope.space, _record_identity(record))
    if scope.space == SYSTEM_SPACE:
        await gather_ended(ctx, space_erasures)
        return space_erasures
    cut_times: dict[DocumentRef, Instant] = {}
    rewritten_refs: set[DocumentRef] = set()
    async for entry in store.scan_entries(ctx.store, scope.space):
        if entry.ref.collection not in PLANES:
            continue
        # An erasure removes the digests of all earlier entries of a document; an entry with one was written since.
        if entry.digest:
            rewritten_refs.add(entry.ref)
        elif entry.ref not in rewritten_refs:
            space_erasures.add(ErasedItem(entry.ref), entry.at)
        if entry.ref.collection == transcript.TURNS and entry.action in _CUTTING:
            cut_times[entry.ref] = entry.at
    for ref, memory in (await stored_at(ctx, scope, cut_times)).items():
        assert isinstance(memory, MessageMemory)
        for part in range(len(memory.turn.messages)):
            if _is_gone(memory.turn, part):
                space_erasures.add(ErasedItem(ref, part), cut_times[ref])
    return space_erasures


async def erase_again(
    ctx: OperationContext, scope: Scope, file_erasures: FileErasures, /, *, dry_run: bool
) -> MemoryErasuresApplyReport:
    """Erase in the space what `file_erasures` lists for it. If killed, repeating the call finishes the work."""
    record = await ctx.spaces.find(scope.space)
    space_erasures = file_erasures.find(scope.space, _record_identity(record)) if record is not None else None
    if record is None or space_erasures is None:
        return _apply_report(scope, ErasuresOutcome.NOTHING, {}, dry_run=dry_run)
    if scope.space == SYSTEM_SPACE:
        has_ended = await end_again(ctx, record, space_erasures, dry_run=dry_run)
        return _apply_report(
            scope, ErasuresOutcome.APPLIED if has_ended else ErasuresOutcome.NOTHING, {}, dry_run=dry_run
        )
    journal = _WriteJournal()
    async for entry in store.scan_entries(ctx.store, scope.space):
        journal.add(entry)
    if space_erasures.whole_at is not None:
        # A space that was written to since is a new one with the same name.
        if journal.last_at > space_erasures.whole_at:
            return _apply_report(scope, ErasuresOutcome.WRITTEN_SINCE, {}, dry_run=dry_run)
        erasure_report = await erase_space(ctx, scope, MemoryEraseRequest(whole_space=scope.space, dry_run=dry_run))
        return _apply_report(scope, ErasuresOutcome.APPLIED, by_plane(erasure_report.removed), dry_run=dry_run)
    memories = await stored_at(ctx, scope, dict.fromkeys(erased_item.ref for erased_item in space_erasures.memories))
    plane_by_id = dict(_returned_ids(space_erasures, memories, journal))
    if plane_by_id and not dry_run:
        await erase_many(ctx, scope, list(plane_by_id))
    outcome = ErasuresOutcome.APPLIED if plane_by_id else ErasuresOutcome.NOTHING
    return _apply_report(scope, outcome, dict(Counter(plane_by_id.values())), dry_run=dry_run)


class _WriteJournal:
    """When each memory was last written, whether part of it was cut since, and when bytes were last removed."""

    def __init__(self) -> None:
        self.written_at: dict[DocumentRef, Instant] = {}
        self.cut: dict[DocumentRef, int] = {}
        self.removed = 0
        self.last_at = Instant(0)

    def add(self, entry: JournalEntry, /) -> None:
        self.last_at = max(self.last_at, entry.at)
        if entry.covers > 1:
            return  # its documents are unknown, and whether bytes were removed
        if entry.action is JournalAction.ERASE:
            self.removed = entry.sequence
        elif entry.ref.collection not in PLANES:
            return
        elif entry.action in _CUTTING:
            self.cut[entry.ref] = entry.sequence
        elif entry.ref.collection in _SAID_ONCE:
            self.written_at.setdefault(entry.ref, entry.at)
        else:
            self.written_at[entry.ref] = entry.at


def _returned_ids(
    space_erasures: SpaceErasures, memories: Mapping[DocumentRef, Memory], journal: _WriteJournal
) -> Iterator[tuple[str, RecallPlane]]:
    """Yield the memories that exist again, or are emptied and still to be removed."""
    for (ref, part), at in space_erasures.memories.items():
        memory = memories.get(ref)
        if memory is None or journal.written_at.get(ref, at) > at:
            continue
        plane = PLANES[ref.collection]
        if not isinstance(memory, MessageMemory):
            yield hit_of(memory, at).id, plane
            continue
        message_numbers = range(len(memory.turn.messages)) if part is None else (part,)
        for message_number in message_numbers:
            is_present = message_number < len(memory.turn.messages) and not _is_gone(memory.turn, message_number)
            if is_present or journal.cut.get(ref, 0) > journal.removed:
                yield transcript.message_id(TurnId(ref.key), message_number), plane


def _is_gone(turn: transcript.Turn, part: int) -> bool:
    return part in turn.erased or turn.redaction is transcript.TextRedaction.RAW_DELETED


async def note_gone(ctx: OperationContext, scope: Scope, file_erasures: FileErasures, /) -> SpaceErasures:
    """Record in `file_erasures` that missing spaces of this name were erased as a whole. Raises NotFound."""
    record = await ctx.spaces.find(scope.space)
    space_identity = _record_identity(record) if record is not None else None
    former_spaces = [
        former_space
        for former_space in file_erasures.spaces
        if former_space.space == scope.space and former_space.identity != space_identity
    ]
    if not former_spaces:
        raise NotFound(what="space", name=scope.space, way_out="the file lists no erased space of this name")
    for former_space in former_spaces:
        former_space.whole_at = former_space.whole_at or ctx.clock.now()
    return former_spaces[-1]


def _record_identity(record: SpaceRecord) -> str:
    return record.tag("erasures")


def _apply_report(
    scope: Scope, outcome: ErasuresOutcome, erased_counts: dict[RecallPlane, int], *, dry_run: bool
) -> MemoryErasuresApplyReport:
    is_changed = outcome is ErasuresOutcome.APPLIED and not dry_run
    return MemoryErasuresApplyReport(
        space=scope.space, outcome=outcome, erased=erased_counts, changed=is_changed, dry_run=dry_run
    )


async def gather_all(ctx: OperationContext, erasures: FileErasures, /, *, erased_ids: Collection[SpaceId]) -> None:
    """Add to `erasures` what was erased in every space, and that those in `erased_ids` were erased as a whole."""
    for space in erased_ids:
        await note_gone(ctx, Scope(space=space), erasures)
    async for space in store.scan_spaces(ctx.store):
        await gather_erasures(ctx, Scope(space=space), erasures)


async def erase_all_again(
    ctx: OperationContext, file_erasures: FileErasures, /, *, dry_run: bool
) -> tuple[MemoryErasuresApplyReport, ...]:
    """Erase in every space what `file_erasures` lists for it; return the outcome of each."""
    spaces = [space async for space in store.scan_spaces(ctx.store)]
    return tuple([await erase_again(ctx, Scope(space=space), file_erasures, dry_run=dry_run) for space in spaces])
