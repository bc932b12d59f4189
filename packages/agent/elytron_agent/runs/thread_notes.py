"""Notes stored next to the runs of a thread, and how a thread's documents are read and written."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from elytron.runtime_records import RecordDraft, RuntimeRecords
from elytron_core import strict_json
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, NotFound, PreconditionFailed
from elytron_core.model import Value
from elytron_core.planes.records import Record, copies_of_turn
from elytron_core.policy.admission.own_output import of_others
from elytron_turn.context import WindowReaction

REACTED_RUNS: Final = 256
"""Maximum number of a thread's runs whose reactions are looked up for a request."""


_ELSEWHERE: Final = "@@"
"""Separator before the thread's name in the id of a run from another thread."""
AGENTS = "elytron:agent"
WELCOMED: Final = "welcome"
"""Key of the greeting, which also takes the place of a run in its item ids."""
REACTED: Final = "reacted"
MARK: Final = "mark."
"""Prefix of the keys of notes about a run. They are not part of the run, and are erased with it."""
ITEM_MARK: Final = f"{MARK}item."
MOVED_ON: Final = "the thread, which another process has continued,"
_LABEL = "a document of an agent's run"
ValueT = TypeVar("ValueT", bound=Value)


class ThreadWelcome(Value):
    """The greeting as it was shown to the person."""

    texts: tuple[str, ...]
    at: Instant


class ReactedRuns(Value):
    """Runs with a reaction of the person, the latest last. This index has no content; it avoids reading other runs."""

    runs: tuple[str, ...] = ()


class ThreadNotes:
    """Notes of an agent's threads in addition to the runs: the greeting, and which runs have a reaction."""

    def __init__(self, records: RuntimeRecords, /, *, agent: str) -> None:
        self._records = records
        self._agent = agent

    async def welcome(self, thread: str, /) -> ThreadWelcome | None:
        """Return the greeting, or None if there is none."""
        stored_welcome = await self._read((AGENTS, self._agent, thread), WELCOMED, ThreadWelcome)
        return stored_welcome[0] if stored_welcome is not None else None

    async def put_welcome(self, thread: str, texts: tuple[str, ...], /, *, at: Instant) -> ThreadWelcome:
        """Store the greeting if there is none yet, and return the stored one."""
        welcome = ThreadWelcome(texts=texts, at=at)
        try:
            await self._put((AGENTS, self._agent, thread), WELCOMED, welcome)
        except Conflict:
            return await self.welcome(thread) or welcome
        return welcome

    async def drop_welcome(self, thread: str, /) -> None:
        """Erase the greeting and its notes."""
        notes = [record async for record in self._records.below(copies_of_turn(WELCOMED, self._agent))]
        stored_welcome = await self._records.get((AGENTS, self._agent, thread), WELCOMED)
        await self._records.erase([*notes, *([stored_welcome] if stored_welcome is not None else [])])

    async def reactions(self, runs: Iterable[str], /) -> dict[str, tuple[WindowReaction, ...]]:
        """Return the person's reactions to messages of `runs`, with an empty tuple for withdrawn ones."""
        return {run: _reactions_in(await self.documents(run)) for run in runs}

    async def note_reacted(self, thread: str, run: str, /) -> None:
        """Record that a run may have a reaction."""
        while True:
            stored_notes = await self._read((AGENTS, self._agent, thread), REACTED, ReactedRuns)
            reacted_runs, version = (stored_notes[0].runs, stored_notes[1]) if stored_notes is not None else ((), 0)
            if run in reacted_runs:
                return
            new_notes = ReactedRuns(runs=(*reacted_runs, run)[-REACTED_RUNS:])
            with suppress(Conflict):
                await self._put((AGENTS, self._agent, thread), REACTED, new_notes, expected=version)
                return

    async def documents(self, run: str, /) -> Sequence[Record]:
        """Return the documents of a run with its notes, by key."""
        name, thread = run_place(run)
        copy_records = [record async for record in self._records.below(copies_of_turn(name, thread or self._agent))]
        return sorted(copy_records, key=attrgetter("key"))

    async def _read(self, namespace: tuple[str, ...], key: str, kind: type[ValueT]) -> tuple[ValueT, int] | None:
        record = await self._records.get(namespace, key)
        return (kind.model_validate(record.value), record.version) if record is not None else None

    async def _put(self, namespace: tuple[str, ...], key: str, value: Value, *, expected: int | None = 0) -> int:
        """Store a document and return its version. Raises Conflict if its version is not the expected one."""
        (stored_record,) = await self._put_all([draft_of(namespace, key, value, expected)])
        return stored_record.version

    async def _put_all(self, drafts: Sequence[RecordDraft]) -> Sequence[Record]:
        """Store documents in one commit. Raises Conflict if the last one does not have the expected version."""
        try:
            return await self._records.put_all(drafts)
        except PreconditionFailed:
            # If the response to this process's own write was lost, all of them exist unchanged.
            records = [await self._records.get(draft.namespace, draft.key) for draft in drafts]
            stored_records = [stored_record for stored_record in records if stored_record is not None]
            bodies = [strict_json.canonical_bytes(draft.value) for draft in drafts]
            if [strict_json.canonical_bytes(stored_record.value) for stored_record in stored_records] == bodies:
                return stored_records
            last_record = records[-1]
            if last_record is None and len(drafts) == 1:
                raise NotFound(what="document of an agent", name=drafts[-1].key) from None
            expected, version = drafts[-1].expected_version, last_record.version if last_record is not None else 0
            raise Conflict(what=MOVED_ON, expected=expected or 0, found=version) from None


def _reactions_in(documents: Sequence[Record]) -> tuple[WindowReaction, ...]:
    """Return the person's reactions among a run's documents."""
    reactions_by_step: dict[int, dict[str, Any]] = {
        int(document.key.removeprefix(ITEM_MARK)): cast("dict[str, Any]", document.value).get("reaction") or {}
        for document in documents
        if document.key.startswith(ITEM_MARK)
    }
    return tuple(
        WindowReaction(step=step, emoji=reaction["emoji"])
        for step, reaction in sorted(reactions_by_step.items())
        if reaction.get("by") == "user"
    )


def draft_of(namespace: tuple[str, ...], key: str, value: Value, expected: int | None) -> RecordDraft:
    fields = of_others(value.model_dump(mode="json", exclude_none=True))
    return RecordDraft(namespace, key, fields, text=_LABEL, expected_version=expected)


def named_run(run: str, thread: str, /) -> str:
    """Return the id of a run of `thread` in the window of another thread, which branched from it."""
    return run if _ELSEWHERE in run else f"{run}{_ELSEWHERE}{thread}"


def run_place(run: str, /) -> tuple[str, str]:
    """Return a run's own id, and its thread if that is not the one whose window contains it, else ""."""
    name, _, thread = run.partition(_ELSEWHERE)
    return name, thread
