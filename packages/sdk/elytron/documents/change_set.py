"""Documents as the store takes them: a typed value, its place, its journal line."""

from collections.abc import Mapping

from elytron.documents.planes import FOLDED
from elytron_core.model import Value
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import DeleteChange, DocumentRef, EntryDraft, JournalAction, PutChange, RequireRevision


class ChangeSet:
    """The puts, deletes, requirements and entries of one batch; a document is put once, with its last value."""

    def __init__(self, record: SpaceRecord, /) -> None:
        self._record = record
        self._puts: dict[DocumentRef, PutChange] = {}
        self._entries: list[EntryDraft] = []
        self._folded: dict[DocumentRef, Value] = {}
        self._deletes: dict[DocumentRef, DeleteChange] = {}
        self._requires: dict[DocumentRef, RequireRevision] = {}

    def put(self, ref: DocumentRef, value: Value, /, *, expects: int, action: JournalAction | None) -> bytes:
        """Write `value` at `ref`, now at revision `expects`; with `action`, the journal says so. Return its bytes."""
        body = value.to_bytes()
        self._puts[ref] = PutChange(ref, body, expects)
        if isinstance(value, FOLDED):
            self._folded[ref] = value
        if action is not None:
            self._entries.append(EntryDraft(action, ref, self._record.digest(body)))
        return body

    def delete(self, ref: DocumentRef, /, *, expects: int) -> None:
        """Remove the document at `ref`, now at revision `expects`, with a journal entry."""
        self._deletes[ref] = DeleteChange(ref, expects)
        self._entries.append(EntryDraft(JournalAction.DELETE, ref))

    def require(self, ref: DocumentRef, /, *, revision: int) -> None:
        """Demand that `ref` is still at the revision by which the batch was judged; 0 if it was absent."""
        self._requires[ref] = RequireRevision(ref, revision)

    def join(self, other: "ChangeSet", /) -> None:
        """Take in the changes of another part of the same write; both touch other documents."""
        self._puts |= {put.ref: put for put in other.puts}
        self._deletes |= {delete.ref: delete for delete in other.deletes}
        self._requires |= {require.ref: require for require in other.requires}
        self._entries += other.entries
        self._folded |= other.folded

    @property
    def puts(self) -> tuple[PutChange, ...]:
        return tuple(self._puts.values())

    @property
    def deletes(self) -> tuple[DeleteChange, ...]:
        return tuple(self._deletes.values())

    @property
    def requires(self) -> tuple[RequireRevision, ...]:
        """Documents that must be unchanged since they were read; those that the batch changes have a revision."""
        changed = self._puts.keys() | self._deletes.keys()
        return tuple(require for ref, require in self._requires.items() if ref not in changed)

    @property
    def entries(self) -> tuple[EntryDraft, ...]:
        return tuple(self._entries)

    @property
    def folded(self) -> Mapping[DocumentRef, Value]:
        """The part of the batch for an index."""
        return self._folded

    def __bool__(self) -> bool:
        return bool(self._puts or self._deletes)
