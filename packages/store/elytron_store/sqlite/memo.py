"""What was read lately, as long as nobody has committed anything: asking that is much cheaper than reading again."""

from collections import OrderedDict
from collections.abc import Sequence

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, JournalEntry, Ref
from elytron_store.sqlite.driver import ERRORS, Raw

Looked = tuple[SpaceId, int, int]
"""A space, behind which sequence was looked, for how many entries."""


class Memo:
    """Answers of reads at one version of the file. `watch` is a connection that does nothing else and never waits.

    SQLite tells a connection by a number whether others have changed the file since: it reads shared memory, no disk,
    and so may be asked where no thread is to be waited for. Every other handle and process is seen that way.
    """

    def __init__(self, watch: Raw, /) -> None:
        self._watch = watch
        self._version = 0
        self._looks: OrderedDict[Looked, Sequence[JournalEntry]] = OrderedDict()
        self._documents: OrderedDict[tuple[SpaceId, Ref], Document] = OrderedDict()

    def version(self) -> int:
        """Return what stays the same until somebody commits; 0 where that cannot be told now."""
        try:
            version: int = self._watch.execute("PRAGMA data_version").fetchone()[0]
        except ERRORS:
            version = 0
        if version != self._version or not version:
            self.forget()
            self._version = version
        return version

    def looked(self, look: Looked, /) -> Sequence[JournalEntry] | None:
        """Return what a look at a journal showed at the version told last."""
        return self._looks.get(look)

    def documents(self, space: SpaceId, refs: Sequence[Ref], /) -> Sequence[Document] | None:
        """Return the documents at `refs` as they were at the version told last, if all of them are known."""
        found = [document for ref in refs if (document := self._documents.get((space, ref))) is not None]
        return found if len(found) == len(refs) else None

    def keep_look(self, version: int, look: Looked, entries: Sequence[JournalEntry], /) -> None:
        """Keep a look that was begun at `version`; long ones are not asked twice."""
        if version and version == self._version and len(entries) <= 1:
            self._looks[look] = entries
            if len(self._looks) > limits.STORE_MEMO_LOOKS:
                self._looks.popitem(last=False)

    def keep_documents(self, version: int, space: SpaceId, documents: Sequence[Document | None], /) -> None:
        """Keep the small ones of documents whose reading was begun at `version`."""
        if not version or version != self._version:
            return
        for document in documents:
            if document is not None and len(document.body) <= limits.STORE_MEMO_DOCUMENT_BYTES:
                self._documents[space, document.ref] = document
        while len(self._documents) > limits.STORE_MEMO_DOCUMENTS:
            self._documents.popitem(last=False)

    def forget(self) -> None:
        """Keep nothing."""
        self._looks.clear()
        self._documents.clear()

    def close(self) -> None:
        """Let go of the connection."""
        self.forget()
        self._watch.close()
