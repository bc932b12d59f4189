"""The store of curated entries: records of the space, and files too if they are asked for."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Final

from pydantic import Field

from elytron.api import MemoryFace
from elytron_agent import learning_rules, limits
from elytron_agent.strategies.entries import Action, Entries, Operation, Refusal, Target, applied, written
from elytron_agent.strategies.entry_files import EntryFiles, FileText, entries_of, is_edited_by_hand
from elytron_core.errors import ElytronError, NotFound, PreconditionFailed, StoreBusy
from elytron_core.model import Value
from elytron_core.policy.admission.own_output import strip_own_output
from elytron_core.policy.privacy.secrets import scrub

logger = logging.getLogger(__name__)

_NAMESPACE: Final = ("curated",)
_ENGINE: Final = "curated"


class _Stored(Value):
    """The record of a list. `calls` are the last calls of tools that changed it."""

    entries: Entries = ()
    calls: Annotated[tuple[str, ...], Field(max_length=limits.BLOCK_CALLS)] = ()


class _Version(Value):
    stored: _Stored = _Stored()
    version: int = 0


class EntryStore:
    """Entries by target. A change is applied to what is stored at that moment, as a whole or not at all.

    With `files`, the files count: entries that a person wrote into one in the same form are taken over.
    """

    def __init__(self, memory: MemoryFace, /, *, bounds: Mapping[Target, int], files: EntryFiles | None = None) -> None:
        self._memory = memory
        self._bounds = dict(bounds)
        self._files = files

    def limit_of(self, target: Target, /) -> int:
        """Return how many characters the entries may have, separators included."""
        return self._bounds[target]

    async def read(self, target: Target, /) -> Entries:
        """Return the entries as they are now."""
        if self._files is not None:
            found = await asyncio.to_thread(self._files.read, target)
            if found is not None:
                return entries_of(found)
        return (await self._version(target)).stored.entries

    async def change(self, target: Target, operations: Sequence[Operation], /, *, call: str) -> Entries | Refusal:
        """Store what the operations make of the entries. A `call` that changed them before changes nothing.

        Raises StoreBusy if others hold the file, or change the record, for too long.
        """
        own = [_own_words(operation) for operation in operations]
        if self._files is None:
            return await self._change_record(target, own, call)
        with ExitStack() as held:
            await _hold(held, self._files, target)
            return await self._change_file(self._files, target, own, call)

    async def _change_record(self, target: Target, operations: Sequence[Operation], call: str) -> Entries | Refusal:
        for _ in range(limits.CURATED_ATTEMPTS):
            known = await self._version(target)
            if call in known.stored.calls:
                return known.stored.entries
            made = await self._applied(target, known.stored.entries, operations)
            if isinstance(made, Refusal):
                return made
            try:
                return await self._put(target, known, made, call)
            except PreconditionFailed:
                continue
        raise StoreBusy(engine=_ENGINE, waited_s=0)

    async def _change_file(
        self, files: EntryFiles, target: Target, operations: Sequence[Operation], call: str
    ) -> Entries | Refusal:
        """Change the file, then the record: what a crash leaves between the two is taken over from the file."""
        limit = self.limit_of(target)
        known, found = await self._version(target), await asyncio.to_thread(files.read, target)
        entries = known.stored.entries if found is None else entries_of(found)
        if call in known.stored.calls:
            return entries
        by_hand = is_edited_by_hand(found, limit=limit)
        if by_hand and found is not None and not _only_adds(found, operations):
            name = await asyncio.to_thread(files.back_up, target, found.data)
            return Refusal(
                f"{target.file_name} was edited by hand and is no list of entries, so it is not written over. "
                f"A copy is in {name}. Only adding single entries is possible until a person brings it into order."
            )
        made = await self._applied(target, entries, operations)
        if isinstance(made, Refusal):
            return made
        if by_hand and found is not None and found.text is not None:
            if made != entries:
                await asyncio.to_thread(files.append, target, found.text, made[-1])
        elif made != entries or found is None:
            await asyncio.to_thread(files.write, target, made)
        try:
            return await self._put(target, known, made, call)
        except ElytronError as error:
            # The file is written, and counts: the next change takes it over.
            logger.warning("the record of %s is behind its file (%s)", target.file_name, type(error).__name__)
            return made

    async def _applied(self, target: Target, entries: Entries, operations: Sequence[Operation]) -> Entries | Refusal:
        made = applied(entries, operations, limit=self.limit_of(target))
        if isinstance(made, Refusal):
            return made
        refusal = await learning_rules.refusal_of(self._memory, written(entries), written(made))
        return made if refusal is None else Refusal(refusal)

    async def _version(self, target: Target) -> _Version:
        try:
            item = (await self._memory.get_record(_NAMESPACE, target.file_name)).record
        except NotFound:
            return _Version()
        return _Version(stored=_Stored.model_validate(item.value), version=item.version)

    async def _put(self, target: Target, known: _Version, entries: Entries, call: str) -> Entries:
        stored = _Stored(entries=entries, calls=(*known.stored.calls, call)[-limits.BLOCK_CALLS :])
        value: Any = stored.model_dump(mode="json")
        report = await self._memory.put_record(_NAMESPACE, target.file_name, value, expected_version=known.version)
        return _Stored.model_validate(report.record.value).entries


async def _hold(held: ExitStack, files: EntryFiles, target: Target) -> None:
    """Take the lock of a file. While others hold it, no thread waits: the one that holds it needs a thread too."""
    clock = asyncio.get_running_loop().time
    until = clock() + limits.CURATED_LOCK_S
    while True:
        try:
            # The lock is its file handle's, so that it may be taken in one thread and released in another.
            await asyncio.to_thread(held.enter_context, files.lock(target))
        except StoreBusy:
            if clock() >= until:
                raise
            await asyncio.sleep(limits.CURATED_PAUSE_S)
        else:
            return


def _only_adds(found: FileText, operations: Sequence[Operation]) -> bool:
    return found.text is not None and len(operations) == 1 and operations[0].action is Action.ADD


def _own_words(operation: Operation) -> Operation:
    """Return an operation whose content holds no credential and nothing that memory itself put out."""
    return operation.model_copy(update={"content": strip_own_output(scrub(operation.content).text).text})
