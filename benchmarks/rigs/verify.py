"""Verify a reopened store against the book: everything acknowledged is present once, and nothing is partial."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import elytron
from benchmarks.rigs.book import Book, Fate, Item
from benchmarks.rigs.traffic import Verb, text_of, token_of, write
from elytron_core.ids import SpaceId

_SAMPLE = 8
"""Number of unverified writes that are repeated; each must return the same result as before."""
_PAGE = 1_000
_REPEATABLE = {Verb.ADD, Verb.TURNS, Verb.SHARED}
"""Writes that have a key or host ids and can therefore be repeated."""


@dataclass(slots=True)
class Findings:
    """The results of a verification. Empty lists mean that all is well."""

    lost: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])

    def add(self, other: "Findings", /) -> None:
        self.lost += other.lost
        self.wrong += other.wrong

    @property
    def ok(self) -> bool:
        return not self.lost and not self.wrong


@dataclass(frozen=True, slots=True)
class _Seen:
    """A turn or fact as the store returns it."""

    id: str
    text: str
    space: str
    conversation: str
    forgotten: bool


class _Reading:
    """Everything in the book's spaces, read through the runtime's public operations."""

    def __init__(self) -> None:
        self.seen: defaultdict[str, list[_Seen]] = defaultdict(list)
        self.heads: dict[tuple[str, str], tuple[int, int]] = {}
        """By conversation: the number of turns that its head counts, and the number that exist."""
        self.disorder: list[str] = []

    @classmethod
    async def of(cls, memory: elytron.MemoryRuntime, spaces: Iterable[str], /) -> "_Reading":
        reading = cls()
        for space in spaces:
            scope = elytron.Scope(space=SpaceId(space))
            inspection = await memory.inspect(elytron.MemoryInspectionRequest(scope=scope))
            for conversation in inspection.conversations:
                await reading._ledger(memory, scope, conversation.conversation, conversation.turns)
            await reading._facts(memory, scope)
            await reading._journal(memory, space, inspection.sequence)
        return reading

    async def _ledger(self, memory: elytron.MemoryRuntime, scope: elytron.Scope, name: str, counted: int) -> None:
        cursor: str | None = None
        sequences: list[int] = []
        while True:
            request = elytron.MemoryReplayRequest(
                scope=scope, chat_id=name, cursor=cursor, limit=_PAGE, order=elytron.LedgerOrder.FIRST
            )
            page = await memory.replay(request)
            for turn in page.turns:
                sequences.append(turn.sequence)
                for message in turn.messages:  # one, or none if an erasure was interrupted
                    found = _Seen(turn.id, message.text, scope.space, name, message.forgotten)
                    self.seen[token_of(message.text)].append(found)
            cursor = page.next_cursor
            if not page.has_more:
                break
        if sequences != sorted(set(sequences)):
            self.disorder.append(f"the turns of {scope.space}/{name} are out of order")
        if page.total_turns != counted:
            self.disorder.append(f"the head of {scope.space}/{name} is read in two ways")
        self.heads[scope.space, name] = (counted, len(sequences))

    async def _facts(self, memory: elytron.MemoryRuntime, scope: elytron.Scope) -> None:
        cursor: str | None = None
        while True:
            filters = elytron.RecallFilters(planes=(elytron.RecallPlane.LONG_TERM,))
            request = elytron.MemoryListRequest(scope=scope, filters=filters, cursor=cursor, limit=_PAGE)
            page = await memory.list(request)
            for hit in page.items:
                self.seen[token_of(hit.text)].append(_Seen(hit.id, hit.text, scope.space, "", forgotten=False))
            cursor = page.next_cursor
            if not page.has_more:
                return

    async def _journal(self, memory: elytron.MemoryRuntime, space: str, last: int) -> None:
        after = 0
        while entries := await memory.context.store.journal(SpaceId(space), after=after, limit=_PAGE):
            if [entry.sequence for entry in entries] != list(range(after + 1, after + 1 + len(entries))):
                self.disorder.append(f"the journal of {space} has a gap behind {after}")
            after = entries[-1].sequence
        if after != last:
            self.disorder.append(f"the journal of {space} ends at {after}, not at {last}")


async def verify(memory: elytron.MemoryRuntime, book: Book, /, *, chance: random.Random) -> Findings:
    """Compare the store with `book`, finish interrupted work, and record in the book what is now known."""
    found = Findings(wrong=book.errors[:])
    book.errors.clear()
    spaces = sorted({item.place.space for item in book.items.values()})
    _settle(await _Reading.of(memory, spaces), book, found)
    await _resend(memory, book, found, chance)
    reading = await _Reading.of(memory, spaces)
    _settle(reading, book, found)
    found.wrong += reading.disorder
    found.wrong += [
        f"the head of {space}/{name} counts {counted} turns, and {there} are there"
        for (space, name), (counted, there) in reading.heads.items()
        if counted != there
    ]
    await _recall_one(memory, book, found, chance)
    checked = (await memory.inspect(elytron.MemoryInspectionRequest(scope=_scope("alpha"), check=True))).store_check
    assert checked is not None
    found.wrong += [f"check: {problem.damage} {problem.what}" for problem in checked.problems]
    return found


def _settle(reading: _Reading, book: Book, found: Findings) -> None:
    """Compare what was read with the book. Unacknowledged items are recorded as they were found."""
    found.wrong += [f"{token!r} is there and was never written" for token in reading.seen.keys() - book.items.keys()]
    for item in book.items.values():
        seen = reading.seen.get(item.token, [])
        if len(seen) > 1:
            found.wrong.append(f"{item.verb} {item.token} is there {len(seen)} times")
            continue
        _compare(item, seen[0] if seen else None, found)
    for item in book.items.values():
        if item.verb is Verb.TURNS and len({(each.fate is Fate.ABSENT) for each in book.group(item.token)}) > 1:
            found.wrong.append(f"only a part of the turns {item.group} is there")


def _compare(item: Item, seen: _Seen | None, found: Findings) -> None:
    match item.fate, seen:
        case Fate.TRIED, None:
            item.fate = Fate.ABSENT
        case Fate.TRIED, _Seen():
            item.fate, item.id = Fate.KEPT, seen.id
            if item.is_refused:
                found.wrong.append(f"{item.verb} {item.token} is there although its writer was told that it is not")
        case Fate.FORGETTING, _Seen():
            item.fate = Fate.FORGOTTEN if seen.forgotten else Fate.KEPT
        case ((Fate.KEPT | Fate.FORGOTTEN | Fate.FORGETTING), None):
            item.fate = Fate.LOST
            found.lost.append(f"{item.verb} {item.token}")
        case ((Fate.ERASED | Fate.ABSENT), _Seen()):
            found.wrong.append(f"{item.verb} {item.token} is there and was {item.fate}")
        case Fate.FORGOTTEN, _Seen() if not seen.forgotten:
            item.fate = Fate.KEPT
            found.lost.append(f"forget {item.token}")
        case _:
            pass
    if seen is None:
        return
    where = (item.place.space, "" if item.verb is Verb.FACT else item.place.conversation)
    if (seen.space, seen.conversation, seen.text) != (*where, text_of(item.token)) or seen.id != item.id:
        found.wrong.append(f"{item.verb} {item.token} is there with another id, place or text")
    if item.fate is Fate.KEPT and seen.forgotten:
        found.wrong.append(f"{item.token} is forgotten and nobody asked for it")


async def _resend(memory: elytron.MemoryRuntime, book: Book, found: Findings, chance: random.Random) -> None:
    """Finish interrupted erasures, rewrite what did not arrive, and repeat some of the rest without effect."""
    for item in [item for item in book.items.values() if item.fate is Fate.ERASING]:
        assert item.id is not None
        await memory.erase(elytron.MemoryEraseRequest(scope=item.place.scope, ids=(item.id,)))
        item.fate = Fate.ERASED
    once = {item.group: item for item in book.items.values() if item.is_fresh and item.verb in _REPEATABLE}
    absent = [item for item in once.values() if item.fate is Fate.ABSENT]
    whole = [item for item in once.values() if all(each.fate is Fate.KEPT for each in book.group(item.token))]
    for item in [*absent, *chance.sample(whole, min(_SAMPLE, len(whole)))]:
        together = book.group(item.token)
        report = await write(memory, item.verb, item.place)
        known = [each.id for each in together]
        if item.fate is Fate.ABSENT:
            for each, given in zip(together, report.ids, strict=True):
                each.fate, each.id = Fate.KEPT, given
        elif list(report.ids) != known or (report.changed and not report.duplicated):
            found.wrong.append(f"{item.verb} {item.group} sent again was answered otherwise")
    for item in book.items.values():
        item.is_fresh = False


async def _recall_one(memory: elytron.MemoryRuntime, book: Book, found: Findings, chance: random.Random) -> None:
    kept = [item for item in book.items.values() if item.fate is Fate.KEPT]
    if not kept:
        return
    item = chance.choice(kept)
    recalled = await memory.recall(text_of(item.token), user_id=item.place.space)
    if item.id not in {hit.id for hit in recalled.hits}:
        found.wrong.append(f"{item.verb} {item.token} is kept and was not recalled")


def _scope(space: str) -> elytron.Scope:
    return elytron.Scope(space=SpaceId(space))
