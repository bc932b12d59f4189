"""The archive file of a space: a zip of JSON lines with a manifest that describes each member.

Members: `manifest.json`, `documents.jsonl` (one document per line: collection, key, body), `journal.jsonl` (one entry
per line), and `blobs/<key>` for attached bytes. A document's body is JSON if that reproduces the same bytes, else
`body_text`.
"""

import asyncio
import hashlib
import io
import json
import lzma
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, Self, cast

from pydantic import ValidationError

from elytron.context import OperationContext
from elytron.documents.planes import HOMES, is_expired, is_forgotten
from elytron.documents.stored_values import ChangeSet, documents_at
from elytron.intake import OwnOutput, scrub_value
from elytron.memories.tombstones import LEARNING, cited_texts, places_of, read_learning, topic_tag
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.archive import (
    ARCHIVE_FORMAT,
    ARCHIVE_VERSION,
    PLAIN_VERSION,
    ArchiveBlob,
    ArchiveManifest,
    ArchiveMember,
    ArchiveWord,
)
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded, StoreUnavailable, UnreadableFile
from elytron_core.ids import FactId, TurnId
from elytron_core.model import Value
from elytron_core.planes import facts as plane
from elytron_core.planes import facts as planes_facts
from elytron_core.planes import records, transcript
from elytron_core.planes.facts import Fact, FactTombstone, LearningRules
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import cited_turn
from elytron_core.policy.admission.learning_rules import is_allowed_since, join_rules
from elytron_core.ports.store import Document, DocumentRef, JournalAction, JournalEntry, require_ref
from elytron_core.scope import ConversationKey, Scope
from elytron_store.private_files import private_opener, sync_path

ARCHIVE_BYTES: Final = 8 * 1024 * 1024 * 1024


MANIFEST = "manifest.json"
DOCUMENTS = "documents.jsonl"
JOURNAL = "journal.jsonl"
BLOBS = "blobs/"
_ENCRYPTED = 0x1
"""Bit of a member's flags in a zip."""
# The earliest time that a zip supports: the time of writing is no part of an archive.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SPOOL_BYTES = 1024 * 1024


@dataclass(slots=True)
class _MemberWriter:
    """A member being written: its lines are spooled, because a zip takes one member at a time."""

    name: str
    spool: IO[bytes]
    lines: int = 0

    def add(self, line: bytes) -> None:
        self.spool.write(line + b"\n")
        self.lines += 1


class ArchiveBlobWriter:
    """A blob being written: all blobs share one spool, since a zip takes one member at a time."""

    def __init__(self, key: str, spool: IO[bytes], /) -> None:
        self._key = key
        self._spool = spool
        self._digest = hashlib.sha256()
        self._size = 0

    def add(self, chunk: bytes, /) -> None:
        """Add bytes. Raises LimitExceeded if no archive could contain them."""
        self._spool.write(chunk)
        self._digest.update(chunk)
        self._size += len(chunk)
        if self._spool.tell() > ARCHIVE_BYTES:
            raise LimitExceeded(what="bytes of files in an archive", limit=ARCHIVE_BYTES)

    def entry(self) -> ArchiveBlob:
        """Return its entry in the manifest."""
        return ArchiveBlob(key=self._key, size=self._size, sha256=self._digest.hexdigest())


class ArchiveWriter:
    """Writes an archive next to its path and moves it into place, atomically and durably, when `finish` is called.

    Raises InvalidInput if something is at the path, before and after the work, unless `overwrite` is true.
    """

    def __init__(self, path: Path, /, *, overwrite: bool = False) -> None:
        self._path = path
        self._overwrite = overwrite
        self._require_free()
        try:
            file_descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise StoreUnavailable(f"cannot write {path.name!r} into its folder: {error.strerror}") from error
        os.close(file_descriptor)
        self._partial = Path(name)
        self._documents = _MemberWriter(DOCUMENTS, tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(path.parent)))  # noqa: SIM115
        self._journal = _MemberWriter(JOURNAL, tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(path.parent)))  # noqa: SIM115
        self._bytes: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(path.parent))  # noqa: SIM115
        self._blobs: list[ArchiveBlobWriter] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._documents.spool.close()
        self._journal.spool.close()
        self._bytes.close()
        self._partial.unlink(missing_ok=True)

    def document(self, document: Document, /) -> None:
        """Add a document."""
        line: dict[str, Any] = {"collection": document.ref.collection, "key": document.ref.key}
        text = document.body.decode("utf-8")
        parsed_json = json.loads(text)
        # Parsed only if that gives the same bytes again, since the journal's digest is of the bytes.
        line |= {"body": parsed_json} if _dump_line(parsed_json) == document.body else {"body_text": text}
        self._documents.add(_dump_line(line))

    def entry(self, entry: JournalEntry, /) -> None:
        """Add a journal entry; they come in order."""
        line = {
            "sequence": entry.sequence,
            "at": entry.at,
            "action": entry.action.value,
            "collection": entry.ref.collection,
            "key": entry.ref.key,
            "digest": entry.digest,
        } | ({"covers": entry.covers} if entry.covers > 1 else {})
        self._journal.add(_dump_line(line))

    def blob(self, key: str, /) -> ArchiveBlobWriter:
        """Begin the blob of the document `key`; it is complete when the next one begins."""
        self._blobs.append(ArchiveBlobWriter(key, self._bytes))
        return self._blobs[-1]

    def finish(
        self,
        *,
        space: str,
        sequence: int,
        state_fingerprint: str,
        event_fingerprint: str,
        include_private: bool = True,
    ) -> int:
        """Move the archive into place; return its size in bytes."""
        manifest = ArchiveManifest(
            version=ARCHIVE_VERSION if self._blobs else PLAIN_VERSION,
            space=space,
            sequence=sequence,
            members=(),
            state_fingerprint=state_fingerprint,
            event_fingerprint=event_fingerprint,
            blobs=tuple(blob.entry() for blob in self._blobs),
            include_private=include_private,
        )
        try:
            self._pack(manifest)
            archive_bytes = self._partial.stat().st_size
            self._require_free()
            self._partial.replace(self._path)
            sync_path(self._path.parent)
        except OSError as error:
            raise StoreUnavailable(f"cannot write {self._path.name!r}: {error.strerror}") from error
        return archive_bytes

    def _require_free(self) -> None:
        if not self._overwrite and os.path.lexists(self._path):
            problem = f"names {self._path.name!r}, which already exists: name a new file, or confirm its replacement"
            raise InvalidInput(field="path", problem=problem)

    def _pack(self, base_manifest: ArchiveManifest) -> None:
        members: list[ArchiveMember] = []
        with open(self._partial, "wb", opener=private_opener) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for member in (self._documents, self._journal):
                    member.spool.seek(0)
                    digest = hashlib.sha256()
                    # The size is unknown until the spool is read, so the header reserves room for a long one.
                    with archive.open(zipfile.ZipInfo(member.name, _EPOCH), "w", force_zip64=True) as member_file:
                        while chunk := member.spool.read(limits.BLOB_CHUNK_BYTES):
                            digest.update(chunk)
                            member_file.write(chunk)
                    members.append(ArchiveMember(name=member.name, lines=member.lines, sha256=digest.hexdigest()))
                self._bytes.seek(0)
                for blob in base_manifest.blobs:
                    self._pack_blob(archive, blob)
                manifest = base_manifest.model_copy(update={"members": tuple(members)})
                excluded_fields = None if base_manifest.blobs else {"blobs"}
                manifest_json = manifest.model_dump_json(indent=1, exclude=excluded_fields)
                archive.writestr(zipfile.ZipInfo(MANIFEST, _EPOCH), manifest_json)
            file.flush()
            os.fsync(file.fileno())

    def _pack_blob(self, archive: zipfile.ZipFile, blob: ArchiveBlob) -> None:
        remaining_bytes = blob.size
        with archive.open(zipfile.ZipInfo(BLOBS + blob.key, _EPOCH), "w", force_zip64=True) as blob_file:
            while remaining_bytes:
                chunk = self._bytes.read(min(remaining_bytes, limits.BLOB_CHUNK_BYTES))
                blob_file.write(chunk)
                remaining_bytes -= len(chunk)


class ArchiveReader:
    """Reads an archive whose members were all checked against the manifest first.

    Raises UnreadableFile for anything that is no archive, is cut, altered or larger than `ARCHIVE_BYTES`.
    """

    def __init__(self, path: Path, /) -> None:
        self._name = path.name
        # Opened here: a partly read member would keep a file of the zip's own open.
        self._file = _open_archive(path)
        try:
            self._zip = self._unpacked()
            self.manifest = self._check()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()
        self._file.close()

    def documents(self) -> Iterator[Document]:
        """Yield the documents, in the order of collections and keys, each at the revision it will have: 1."""
        for line_number, line in self._lines(DOCUMENTS):
            try:
                yield _parse_document(line)
            except (KeyError, TypeError, ValueError, AttributeError, ElytronError):
                raise self._bad(f"has an invalid document in {DOCUMENTS}", line_number) from None

    def entries(self) -> Iterator[JournalEntry]:
        """Yield the journal entries in their order."""
        sequence = 0
        for line_number, line in self._lines(JOURNAL):
            try:
                entry = _parse_entry(line)
            except (KeyError, TypeError, ValueError, ElytronError):
                raise self._bad(f"has an invalid journal entry in {JOURNAL}", line_number) from None
            if entry.covers < 1 or entry.first != sequence + 1:
                raise self._bad(f"skips a sequence in {JOURNAL}", line_number)
            sequence = entry.sequence
            yield entry

    def blob(self, key: str, /) -> Iterator[bytes]:
        """Yield the bytes of the blob of the document `key`."""
        with self._zip.open(BLOBS + key) as blob_file:
            while chunk := blob_file.read(limits.BLOB_CHUNK_BYTES):
                yield chunk

    def count(self, member: str, /) -> int:
        """Return the number of lines of a member."""
        return next(entry.lines for entry in self.manifest.members if entry.name == member)

    def _unpacked(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self._file)
        except OSError as error:
            raise self._bad(f"cannot be read: {error.strerror}") from None
        except (zipfile.BadZipFile, RuntimeError):  # a zip may need features that this reader lacks
            raise self._bad("is not an elytron archive, or is truncated") from None

    def _check(self) -> ArchiveManifest:
        member_names = sorted(self._zip.namelist())
        if any(member_info.flag_bits & _ENCRYPTED for member_info in self._zip.infolist()):
            raise self._bad("has an encrypted member, which elytron archives never have")
        if [name for name in member_names if not name.startswith(BLOBS)] != sorted((MANIFEST, DOCUMENTS, JOURNAL)):
            raise self._bad("is not an elytron archive: it has other members")
        # Before anything is unpacked: a small file may claim any size.
        if sum(member_info.file_size for member_info in self._zip.infolist()) > ARCHIVE_BYTES:
            raise self._bad(f"unpacks to more than {ARCHIVE_BYTES} bytes")
        try:
            manifest = ArchiveManifest.model_validate_json(self._zip.read(MANIFEST))
            if manifest.format != ARCHIVE_FORMAT:
                raise self._bad("is not an elytron archive")
            if manifest.version > ARCHIVE_VERSION:
                raise self._bad(f"is an archive of version {manifest.version}: upgrade elytron")
            if sorted(member.name for member in manifest.members) != sorted((DOCUMENTS, JOURNAL)):
                raise self._bad("has a manifest that does not list its members")
            if member_names != sorted((MANIFEST, DOCUMENTS, JOURNAL, *(BLOBS + blob.key for blob in manifest.blobs))):
                raise self._bad("has a manifest that does not list its files")
            for member in manifest.members:
                self._check_member(member)
            for blob in manifest.blobs:
                self._check_blob(blob)
        except (ValidationError, zipfile.BadZipFile, OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError):
            raise self._bad("is damaged: a member cannot be read") from None
        return manifest

    def _check_member(self, member: ArchiveMember) -> None:
        digest = hashlib.sha256()
        line_count = 0
        with self._zip.open(member.name) as member_file:
            while chunk := member_file.read(limits.BLOB_CHUNK_BYTES):
                digest.update(chunk)
                line_count += chunk.count(b"\n")
        if digest.hexdigest() != member.sha256 or line_count != member.lines:
            raise self._bad(f"is damaged: {member.name} does not match the manifest")

    def _check_blob(self, blob: ArchiveBlob) -> None:
        digest = hashlib.sha256()
        byte_count = 0
        for chunk in self.blob(blob.key):
            digest.update(chunk)
            byte_count += len(chunk)
        if (digest.hexdigest(), byte_count) != (blob.sha256, blob.size):
            raise self._bad("is damaged: a file in it does not match the manifest")

    def _lines(self, member: str) -> Iterator[tuple[int, dict[str, Any]]]:
        # A zip member's lines are read many times faster through a buffer.
        with io.BufferedReader(cast("io.BufferedIOBase", self._zip.open(member))) as member_file:
            for line_number, line in enumerate(member_file, start=1):
                try:
                    parsed_json = json.loads(line)
                except (ValueError, RecursionError):
                    raise self._bad(f"has a line that is not JSON in {member}", line_number) from None
                if not isinstance(parsed_json, dict):
                    raise self._bad(f"has a line that is not an object in {member}", line_number)
                yield line_number, parsed_json

    def _bad(self, problem: str, line: int | None = None) -> UnreadableFile:
        return UnreadableFile(name=self._name, problem=problem, line=line)


def _open_archive(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from None


def _parse_document(line: dict[str, Any]) -> Document:
    if line.keys() - {"collection", "key", "body", "body_text"}:
        raise ValueError
    ref = DocumentRef(str(line["collection"]), str(line["key"]))
    require_ref(ref)
    body_bytes = str(line["body_text"]).encode() if "body_text" in line else _dump_line(line["body"])
    return Document(ref, 1, body_bytes)


def _parse_entry(line: dict[str, Any]) -> JournalEntry:
    if line.keys() - {"covers"} != {"sequence", "at", "action", "collection", "key", "digest"}:
        raise ValueError
    ref = DocumentRef(str(line["collection"]), str(line["key"]))
    require_ref(ref)
    at = Instant(int(line["at"]))
    covers = int(line.get("covers", 1))
    return JournalEntry(int(line["sequence"]), at, JournalAction(line["action"]), ref, str(line["digest"]), covers)


def _dump_line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


AT_ONCE = 64
"""Documents imported in one batch."""


class BroughtCount(NamedTuple):
    """Number of stored documents, and of existing ones."""

    stored: int = 0
    skipped: int = 0


async def bring_documents(
    ctx: OperationContext, scope: Scope, collection: str, documents: Iterable[Document], /
) -> BroughtCount:
    """Store each readable one of `documents`, all of `collection`, whose name is free here."""
    brought_total = BroughtCount()
    for values in _document_parts(collection, documents):
        brought_count = await _bring_part(ctx, scope, collection, values)
        brought_total = BroughtCount(
            brought_total.stored + brought_count.stored, brought_total.skipped + brought_count.skipped
        )
    return brought_total


def _document_parts(collection: str, documents: Iterable[Document]) -> Iterator[tuple[Value, ...]]:
    kind = HOMES[collection].kind
    # An archive may be older than a scrubbing rule, or from elsewhere.
    scrubbed_values = (scrub_value(kind.from_bytes(one.body), own=OwnOutput.STRIP)[0] for one in documents)
    while part := tuple(islice(scrubbed_values, AT_ONCE)):
        yield part


def _is_alive(value: Value, now: Instant) -> bool:
    return not is_forgotten(value) and not is_expired(value, now)


async def _bring_part(ctx: OperationContext, scope: Scope, collection: str, values: tuple[Value, ...]) -> BroughtCount:
    plane_home = HOMES[collection]
    assert plane_home.key is not None
    key_of = plane_home.key

    async def plan(space: SpaceRecord) -> SettledChanges[BroughtCount]:
        now, changes, stored_count = ctx.clock.now(), ChangeSet(space), 0
        value_by_ref = {DocumentRef(collection, key_of(space, one)): one for one in values}
        stored_documents = await ctx.store.get(scope.space, list(value_by_ref))
        for (ref, value), document in zip(value_by_ref.items(), stored_documents, strict=True):
            stored_value = plane_home.kind.from_bytes(document.body) if document is not None else None
            is_reserved = isinstance(value, records.Record) and records.is_reserved(value.namespace)
            if is_reserved or not _is_alive(value, now) or (stored_value is not None and _is_alive(stored_value, now)):
                continue
            stored_count += 1
            new_value = plane_home.succeeding(value, stored_value) if stored_value is not None else value
            changes.put(
                ref, new_value, expects=document.revision if document is not None else 0, action=JournalAction.WRITE
            )
        return SettledChanges(BroughtCount(stored_count, len(values) - stored_count), changes)

    brought_count, _ = await settle_changes(ctx, scope.space, plan)
    return brought_count


FACTS_AT_ONCE = 64
"""Facts whose tombstones are imported in one batch."""
GUARDS = frozenset({plane.TOMBSTONES, plane.LEARNING})


class _ForgottenFact(NamedTuple):
    """A forgotten fact, its tombstone, and the texts that it cites."""

    fact: Fact
    stone: FactTombstone
    texts: Mapping[str, str]


class _ArchiveGuards(NamedTuple):
    """Guards of an archive."""

    rules: LearningRules
    forgotten_facts: Sequence[_ForgottenFact]


async def bring_guards(
    ctx: OperationContext,
    scope: Scope,
    reader: ArchiveReader,
    local_refs: Collection[DocumentRef],
    /,
    *,
    home_of: Callable[[ConversationKey], ConversationKey],
    word: ArchiveWord,
) -> dict[str, BroughtCount]:
    """Store the guards of an archive that this space lacks, except what was allowed here since.

    Tags of another space mean nothing here, so tombstones are recreated from the forgotten facts. Facts at
    `local_refs`, which were erased here, leave none. `home_of` maps the archive's conversations to those here.
    """
    guards = await asyncio.to_thread(_read_guards, reader, local_refs)
    counts = {plane.TOMBSTONES: BroughtCount(), plane.LEARNING: BroughtCount()}
    for start in range(0, len(guards.forgotten_facts), FACTS_AT_ONCE):
        batch = guards.forgotten_facts[start : start + FACTS_AT_ONCE]
        brought_count, _ = await settle_changes(ctx, scope.space, partial(_plan_tombstones, ctx, scope, batch, home_of))
        count_before = counts[plane.TOMBSTONES]
        counts[plane.TOMBSTONES] = BroughtCount(
            count_before.stored + brought_count.stored, count_before.skipped + brought_count.skipped
        )
    if guards.rules.rules:
        # An archive may be older than a scrubbing rule, or from elsewhere.
        scrubbed_rules, _ = scrub_value(guards.rules, own=OwnOutput.STRIP)
        claiming_caller = ctx.caller if word is ArchiveWord.CLAIMED else None
        counts[plane.LEARNING], _ = await settle_changes(
            ctx, scope.space, partial(_plan_rules, ctx, scope, scrubbed_rules, claiming_caller)
        )
    return counts


def _read_guards(reader: ArchiveReader, local_refs: Collection[DocumentRef]) -> _ArchiveGuards:
    """Return the guards of an archive, which is read again if a forgotten fact cites a turn."""
    rules, facts, tombstones = LearningRules(), dict[FactId, Fact](), dict[FactId, FactTombstone]()
    for document in reader.documents():
        match document.ref.collection:
            case planes_facts.FACTS if document.ref not in local_refs:
                fact = Fact.from_bytes(document.body)
                if not fact.is_believed:
                    facts[fact.id] = fact
            case plane.TOMBSTONES if document.ref not in local_refs:
                tombstone = FactTombstone.from_bytes(document.body)
                tombstones.setdefault(tombstone.fact, tombstone)
            case plane.LEARNING:
                rules = LearningRules.from_bytes(document.body)
            case _:
                pass
    facts_with_tombstones = [(facts[name], tombstone) for name, tombstone in tombstones.items() if name in facts]
    cited_places = {
        turn for fact, _ in facts_with_tombstones for name in fact.citations if (turn := cited_turn(name)) is not None
    }
    turn_ids = {turn for turn, _ in cited_places}
    turns: dict[TurnId, transcript.Turn] = {}
    for document in reader.documents() if turn_ids else ():
        if document.ref.collection == transcript.TURNS and document.ref.key in turn_ids:
            turns[TurnId(document.ref.key)] = transcript.Turn.from_bytes(document.body)
    forgotten_facts = [
        _ForgottenFact(fact, tombstone, cited_texts(turns, fact.citations)) for fact, tombstone in facts_with_tombstones
    ]
    return _ArchiveGuards(rules, forgotten_facts)


async def _plan_tombstones(
    ctx: OperationContext,
    scope: Scope,
    forgotten_facts: Sequence[_ForgottenFact],
    home_of: Callable[[ConversationKey], ConversationKey],
    record: SpaceRecord,
) -> SettledChanges[BroughtCount]:
    rules, revision = await read_learning(ctx, scope.space)
    tombstones: dict[DocumentRef, FactTombstone] = {}
    for fact, archived_tombstone, texts in forgotten_facts:
        home_key = home_of(fact.home) if fact.home is not None else None
        scrubbed_fact, _ = scrub_value(fact, own=OwnOutput.STRIP)
        tombstone = archived_tombstone.model_copy(update={"topic": topic_tag(record, scrubbed_fact.topic)})
        if not is_allowed_since(rules, scrubbed_fact.topic, archived_tombstone.at):
            tombstone_refs = places_of(record, scrubbed_fact, texts, home_key)
            tombstones |= dict.fromkeys(tombstone_refs, tombstone)
    stored_tombstones = await documents_at(ctx.store, scope.space, tombstones)
    changes = ChangeSet(record)
    for ref, tombstone in tombstones.items():
        if ref not in stored_tombstones:
            changes.put(ref, tombstone, expects=0, action=None)
    if changes:
        # As with every new tombstone: a write that was judged without these is judged again.
        changes.put(LEARNING, rules, expects=revision, action=JournalAction.OPERATOR)
    return SettledChanges(BroughtCount(len(tombstones) - len(stored_tombstones), len(stored_tombstones)), changes)


async def _plan_rules(
    ctx: OperationContext, scope: Scope, archive_rules: LearningRules, by: str | None, record: SpaceRecord
) -> SettledChanges[BroughtCount]:
    rules_before, revision = await read_learning(ctx, scope.space)
    rules = [rule.model_copy(update={"by": by}) if by is not None else rule for rule in archive_rules.rules]
    joined_rules = join_rules(rules_before, rules)
    changes = ChangeSet(record)
    if joined_rules != rules_before:
        changes.put(LEARNING, joined_rules, expects=revision, action=JournalAction.OPERATOR)
    added_count = len(joined_rules.rules) - len(rules_before.rules)
    return SettledChanges(BroughtCount(added_count, len(archive_rules.rules) - added_count), changes)
