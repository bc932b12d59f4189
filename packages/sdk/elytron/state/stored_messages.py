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
            if isinstance(edited_id := turn.metadata.get(transcript.EDIT_OF), str) and transcript.is_turn_of(
                edited_id, transcript.tag_of(TurnId(edited_id))
            ):
                self.redated.add((key, transcript.sequence_of(TurnId(edited_id))))
            if message.at is None:
                self.untimed.append((key, turn.sequence))
            else:
                self.timed.setdefault(key, []).append((minute_of(message.at), turn.sequence))

    def sort(self) -> None:
        """Sort the times, after the last turn was added."""
        for key, moments in self.timed.items():
            self.timed[key] = sorted(
                moment_and_sequence
                for moment_and_sequence in moments
                if (key, moment_and_sequence[1]) not in self.redated
            )

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
        offset_votes: dict[int, float] = {0: 0.0}
        keys = [message_key(message) for message in messages]
        key_counts = Counter(keys)
        for key, message in zip(keys, messages, strict=True):
            stored_moments = self.timed.get(key, []) if message.at is not None else []
            # Frequent messages, sent at any hour, say little about an offset.
            vote_weight = 1 / (key_counts[key] * max(len(stored_moments), 1))
            if message.at is None or vote_weight < _LEAST_WEIGHT:
                continue
            for minute_offset in {minute - minute_of(message.at) for minute, _ in stored_moments}:
                if minute_offset % _ZONE_STEP == 0 and abs(minute_offset) <= _ZONE_MOST:
                    offset_votes[minute_offset] = offset_votes.get(minute_offset, 0.0) + vote_weight
        usual_offset = max(offset_votes, key=lambda each: (offset_votes[each], -abs(each)))
        usual_offset = 0 if 2 * offset_votes[0] >= offset_votes[usual_offset] else usual_offset
        summer_offsets = [
            each
            for each in sorted(offset_votes, key=lambda each: -offset_votes[each])
            if abs(each - usual_offset) == _SUMMER
            and _SHARE * offset_votes[each] >= offset_votes[usual_offset]
            and offset_votes[each] > 1
        ]
        return tuple(each * MINUTE_MS for each in (usual_offset, *summer_offsets))


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


def align_keys(keys: Sequence[int], stored_keys: Sequence[tuple[int, int]], /) -> list[int | None]:
    """Return for each of `keys` the sequence of its equal in `stored_keys`, so that both are in the same order.

    Keys that each side has once are the fixed points; between two of them equal ones are joined in their order.
    """
    positions_by_key: dict[int, list[int]] = {}
    for position, (key, _) in enumerate(stored_keys):
        positions_by_key.setdefault(key, []).append(position)
    counts = Counter(keys)
    fixed_points = [
        (index, positions_by_key[key][0])
        for index, key in enumerate(keys)
        if counts[key] == 1 and len(positions_by_key.get(key, ())) == 1
    ]
    earlier_sequences: list[int | None] = [None] * len(keys)
    index = position = 0
    for next_index, next_position in (*_rising_points(fixed_points), (len(keys), len(stored_keys))):
        while index < next_index:
            candidates = positions_by_key.get(keys[index], [])
            next_candidate = bisect_left(candidates, position)
            if next_candidate < len(candidates) and candidates[next_candidate] < next_position:
                earlier_sequences[index] = stored_keys[candidates[next_candidate]][1]
                position = candidates[next_candidate] + 1
            index += 1
        if next_index < len(keys):
            earlier_sequences[next_index] = stored_keys[next_position][1]
        index, position = next_index + 1, next_position + 1
    return earlier_sequences


def _rising_points(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest sequence of `points` in which both numbers rise."""
    run_ends: list[int] = []
    end_indexes: list[int] = []
    previous_indexes: list[int] = []
    for index, (_, position) in enumerate(points):
        run_length = bisect_left(run_ends, position)
        previous_indexes.append(end_indexes[run_length - 1] if run_length else -1)
        if run_length == len(run_ends):
            run_ends.append(position)
            end_indexes.append(index)
        else:
            run_ends[run_length], end_indexes[run_length] = position, index
    rising_points: list[tuple[int, int]] = []
    index = end_indexes[-1] if end_indexes else -1
    while index >= 0:
        rising_points.append(points[index])
        index = previous_indexes[index]
    return rising_points[::-1]


def longest_run(sequences: Iterable[int | None], /) -> int:
    """Return the length of the longest run of neighbours that are also neighbours in the store."""
    longest_length = run_length = 0
    last_sequence: int | None = None
    for sequence in sequences:
        run_length = (
            run_length + 1
            if sequence is not None and last_sequence is not None and sequence == last_sequence + 1
            else int(sequence is not None)
        )
        longest_length, last_sequence = max(longest_length, run_length), sequence
    return longest_length


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
