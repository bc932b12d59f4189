"""An agent's stored documents: its threads, and for each run the input, every reply, and every tool result.

A reply is stored before the agent acts on it. The result of a tool that does more than read is stored before anything
else happens. All documents are the runtime's own records, which no other caller can write, so the agent may act on what
it reads back. Each document of a run is written once. Copies of a turn, a conversation or a block are stored where
erasing the original also removes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from elytron.api import MemoryFace
from elytron.runtime_records import RecordDraft, RuntimeRecords, records_of
from elytron_agent.runs.events import StopReason
from elytron_agent.runs.settings import RunUsage, UserPreferences
from elytron_agent.runs.thread_notes import (
    AGENTS,
    MARK,
    MOVED_ON,
    REACTED,
    WELCOMED,
    ReactedRuns,
    ThreadNotes,
    ThreadWelcome,
    draft_of,
    run_place,
)
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.contracts.inspection import LedgerTurn, MemoryReplayRequest
from elytron_core.contracts.maintenance.maintenance import MemoryFinalizeTurnRequest
from elytron_core.errors import Conflict, NotFound, PreconditionFailed, TurnConflict
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.records import COPIES_OF_BLOCKS, Record, copies_of_conversation, copies_of_turn
from elytron_core.planes.transcript import sequence_of, tag_of, turn_id
from elytron_core.ports.chat import (
    ChatRole,
    FinishReason,
    Message,
    ModelReply,
    OpaquePart,
    TextPart,
    ToolCall,
    ToolResult,
)
from elytron_core.scope import Scope
from elytron_core.strict_json import sha256_digest
from elytron_turn.context import (
    StableContext,
    ThreadHead,
    WindowSummary,
    WindowTurn,
    came_from_outside,
    fenced_outside,
    guard_text,
    shown_given,
    text_message,
)

EPOCH_DIGITS: Final = 6
STEP_DIGITS: Final = 4


MAIN: Final = "main"
"""Name of an agent if none is given."""
PREFERENCES: Final = "preferences"
_INPUT, _END, _MEMORY_KEY = "0000", "end", "given"
_APPROVED: Final = ".approved"
_OTHERS: Final = 32
"""Number of turns by others that are read from the conversation in addition to those of the window."""


class RunInput(Value):
    """Input of a run. `by` is the process that started it."""

    run: str
    at: Instant
    text: str
    thread: str
    images: tuple[str, ...] = ()
    """Digests of the images that the text describes."""
    is_stored: bool = True
    """False if nothing of the run is stored, neither as evidence nor in the journal."""
    by: str = ""
    schedule: str | None = None
    """Schedule that started the run, in which case its text is a program's."""
    before: tuple[Message, ...] = ()
    """Messages that a client sent with the text."""
    asks: bool = True
    """False if messages are added to a thread without asking the model."""

    @property
    def is_outside(self) -> bool:
        """Return whether any of the client's messages is text from outside."""
        return any(map(came_from_outside, self.before))


class StepReply(Value):
    """A reply of the model whose calls have not been made yet."""

    step: int
    items: tuple[TextPart | ToolCall | OpaquePart, ...]
    input_tokens: int = 0
    output_tokens: int = 0
    finish: FinishReason = FinishReason.STOP
    digests: tuple[str, ...] = ()
    """Digest of each call's arguments.

    Stored arguments are redacted, so a call that had credentials is not repeated.
    """
    correction: str = ""
    """Message to the model about a reply that cannot be acted on."""
    asks_first: bool = False
    """True if calls of the host's tools need an approval, so that a call without one was not made."""
    by: str = ""

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.items if isinstance(item, TextPart)).strip()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(item for item in self.items if isinstance(item, ToolCall))


class CallApproval(Value):
    """The approval of a step's call, which may be made once this is stored. A denial is stored as the call's result."""

    step: int
    place: int
    by: str = ""


class CallResult(Value):
    """Outcome of a step's call."""

    step: int
    place: int
    call: str
    tool: str
    text: str
    is_error: bool = False
    is_outside: bool = False
    is_unknown: bool = False
    is_malformed: bool = False
    """True if the call could not be parsed, so that the model was asked to repeat it."""
    is_refused: bool = False
    """True if the host denied the call."""
    by: str = ""


class RunEnd(Value):
    """End of a run."""

    reason: StopReason
    problem: str = ""
    turn: str | None = None
    memories: tuple[str, ...] = ()
    usage: RunUsage = RunUsage()
    at: Instant | None = None


RunDocument = RunInput | StepReply | CallApproval | CallResult | RunEnd


@dataclass(frozen=True, slots=True)
class RunClosing:
    """The commit at the end of a run: its last documents, its turn, and the thread if that is released."""

    turn: MemoryFinalizeTurnRequest | None
    """None for a turn without text."""
    documents: Sequence[RunDocument]
    end: RunEnd
    """Its turn and memories are those of the commit."""
    head: tuple[str, ThreadHead, int] | None = None
    """Name, state and version of the thread."""


class StrategyMemory(Value):
    """A strategy's contribution to a run, constant until the run is over. Recalled memories are not stored."""

    run: str
    system: str = ""
    standing: str = ""


class RunName(Value):
    """The id of a run as given by a host, without any content."""


class SummaryText(Value):
    """The text of a summary."""

    text: str


class RunRecord(Value):
    """Everything that is stored of a run."""

    input: RunInput
    replies: tuple[StepReply, ...] = ()
    results: tuple[CallResult, ...] = ()
    approvals: tuple[CallApproval, ...] = ()
    end: RunEnd | None = None

    @property
    def items(self) -> tuple[Message, ...]:
        """Return the replies, each with the results of its calls, as they are sent to a model again."""
        messages: list[Message] = []
        for reply in self.replies:
            messages.append(ModelReply(items=reply.items))
            messages += [shown_result(result, self.input.run) for result in self.results if result.step == reply.step]
            if reply.correction:
                messages.append(correction_message(reply.correction))
        return tuple(messages)

    @property
    def turn(self) -> WindowTurn:
        """Return the run as a turn of the window."""
        return self.turn_of(self.items)

    def turn_of(self, items: tuple[Message, ...], /) -> WindowTurn:
        """Return the run as a turn of the window, with `items` as its content."""
        return WindowTurn(
            run=self.input.run,
            at=self.input.at,
            input=self.input.text,
            before=shown_given(self.input.before),
            items=items,
            is_pending=self.end is None,
            memories=self.end.memories if self.end is not None else (),
        )

    @property
    def text(self) -> str:
        """Return the model's text to the user."""
        texts = (reply.text for reply in self.replies)
        return "\n\n".join(text for text in texts if text)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the last reply without a result."""
        if not self.replies:
            return ()
        result_places = {result.place for result in self.results if result.step == self.replies[-1].step}
        return tuple(call for index, call in enumerate(self.replies[-1].calls) if index not in result_places)

    @property
    def corrections(self) -> int:
        """Return how often the model was asked again after a reply that could not be acted on."""
        malformed_steps = {result.step for result in self.results if result.is_malformed}
        return len(malformed_steps | {reply.step for reply in self.replies if reply.correction})

    @property
    def usage(self) -> RunUsage:
        return RunUsage(
            steps=len(self.replies),
            calls=len(self.results),
            input_tokens=sum(reply.input_tokens for reply in self.replies),
            output_tokens=sum(reply.output_tokens for reply in self.replies),
        )


def shown_result(result: CallResult, run: str, /) -> ToolResult:
    """Return a result in its form for the model. Text from outside is fenced."""
    key = f"{run}/{result.step}/{result.place}"
    text = fenced_outside(result.text, key=key) if result.is_outside else guard_text(result.text)
    return ToolResult(call_id=result.call, tool=result.tool, text=text, is_error=result.is_error)


def correction_message(text: str, /) -> Message:
    """Return the message to a model about a reply that cannot be acted on."""
    return text_message(ChatRole.USER, text)


class ThreadState(Value):
    """State of a thread with its notes."""

    head: ThreadHead = ThreadHead()
    version: int = 0
    """Version of the head; 0 if there is none."""
    preferences: UserPreferences | None = None
    welcome: ThreadWelcome | None = None
    reacted: tuple[str, ...] = ()
    """Runs that may have a reaction."""


class RunJournal(ThreadNotes):
    """The documents of one agent in one memory.

    `by` identifies this process, so that two processes do not share a run.
    """

    def __init__(
        self, memory: MemoryFace, records: RuntimeRecords, scope: Scope | None, /, *, agent: str, by: str
    ) -> None:
        super().__init__(records, agent=agent)
        self._memory = memory
        self.is_elsewhere = not records.is_of(memory)
        """True if the journal is not in the memory's store, so that erasures in memory do not include its copies."""
        self._scope = scope
        self.by = by

    async def state(self, thread: str, /) -> ThreadState:
        """Return the state of the thread with its notes, in one read."""
        agent_namespace, settings_namespace = (AGENTS, self._agent), (AGENTS, self._agent, "settings")
        thread_notes = (*agent_namespace, thread)
        record_names = (
            (agent_namespace, thread),
            (settings_namespace, PREFERENCES),
            (thread_notes, WELCOMED),
            (thread_notes, REACTED),
        )
        head, preferences, welcome, reacted_runs = await self._records.get_all(record_names)
        return ThreadState(
            head=ThreadHead.model_validate(head.value) if head is not None else ThreadHead(),
            version=head.version if head is not None else 0,
            preferences=UserPreferences.model_validate(preferences.value) if preferences is not None else None,
            welcome=ThreadWelcome.model_validate(welcome.value) if welcome is not None else None,
            reacted=ReactedRuns.model_validate(reacted_runs.value).runs if reacted_runs is not None else (),
        )

    async def head(self, thread: str, /) -> tuple[ThreadHead, int]:
        """Return the state of the thread and its version, or a new state and 0 if there is none."""
        stored_head = await self._read((AGENTS, self._agent), thread, ThreadHead)
        return stored_head if stored_head is not None else (ThreadHead(), 0)

    async def put_head(self, thread: str, head: ThreadHead, version: int, /) -> int:
        """Replace the state of the thread, which must have `version`. Raises Conflict if another process changed it."""
        return await self._put((AGENTS, self._agent), thread, head, expected=version)

    async def stable(self, thread: str, epoch: int, /) -> StableContext | None:
        """Return the stable part of an epoch, or None if it does not exist yet."""
        stored_context = await self._read(
            self._copies_namespace(thread), f"epoch.{epoch:0{EPOCH_DIGITS}}", StableContext
        )
        return stored_context[0] if stored_context is not None else None

    async def put_stable(self, thread: str, epoch: int, part: StableContext, /) -> None:
        """Store the stable part of an epoch."""
        key = f"epoch.{epoch:0{EPOCH_DIGITS}}"
        await self._put(self._copies_namespace(thread), key, part, expected=None)

    async def strategy_memory(self, thread: str, run: str, /) -> StrategyMemory | None:
        """Return a strategy's contribution to a run; None if there is none, or if the space had an erasure since."""
        stored_memory = await self._read(self._copies_namespace(thread), _MEMORY_KEY, StrategyMemory)
        return stored_memory[0] if stored_memory is not None and stored_memory[0].run == run else None

    async def put_given(self, thread: str, memory: StrategyMemory, /) -> None:
        """Store a strategy's contribution to the open run, replacing that of the previous run."""
        await self._put(self._copies_namespace(thread), _MEMORY_KEY, memory, expected=None)

    async def summary(self, thread: str, number: int, /) -> WindowSummary | None:
        """Return a summary of the thread, or None for 0.

        Its text is missing if a turn that it may mention was erased.
        """
        if number == 0:
            return None
        key = f"summary.{number:0{EPOCH_DIGITS}}"
        stored_summary = await self._read((AGENTS, self._agent, thread), key, WindowSummary)
        if stored_summary is None:
            raise NotFound(what="summary", name=str(number))
        stored_text = await self._read(copies_of_conversation(thread), key, SummaryText)
        text = {"text": stored_text[0].text} if stored_text is not None else {"is_erased": True}
        return stored_summary[0].model_copy(update=text)

    async def put_summary(self, thread: str, summary: WindowSummary, /) -> None:
        """Store a summary. It takes effect once the head refers to it."""
        key = f"summary.{summary.number:0{EPOCH_DIGITS}}"
        await self._put(copies_of_conversation(thread), key, SummaryText(text=summary.text), expected=None)
        await self._put((AGENTS, self._agent, thread), key, summary.model_copy(update={"text": ""}), expected=None)

    async def preferences(self) -> UserPreferences | None:
        """Return the person's preferences, or None if none were set."""
        stored_preferences = await self._read((AGENTS, self._agent, "settings"), PREFERENCES, UserPreferences)
        return stored_preferences[0] if stored_preferences is not None else None

    async def put_preferences(self, preferences: UserPreferences, /) -> None:
        """Store the person's preferences."""
        await self._put((AGENTS, self._agent, "settings"), PREFERENCES, preferences, expected=None)

    async def begin(self, run_input: RunInput, head: ThreadHead, version: int, /) -> int:
        """Store the input of a run and the thread with that run open, in one commit. Return the thread's version.

        The run has no effects before this commit. Raises Conflict if another process took over the run or the thread.
        """
        stored_records = await self._put_all(
            [self._draft(run_input.run, run_input), self._head_draft(run_input.thread, head, version)]
        )
        return stored_records[-1].version

    async def keep_name(self, run: str, /) -> None:
        """Record that a run with this id began, as a digest that survives the run's erasure."""
        await self._put(self._run_names, sha256_digest(run.encode()), RunName(), expected=None)

    async def has_begun(self, run: str, /) -> bool:
        """Return whether a run with this id ever began, even if its turn was erased since."""
        return await self._read(self._run_names, sha256_digest(run.encode()), RunName) is not None

    @property
    def _run_names(self) -> tuple[str, ...]:
        return AGENTS, self._agent, "run_names"

    async def write(self, run: str, documents: Sequence[RunDocument], /) -> None:
        """Store documents of a run in one commit. Raises Conflict if another process took over the run.

        The calls of a reply may be made once it is stored, or once their approval is.
        """
        if documents:
            await self._put_all([self._draft(run, document) for document in documents])

    async def close(self, run: str, closing: RunClosing, /) -> tuple[RunEnd, int]:
        """Commit the turn, the last documents of its run and the thread. Return the end and the thread's version.

        This is one commit if the journal is in the same store as the memory. Otherwise documents, turn and end are
        committed one after the other. Raises Conflict if another process took over the run or the thread, and the
        memory's errors.
        """
        ended, documents = closing.end, closing.documents
        if self.is_elsewhere:
            await self.write(run, documents)
            documents = ()

        def drafts(turn: str | None, messages: tuple[str, ...], /) -> list[RecordDraft]:
            nonlocal ended
            ended = closing.end.model_copy(update={"turn": turn, "memories": messages})
            record_drafts = [self._draft(run, document) for document in (*documents, ended)]
            return record_drafts + ([self._head_draft(*closing.head)] if closing.head is not None else [])

        try:
            if closing.turn is None:
                stored_records = await self._put_all(drafts(None, ()))
            elif self.is_elsewhere:
                report = await self._memory.finalize_turn_and_maintain(closing.turn)
                stored_records = await self._put_all(drafts(report.turn_id, report.message_ids))
            else:
                record_names = [
                    (copies_of_turn(run, self._agent), _document_key(document)) for document in (*documents, ended)
                ]
                record_names += [((AGENTS, self._agent), closing.head[0])] if closing.head is not None else []
                _, stored_records = await self._records.finalize_turn(closing.turn, record_names, drafts)
        except TurnConflict:
            # The turn was committed before the interruption, with another end. It stays as it is.
            stored_records = await self._put_all(drafts(None, ()))
        except PreconditionFailed:
            raise Conflict(
                what=MOVED_ON, expected=closing.head[2] if closing.head is not None else 0, found=0
            ) from None
        return ended, stored_records[-1].version

    async def load(self, run: str, /) -> RunRecord | None:
        """Return everything that is stored of a run, or None if there is nothing."""
        return run_of_documents(await self.documents(run))

    async def changed_runs(self, turns: Sequence[WindowTurn], /) -> frozenset[str]:
        """Return the runs that memory no longer holds completely because part of their turn was forgotten or erased."""
        turns_by_thread: dict[str, dict[str, WindowTurn]] = {}
        for turn in turns:
            if turn.memories:
                turns_by_thread.setdefault(run_place(turn.run)[1], {})[turn.memories[0]] = turn
        missing_by_thread = [
            await self._gone_in(thread, stored_turns) for thread, stored_turns in turns_by_thread.items()
        ]
        return frozenset(run for missing_runs in missing_by_thread for run in missing_runs)

    async def _gone_in(self, thread: str, stored: Mapping[str, WindowTurn]) -> list[str]:
        """Return the incomplete runs of a thread; "" means the agent's own thread."""
        last_turn = max(stored) if thread else None
        request = MemoryReplayRequest(
            scope=self._scope if not thread or self._scope is None else in_thread(self._scope, thread),
            limit=min(len(stored) + _OTHERS, core_limits.PAGE_MAX),
            cursor=turn_id(tag_of(TurnId(last_turn)), sequence_of(TurnId(last_turn)) + 1)
            if last_turn is not None
            else None,
        )
        report = await self._memory.replay(request)
        ledger_turns = {turn.id: turn for turn in report.turns}
        # Turns before the page were not checked and count as complete.
        first_turn = report.turns[0].id if report.turns and report.has_more else ""
        return [
            turn.run
            for ledger_id, turn in stored.items()
            if ledger_id >= first_turn and not _is_whole(ledger_turns.get(TurnId(ledger_id)), turn)
        ]

    async def erase_copies(self, thread: str, runs: Iterable[str], /, *, with_summaries: bool) -> None:
        """Erase the copies of runs and of blocks, as erasing them in memory would if it held the journal."""
        namespaces = [copies_of_turn(run, self._agent) for run in runs]
        if not namespaces:
            return
        namespaces += [COPIES_OF_BLOCKS, *([copies_of_conversation(thread)] if with_summaries else [])]
        await self._records.erase(
            [record for namespace in namespaces async for record in self._records.below(namespace)]
        )

    def _copies_namespace(self, thread: str) -> tuple[str, ...]:
        return (*COPIES_OF_BLOCKS, self._agent, thread)

    def _draft(self, run: str, document: RunDocument) -> RecordDraft:
        """Return the draft of a run's document, which is written once."""
        content = document if isinstance(document, RunEnd) else document.model_copy(update={"by": self.by})
        return draft_of(copies_of_turn(run, self._agent), _document_key(document), content, 0)

    def _head_draft(self, thread: str, head: ThreadHead, version: int) -> RecordDraft:
        return draft_of((AGENTS, self._agent), thread, head, version)


def in_thread(scope: Scope, thread: str, /) -> Scope:
    """Return the scope of a thread."""
    return Scope.model_validate(scope.model_dump() | {"agent": thread, "conversation": thread})


def run_of_documents(documents: Iterable[Record], /) -> RunRecord | None:
    """Build a run from its documents, or return None if its input is missing."""
    values: dict[str, Any] = {
        document.key: document.value for document in documents if not document.key.startswith(MARK)
    }
    input_value, end_value = values.pop(_INPUT, None), values.pop(_END, None)
    if input_value is None:
        return None
    approval_values = [values.pop(key) for key in sorted(values) if key.endswith(_APPROVED)]
    value_keys = sorted(values)
    return RunRecord(
        input=RunInput.model_validate(input_value),
        replies=tuple(StepReply.model_validate(values[key]) for key in value_keys if "." not in key),
        results=tuple(CallResult.model_validate(values[key]) for key in value_keys if "." in key),
        approvals=tuple(CallApproval.model_validate(document) for document in approval_values),
        end=RunEnd.model_validate(end_value) if end_value is not None else None,
    )


def _document_key(document: RunDocument) -> str:
    """Return the key of a document within its run."""
    match document:
        case RunInput():
            return _INPUT
        case StepReply():
            return f"{document.step:0{STEP_DIGITS}}"
        case RunEnd():
            return _END
        case CallApproval() | CallResult():
            approval_suffix = _APPROVED if isinstance(document, CallApproval) else ""
            return f"{document.step:0{STEP_DIGITS}}.{document.place:0{STEP_DIGITS}}{approval_suffix}"


def journal_of(memory: MemoryFace, journal: MemoryFace | None, /) -> RuntimeRecords:
    """Return the agents' records in `journal`, or else in `memory`. Raises Unsupported if it has no records."""
    if journal is None:
        return records_of(memory)
    return records_of(journal, scope=journal.scope or memory.scope)


def _is_whole(ledger_turn: LedgerTurn | None, turn: WindowTurn) -> bool:
    if ledger_turn is None or len(ledger_turn.messages) < len(turn.memories):
        return False
    return all(message.text and not message.forgotten for message in ledger_turn.messages)
