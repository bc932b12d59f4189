"""Links from sealed tags to turns, for spaces under a secret: a filter by tags opens only the turns that have one.

The key of a link is the AES-SIV seal of a tag plus the id of a turn; it has no content. A list of each turn's seals is
stored as well, so its links are removed with it without a cipher. Links are a fold over the journal, which contains
every turn: they are complete through the sequence in the mark, and later commits are linked before a search. The key of
the seals is created with the mark and stored in it, sealed like every document of the space. Another secret leaves it
unchanged, a new data key replaces it, and no copy from before the sealing contains it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from elytron.context import OperationContext
from elytron.documents.stored_values import documents_at, value_at
from elytron.state.change_lines import retry_lost_races
from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.errors import Conflict, SealBroken, StoreCorrupt, StoreError
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import KEY, TAG_LINKS, LinkedTags, TagLinkMark
from elytron_core.planes.transcript import TURNS, Turn
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    JournalEntry,
    PutChange,
    RequireRevision,
    Store,
    scan_documents,
)
from elytron_core.tags import tag_forms

if TYPE_CHECKING:
    from elytron_store.sealed.cipher import TagCipher

MARK: Final = DocumentRef(TAG_LINKS, KEY)
_ENTRIES: Final = 500
"""Journal entries that are linked together."""
_CHANGES: Final = limits.BATCH_CHANGES - 2 * limits.TAGS - 8
"""Number of changes from which a batch takes no further turn."""
_SLACK: Final = 256
"""Maximum entries of other documents after the mark; every search rereads them."""
_EMPTY: Final = b"{}"


async def tagged_turns(ctx: OperationContext, space: SpaceId, tags: Iterable[str], /) -> Sequence[str] | None:
    """Return the turns with one of `tags`, in order; missing links are created first.

    None for a space without links: it is under no secret, the store takes none, or one is damaged. Raises SpaceLocked.
    """
    if not await ctx.secrets.store.is_sealed(space) or await ctx.spaces.find(space) is None:
        return None
    link_mark = await _current_mark(ctx, space)
    if link_mark is None:
        return None
    cipher = _cipher_of(link_mark)
    turns: set[str] = set()
    try:
        for tag in tag_forms(tags):
            prefix = f"{cipher.seal_key(tag)}."
            async for link in scan_documents(ctx.store, space, TAG_LINKS, prefix=prefix):
                turns.add(link.ref.key.removeprefix(prefix))
    except (StoreCorrupt, SealBroken):
        return None  # everything is read instead; a repair recreates links
    return sorted(turns)


async def tag_links_of(store: Store, space: SpaceId, turns: Iterable[str], /) -> dict[DocumentRef, int]:
    """Return the references of the links of `turns`, and of their tag lists, with their revisions."""
    if not await store.scan(space, TAG_LINKS, limit=1):
        return {}
    tag_lists = await documents_at(store, space, [DocumentRef(TAG_LINKS, turn) for turn in turns])
    revisions = {ref: document.revision for ref, document in tag_lists.items()}
    for ref, document in tag_lists.items():
        revisions |= {_link_ref(seal, ref.key): 1 for seal in LinkedTags.from_bytes(document.body).seals}
    return revisions


async def _current_mark(ctx: OperationContext, space: SpaceId) -> TagLinkMark | None:
    """Return the mark once all turns are linked; None if they cannot be, as in a full store."""
    try:
        return await retry_lost_races(_follow_journal)(ctx, space)
    except (Conflict, SealBroken, StoreError):
        return None


async def _follow_journal(ctx: OperationContext, space: SpaceId) -> TagLinkMark:
    """Link the turns after the mark, and return the new mark. Raises Conflict."""
    stored_mark, revision = await value_at(ctx.store, space, MARK, TagLinkMark)
    link_mark = stored_mark or TagLinkMark(key=ctx.ids.secret(32).hex())
    cipher, read_through = _cipher_of(link_mark), link_mark.through
    while entries := await ctx.store.journal(space, after=read_through, limit=_ENTRIES):
        link_step = _LinkStep(cipher)
        await link_step.take(ctx.store, space, entries)
        read_through = link_step.through
        if link_step.has_turns or read_through - link_mark.through >= _SLACK:
            link_mark = link_mark.model_copy(update={"through": read_through})
            await ctx.store.commit(
                Batch(
                    space=space,
                    at=ctx.clock.now(),
                    entries=(EntryDraft(JournalAction.MAINTENANCE, MARK),),
                    puts=(PutChange(MARK, link_mark.to_bytes(), revision), *link_step.puts),
                    deletes=tuple(link_step.deletes),
                    requires=(RequireRevision(REF, 1), *link_step.requires),
                )
            )
            revision += 1
    return link_mark


@dataclass(slots=True)
class _LinkStep:
    """The changes to the links of some turns, which fit in a batch."""

    cipher: "TagCipher"
    puts: list[PutChange] = field(default_factory=list[PutChange])
    deletes: list[DeleteChange] = field(default_factory=list[DeleteChange])
    requires: list[RequireRevision] = field(default_factory=list[RequireRevision])
    through: int = 0
    has_turns: bool = False

    async def take(self, store: Store, space: SpaceId, entries: Sequence[JournalEntry]) -> None:
        """Add the turns that `entries` name, until the batch is full."""
        turns = dict.fromkeys(entry.ref.key for entry in entries if entry.ref.collection == TURNS)
        refs = [DocumentRef(collection, turn) for collection in (TURNS, TAG_LINKS) for turn in turns]
        documents = await documents_at(store, space, refs)
        for entry in entries:
            turn = entry.ref.key
            if entry.ref.collection == TURNS and turn in turns:
                if len(self.puts) + len(self.deletes) + len(self.requires) > _CHANGES:
                    return
                del turns[turn]
                self.has_turns = True
                self._change(turn, documents.get(entry.ref), documents.get(DocumentRef(TAG_LINKS, turn)))
            self.through = entry.sequence

    def _change(self, turn: str, document: Document | None, list_document: Document | None) -> None:
        """Add the changes that make a turn's links match its tags."""
        stored_seals = (
            frozenset(LinkedTags.from_bytes(list_document.body).seals)
            if list_document is not None
            else frozenset[str]()
        )
        tags = _tags_of(Turn.from_bytes(document.body)) if document is not None else ()
        current_seals = frozenset(map(self.cipher.seal_key, tags))
        if stored_seals == current_seals:
            return
        list_ref, revision = DocumentRef(TAG_LINKS, turn), list_document.revision if list_document is not None else 0
        # An erasure removes the list with the turn: neither may change meanwhile.
        self.requires.append(RequireRevision(DocumentRef(TURNS, turn), document.revision if document else 0))
        self.puts += [PutChange(_link_ref(seal, turn), _EMPTY, 0) for seal in sorted(current_seals - stored_seals)]
        self.deletes += [DeleteChange(_link_ref(seal, turn), 1) for seal in sorted(stored_seals - current_seals)]
        if current_seals:
            self.puts.append(PutChange(list_ref, LinkedTags(seals=tuple(sorted(current_seals))).to_bytes(), revision))
        else:
            self.deletes.append(DeleteChange(list_ref, revision))


def _tags_of(turn: Turn) -> tuple[str, ...]:
    """Return the tags under which a turn is found; none if none of its messages is."""
    return tag_forms(turn.tags) if any(map(turn.is_recallable, range(len(turn.messages)))) else ()


def _link_ref(seal: str, turn: str) -> DocumentRef:
    return DocumentRef(TAG_LINKS, f"{seal}.{turn}")


def _cipher_of(link_mark: TagLinkMark) -> "TagCipher":
    # Imported late: a process that meets no secret needs no cipher library.
    from elytron_store.sealed.cipher import TagCipher

    return TagCipher(bytes.fromhex(link_mark.key))
