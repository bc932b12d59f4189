"""Messages of a stored conversation by content, so that another export's copies are recognised."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from elytron_core.ids import ConversationTag, SpaceId, TurnId
from elytron_core.planes import transcript
from elytron_core.planes.transcript import Message, TextRedaction, Turn
from elytron_core.policy.imported_messages import MINUTE_MS, message_form, minute_of
from elytron_core.ports.store import Store, scan_documents

_ZONE_STEP = 15
_ZONE_MOST = 14 * 60
"""Time zones differ by quarters of an hour. A day is too much: people greet each other every morning."""
_LEAST_WEIGHT = 1 / 64
_SUMMER = 60
_SHARE = 10


@dataclass(slots=True)
class StoredMessages:
    """The messages of one conversation: times by content, and the order of those without a time."""

    timed: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, list[tuple[int, int]]])
    """Minute and sequence of each message with a time, by the key of its content."""
    untimed: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Key and sequence of the others, in order."""
    redated: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Key and sequence of messages replaced by one with the same content at another time."""
    live: set[int] = field(default_factory=set[int])
    """Sequences of turns that were not imported from a file, so that their dates were not misread."""

    def add(self, turn: Turn, /) -> None:
        """Add the messages of a turn that still have text, shown or not."""
        if turn.redaction is TextRedaction.RAW_DELETED:
            return
        if turn.origin is not transcript.TurnOrigin.IMPORTED:
            self.live.add(turn.sequence)
        for part, message in enumerate(turn.messages):
            if part in turn.erased:
                continue
            key = message_key(message)
            if isinstance(earlier := turn.metadata.get(transcript.EDIT_OF), str) and transcript.is_turn_of(
                earlier, transcript.tag_of(TurnId(earlier))
            ):
                self.redated.add((key, transcript.sequence_of(TurnId(earlier))))
            if message.at is None:
                self.untimed.append((key, turn.sequence))
            else:
                self.timed.setdefault(key, []).append((minute_of(message.at), turn.sequence))

    def sort(self) -> None:
        """Sort the times, after the last turn was added."""
        for key, moments in self.timed.items():
            self.timed[key] = sorted(moment for moment in moments if (key, moment[1]) not in self.redated)

    def at_minute(self, key: int, minute: int, /) -> list[int]:
        """Return the sequences of the equal messages of one minute."""
        moments = self.timed.get(key, [])
        return [
            sequence
            for _, sequence in moments[bisect_left(moments, (minute, 0)) : bisect_right(moments, (minute + 1, 0))]
        ]

    def offsets(self, messages: Sequence[Message], /) -> tuple[int, ...]:
        """Return the offsets in milliseconds by which the times of `messages` precede the stored ones, the usual one
        first.

        A second offset, one hour apart, is summer time, which two zones begin on different days.
        """
        votes: dict[int, float] = {0: 0.0}
        keys = [message_key(message) for message in messages]
        times = Counter(keys)
        for key, message in zip(keys, messages, strict=True):
            moments = self.timed.get(key, []) if message.at is not None else []
            # Frequent messages, sent at any hour, say little about an offset.
            weight = 1 / (times[key] * max(len(moments), 1))
            if message.at is None or weight < _LEAST_WEIGHT:
                continue
            for difference in {minute - minute_of(message.at) for minute, _ in moments}:
                if difference % _ZONE_STEP == 0 and abs(difference) <= _ZONE_MOST:
                    votes[difference] = votes.get(difference, 0.0) + weight
        usual = max(votes, key=lambda each: (votes[each], -abs(each)))
        usual = 0 if 2 * votes[0] >= votes[usual] else usual
        others = [
            each
            for each in sorted(votes, key=lambda each: -votes[each])
            if abs(each - usual) == _SUMMER and _SHARE * votes[each] >= votes[usual] and votes[each] > 1
        ]
        return tuple(each * MINUTE_MS for each in (usual, *others))


def message_key(message: Message, /) -> int:
    """Return a number for a message's content and speaker."""
    return hash(message_form(message))


async def read_messages(store: Store, space: SpaceId, tag: ConversationTag, /) -> StoredMessages:
    """Return the messages of a conversation."""
    messages = StoredMessages()
    async for document in scan_documents(store, space, transcript.TURNS, prefix=f"{tag}."):
        messages.add(Turn.from_bytes(document.body))
    messages.sort()
    return messages


def align_keys(keys: Sequence[int], stored: Sequence[tuple[int, int]], /) -> list[int | None]:
    """Return for each of `keys` the sequence of its equal in `stored`, so that both are in the same order.

    Keys that each side has once are the fixed points; between two of them equal ones are joined in their order.
    """
    places: dict[int, list[int]] = {}
    for place, (key, _) in enumerate(stored):
        places.setdefault(key, []).append(place)
    counts = Counter(keys)
    fixed = [
        (index, places[key][0]) for index, key in enumerate(keys) if counts[key] == 1 and len(places.get(key, ())) == 1
    ]
    earlier_places: list[int | None] = [None] * len(keys)
    index = place = 0
    for next_index, next_place in (*_rising_points(fixed), (len(keys), len(stored))):
        while index < next_index:
            candidates = places.get(keys[index], [])
            at = bisect_left(candidates, place)
            if at < len(candidates) and candidates[at] < next_place:
                earlier_places[index] = stored[candidates[at]][1]
                place = candidates[at] + 1
            index += 1
        if next_index < len(keys):
            earlier_places[next_index] = stored[next_place][1]
        index, place = next_index + 1, next_place + 1
    return earlier_places


def _rising_points(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest sequence of `points` in which both numbers rise."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(points):
        at = bisect_left(tails, place)
        before.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(place)
            ends.append(number)
        else:
            tails[at], ends[at] = place, number
    series: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        series.append(points[number])
        number = before[number]
    return series[::-1]


def longest_run(places: Iterable[int | None], /) -> int:
    """Return the length of the longest run of neighbours that are also neighbours in the store."""
    longest = length = 0
    last: int | None = None
    for sequence in places:
        length = (
            length + 1
            if sequence is not None and last is not None and sequence == last + 1
            else int(sequence is not None)
        )
        longest, last = max(longest, length), sequence
    return longest


@dataclass(slots=True)
class ImportedMessages:
    """The messages of the last compared conversation, while its head is unchanged."""

    _of: tuple[SpaceId, ConversationTag, int] | None = None
    _messages: StoredMessages = field(default_factory=StoredMessages)

    async def read(self, store: Store, space: SpaceId, tag: ConversationTag, revision: int, /) -> StoredMessages:
        """Return the messages of a conversation whose head is at `revision`."""
        if self._of != (space, tag, revision):
            self._messages = await read_messages(store, space, tag)
            self._of = space, tag, revision
        return self._messages

    def forget(self) -> None:
        """Clear what was read."""
        self._of, self._messages = None, StoredMessages()
