"""Comparison of an import file's messages with the stored messages of their conversation, before writing."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from elytron.importers.message_shape import ImportedMessage
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import ComparedConversation, ImportComparison, TurnDraft
from elytron_core.planes.transcript import Message
from elytron_core.policy.imported_messages import content_id, message_form, minute_of
from elytron_core.scope import ConversationKey

_EDGE: Final = 150
_BETWEEN: Final = 100
_SAMPLE_CHARS: Final = 5_000
_MINUTES: Final = 64
"""Minutes whose messages are counted; an export is nearly chronological."""


def sample_messages(messages: Iterable[ImportedMessage], /) -> list[TurnDraft]:
    """Return the first and last messages, and some at even steps between them, in file order."""
    first_turns: list[TurnDraft] = []
    middle_turns: list[TurnDraft] = []
    last_turns: deque[TurnDraft] = deque(maxlen=_EDGE)
    sampling_step = 1
    for message_index, message in enumerate(
        message for message in messages if len(message.turn.messages[0].text) <= _SAMPLE_CHARS
    ):
        if len(first_turns) < _EDGE:
            first_turns.append(message.turn)
            continue
        if len(last_turns) == _EDGE and message_index % sampling_step == 0:
            middle_turns.append(last_turns[0])
            if len(middle_turns) > _BETWEEN:
                middle_turns, sampling_step = middle_turns[::2], sampling_step * 2
        last_turns.append(message.turn)
    return [*first_turns, *middle_turns, *last_turns]


@dataclass(slots=True)
class ComparedFile:
    """One conversation of a file being read: where it is stored, and what was read of it so far."""

    key: ConversationKey
    """The conversation that it is written to."""
    offsets_ms: tuple[int, ...] = (0,)
    is_swapped: bool = False
    """True if it is stored with day and month swapped."""
    after: int = 0
    """The highest sequence recognised so far."""
    _position: int = 0
    _minutes: dict[int, Counter[tuple[str, str, str]]] = field(default_factory=dict[int, Counter[tuple[str, str, str]]])

    def rewound(self) -> "ComparedFile":
        """Return the conversation before its first message."""
        return ComparedFile(self.key, self.offsets_ms, self.is_swapped)

    def prepare(
        self, batch: Iterable[ImportedMessage], offset_ms: int, /, *, after: int | None = None
    ) -> Iterator[tuple[TurnDraft, int]]:
        """Yield the next messages as they are stored, with the number of equal ones of the same minute before each.

        A message without a time or an id is named by its position and by the sequence `after` which it is written; it
        has no name before that is known.
        """
        for file_message in batch:
            message = file_message.turn.messages[0]
            if message.at is not None and offset_ms:
                message = message.model_copy(update={"at": Instant(message.at + offset_ms)})
            repeat_number = self._count(message)
            host_id = file_message.turn.host_id
            if not file_message.has_own_id and message.at is not None:
                host_id = content_id(message, repeat_number)
            elif not file_message.has_own_id:
                host_id = (
                    content_id(message, repeat_number, str(after), str(self._position)) if after is not None else None
                )
            self._position += 1
            yield file_message.turn.model_copy(update={"messages": (message,), "host_id": host_id}), repeat_number

    def _count(self, message: Message) -> int:
        if message.at is None:
            return 0
        minute = minute_of(message.at)
        if minute not in self._minutes:
            self._minutes[minute] = Counter()
            if len(self._minutes) > _MINUTES:
                del self._minutes[next(iter(self._minutes))]
        form_counts, content_form = self._minutes[minute], message_form(message)
        form_counts[content_form] += 1
        return form_counts[content_form] - 1

    def comparison(self, repeats: Iterable[int], /) -> ImportComparison:
        """Return how to compare the next messages."""
        return ImportComparison(
            offsets_ms=self.offsets_ms, after=self.after, repeats=tuple(repeats), is_swapped=self.is_swapped
        )

    def note(self, comparison_match: ComparedConversation, /) -> None:
        """Continue from what was recognised of the last messages."""
        self.offsets_ms = comparison_match.offsets_ms
        self.after = max(self.after, comparison_match.last)
