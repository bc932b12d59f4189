"""One step of a run: a model request or tool calls, and the next action derived from the stored documents."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Any, Final, NamedTuple, cast

from pydantic import Field

from elytron_agent import limits
from elytron_agent.runs.events import AgentEvent, ReasoningSaid, StopReason, TextSaid
from elytron_agent.runs.journal import CallResult, RunRecord, correction_message, shown_result
from elytron_agent.runs.settings import REFUSED, RunBudget, RunDeadline, WorkCancelled, abandon_task, finish_work
from elytron_agent.runs.source import READ_RESULT, AgentParts
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core import strict_json
from elytron_core.errors import ElytronError, ModelError
from elytron_core.model import Value
from elytron_core.policy.projection.sections import clip_text
from elytron_core.ports.chat import (
    ChatModel,
    FailureReason,
    FinishReason,
    Message,
    ModelEvent,
    ModelReply,
    ModelRequest,
    ModelTool,
    ReasoningDelta,
    ReplyFailed,
    ReplyFinished,
    ReplyItem,
    TextDelta,
    TokenCounter,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from elytron_models.answer import ModelAnswer, answer_of
from elytron_models.server import error_of
from elytron_turn.context import WindowTurn, reference_message
from elytron_turn.sizes import bytes_of, tokens_of

RESULT_PAGE_CHARS: Final = 4_000
RESULT_PASSAGES: Final = 5
RESULT_PASSAGE_CHARS: Final = 600
RESULTS_LISTED: Final = 100
"""Maximum number of results in a list. The limits above apply to one reading of archived results."""
READS_AT_ONCE: Final = 8
"""Maximum number of read-only calls of one reply that run concurrently."""
MAX_CORRECTIONS: Final = 1
RESULT_CHARS: Final = 40_000
"""Maximum length of a tool's result, so that it fits into a document.

A record holds 256 KiB, and a character takes up to six bytes in JSON.
"""
COUNT_DEADLINE_S: Final = 2.0
"""How long a run waits for the model's own token count before it compacts by an estimate."""


@dataclass(slots=True)
class ModelStep:
    """Ask a model. After `events`, either `answer` or `failed` is set, or neither if time ran out."""

    agent: AgentParts
    deadline: RunDeadline
    answer: ModelAnswer | None = None
    failed: ReplyFailed | None = None
    has_spoken: bool = False
    is_first: bool = True

    async def events(self, messages: Sequence[Message], tools: Sequence[ModelTool], /) -> AsyncGenerator[AgentEvent]:
        """Yield the parts of the answer as they arrive."""
        while True:
            self.answer, self.failed, self.has_spoken = None, None, False
            async with aclosing(self._ask_model(self._request(messages, tools))) as model_events:
                async for model_event in model_events:
                    yield model_event
            is_refused = self.failed is not None and self.failed.reason is FailureReason.REFUSED
            if not is_refused or self.agent.is_plain or self.has_spoken:
                return
            self.agent.is_plain = True

    async def count(self, messages: Sequence[Message], tools: Sequence[ModelTool], /) -> int | None:
        """Return the model's own token count of a request, or None if it does not answer in time."""
        model = self.agent.models.main
        if not isinstance(model, TokenCounter):
            return None
        try:
            timeout_s = self.deadline.timeout_s(COUNT_DEADLINE_S)
            return await finish_work(model.count(self._request(messages, tools)), timeout_s=timeout_s)
        except (TimeoutError, WorkCancelled, ModelError):
            return None

    @property
    def problem(self) -> str:
        """Return why there is no answer, without quoting any of it."""
        # Omit the server's address, because users of a service may see this text.
        model_name = self.agent.models.main.info.name.partition("@")[0]
        return error_of(self.failed, name=model_name).message if self.failed is not None else ""

    async def _ask_model(self, request: ModelRequest) -> AsyncGenerator[AgentEvent]:
        reply_events: list[ModelEvent] = []
        model = self.agent.models.main
        async with aclosing(_stream_answer(model, request, self.deadline)) as events:
            async for event in events:
                reply_events.append(event)
                match event:
                    case TextDelta():
                        self.has_spoken = True
                        yield TextSaid(text=event.text)
                    case ReasoningDelta():
                        yield ReasoningSaid(text=event.text)
                    case ReplyFailed():
                        self.failed = event
                        return
                    case _:
                        pass
        if self.deadline.is_over and not any(isinstance(event, ReplyFinished) for event in reply_events):
            return
        try:
            self.answer = answer_of(reply_events, name=model.info.name)
        except ModelError:
            self.failed = ReplyFailed(reason=FailureReason.MALFORMED)

    def _answer_tokens(self, messages: Sequence[Message], tools: Sequence[ModelTool]) -> int | None:
        """Return the answer's token limit: the configured one, or the rest of the window if that is less."""
        window, max_tokens = self.agent.window, self.agent.settings.max_tokens
        free_tokens = window.tokens - tokens_of(bytes_of(messages, tools), factor=window.factor)
        return min(max_tokens, max(free_tokens, 1)) if max_tokens is not None else None

    def _request(self, messages: Sequence[Message], tools: Sequence[ModelTool]) -> ModelRequest:
        is_plain, settings = self.agent.is_plain, self.agent.settings
        return ModelRequest(
            messages=tuple(messages),
            tools=tuple(tools),
            tool_choice=self.agent.client.choice if self.is_first else ToolChoice.AUTO,
            answer_schema=self.agent.client.schema_text,
            top_p=self.agent.client.top_p,
            reasoning_effort=self.agent.client.reasoning_effort,
            parallel_calls=self.agent.client.parallel_calls,
            temperature=None if is_plain else settings.temperature,
            max_tokens=None if is_plain else self._answer_tokens(messages, tools),
        )


async def _stream_answer(model: ChatModel, request: ModelRequest, deadline: RunDeadline) -> AsyncGenerator[ModelEvent]:
    """Yield the events of an answer until the deadline, even while the model sends nothing."""
    events: asyncio.Queue[ModelEvent | None] = asyncio.Queue()

    async def read() -> None:
        async with aclosing(model.stream(request)) as stream:
            async for event in stream:
                events.put_nowait(event)

    # A separate task reads the stream, because a generator cannot be interrupted while it waits.
    reader = asyncio.ensure_future(read())
    reader.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while not deadline.is_over:
            try:
                async with asyncio.timeout(deadline.timeout_s()):
                    event = await events.get()
            except TimeoutError:
                return
            if event is None:
                break
            yield event
        else:
            return
    finally:
        if not reader.done():
            await abandon_task(reader)
    if reader.cancelled():
        yield ReplyFailed(reason=FailureReason.CUT)
    else:
        reader.result()


def stop_of(failed: ReplyFailed | None, /) -> StopReason:
    """Return why a run ends if its model gave no answer."""
    if failed is None:
        return StopReason.SECONDS
    return StopReason.MALFORMED if failed.reason is FailureReason.MALFORMED else StopReason.FAILED


DONE_TOOL: Final = "done"
DONE_TOGETHER: Final = "`done` was called with other tools. Call it on its own, when nothing else is left to do."
UNKNOWN: Final = (
    "Outcome unknown: the process ended in the middle of this call. It may or may not have had its effect. Do not "
    "assume either; look, or ask the user."
)
LATE: Final = "The tool did not answer in time. Outcome unknown: it may still have its effect."


class ReadCall(Value):
    """A call with its parsed arguments, or the problem with them."""

    call: ToolCall
    arguments: dict[str, Any] = {}
    problem: str = ""
    """Why the call cannot be made."""
    is_malformed: bool = False
    """True if the arguments are not a JSON object, so that the model must be asked again."""


def read_call(call: ToolCall, tools: Mapping[str, Tool], /) -> ReadCall:
    """Parse the arguments of a call. Almost valid JSON is repaired."""
    if call.name not in tools:
        tool_names = ", ".join(sorted(tools))
        return ReadCall(call=call, problem=f"There is no tool of this name. Available: {tool_names or 'none'}.")
    try:
        # Some models send an empty string for a tool without arguments.
        arguments: object = strict_json.parse_json((call.arguments.strip() or "{}").encode("utf-8", "replace"))
    except ElytronError:
        arguments = _repair_json(call.arguments)
    if not isinstance(arguments, dict):
        problem = "The arguments are not a JSON object. Call the tool again with one that fits its schema."
        return ReadCall(call=call, problem=problem, is_malformed=True)
    return ReadCall(call=call, arguments=cast("dict[str, Any]", arguments))


def distinct_calls(items: Sequence[ReplyItem], /) -> tuple[ReplyItem, ...]:
    """Return the items of a reply with a unique id per call, because some servers give all calls the same id."""
    call_ids: set[str] = set()
    reply_items: list[ReplyItem] = []
    for index, item in enumerate(items):
        if isinstance(item, ToolCall):
            call_id = item.id if item.id and item.id not in call_ids else f"{item.id or 'call'}-{index}"
            call_ids.add(call_id)
            reply_items.append(item.model_copy(update={"id": call_id}))
        else:
            reply_items.append(item)
    return tuple(reply_items)


def digest_of(call: ToolCall, /) -> str:
    """Return a digest of the call's arguments at the time of the call."""
    return hashlib.sha256(call.arguments.encode()).hexdigest()[:16]


async def make_call(
    tool: Tool, parsed_call: ReadCall, key: CallKey, /, *, place: int, timeout_s: float | None
) -> CallResult:
    """Call the tool and return the result. A failure of the tool is also a result, and the run continues."""
    is_outcome_unknown = False
    try:
        answer = await finish_work(tool.call(parsed_call.arguments, key), timeout_s=timeout_s)
        text, is_error, is_outside = answer.text, answer.is_error, answer.is_outside
    except TimeoutError:
        text, is_error, is_outside, is_outcome_unknown = LATE, True, False, not tool.read_only
    except WorkCancelled:
        text, is_error, is_outside = "The tool failed: it cancelled its own work.", True, False
    except Exception as error:  # noqa: BLE001 - a tool is foreign code, and its failure is reported to the model
        problem = clip_text(str(error), limits.PROBLEM_CHARS)
        text, is_error, is_outside = f"The tool failed: {type(error).__name__}: {problem}", True, True
    return CallResult(
        step=key.step,
        place=place,
        call=parsed_call.call.id,
        tool=parsed_call.call.name,
        text=clip_text(text, RESULT_CHARS),
        is_error=is_error,
        is_outside=is_outside,
        is_unknown=is_outcome_unknown,
    )


async def make_side_by_side(calls: Sequence[Coroutine[Any, Any, CallResult]], /) -> list[CallResult]:
    """Run calls concurrently and return their results in order."""
    if len(calls) <= 1:
        return [await call for call in calls]
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    # If one fails, `gather` would leave the others running.
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def denied_call(call: ToolCall, reason: str, /, *, step: int, place: int) -> CallResult:
    """Return the result of a call that was not approved."""
    text = REFUSED.format(reason=clip_text(" ".join(reason.split()), limits.PROBLEM_CHARS) or "no reason was given")
    return refused_call(call, text, step=step, place=place).model_copy(update={"is_refused": True})


def refused_call(call: ToolCall, problem: str, /, *, step: int, place: int, is_unknown: bool = False) -> CallResult:
    """Return the result of a call that is not made."""
    return CallResult(
        step=step, place=place, call=call.id, tool=call.name, text=problem, is_error=True, is_unknown=is_unknown
    )


def _repair_json(text: str) -> object | None:
    try:
        import json_repair
    except ImportError:
        return None
    document: object = json_repair.loads(text)
    return document


_WORD: Final = re.compile(r"\w+")
_ABOUT: Final = (
    "Read archived results of this turn. With id: its text, starting at offset. With query: passages that contain its "
    "words, in all results or that one. With neither: a list of the results."
)


@dataclass(frozen=True, slots=True)
class ShownPart:
    """The part of a running turn that a request shows: steps from `first` on, with `away` results cut to one line."""

    first: int = 1
    away: frozenset[tuple[int, int]] = frozenset()
    """Step and place of each archived result."""
    results: dict[tuple[int, int], ToolResult] = field(default_factory=dict[tuple[int, int], ToolResult], compare=False)
    """Fenced results. Each step shows all earlier results again, so fencing is done once per result."""

    @property
    def is_whole(self) -> bool:
        return self.first == 1 and not self.away

    def turn_of(self, record: RunRecord, /) -> WindowTurn:
        """Return the run as a turn of the window."""
        items: list[Message] = []
        if self.first > 1:
            correction_note = (
                f"[Steps 1 to {self.first - 1} of this turn are no longer shown: `{READ_RESULT}` reads their results.]"
            )
            items.append(reference_message(correction_note))
        for reply in record.replies:
            if reply.step >= self.first:
                items.append(ModelReply(items=reply.items))
                items += [
                    self._result_message(call_result, record.input.run)
                    for call_result in record.results
                    if call_result.step == reply.step
                ]
                items += [correction_message(reply.correction)] if reply.correction else []
        return record.turn_of(tuple(items))

    def without_results(self, record: RunRecord, excess_bytes: int, /, *, with_last: bool = False) -> "ShownPart":
        """Archive the oldest results until `excess_bytes` are saved; those of the last step only `with_last`.

        A result that is no longer than its replacement line stays.
        """
        last_step = len(record.replies)
        away_places = set(self.away)
        for result in record.results:
            if excess_bytes <= 0:
                break
            result_place = (result.step, result.place)
            saved_bytes = len(self._whole(result, record.input.run).text.encode()) - len(_result_line(result).encode())
            if result_place not in away_places and saved_bytes > 0 and (with_last or result.step < last_step):
                away_places.add(result_place)
                excess_bytes -= saved_bytes
        return replace(self, away=frozenset(away_places))

    def without_step(self, record: RunRecord, /) -> "ShownPart | None":
        """Return the part without its oldest step, or None if only the last one is left."""
        return replace(self, first=self.first + 1) if self.first < len(record.replies) else None

    def _whole(self, result: CallResult, run: str) -> ToolResult:
        result_place = (result.step, result.place)
        if result_place not in self.results:
            self.results[result_place] = shown_result(result, run)
        return self.results[result_place]

    def _result_message(self, result: CallResult, run: str) -> Message:
        whole_result = self._whole(result, run)
        is_away = (result.step, result.place) in self.away
        return whole_result.model_copy(update={"text": _result_line(result)}) if is_away else whole_result


class ReadResultArguments(ToolArguments):
    """Arguments of `read_result`."""

    id: Annotated[str, Field(max_length=20, description="Id of the result, such as 3.0.")] = ""
    query: Annotated[str, Field(max_length=400, description="Words to look for.")] = ""
    offset: Annotated[int, Field(ge=0)] = 0


def read_result_tool(record: Callable[[], RunRecord], /) -> Tool:
    """Return the tool that reads results of a run again."""

    async def read(arguments: ReadResultArguments, _key: CallKey, /) -> ToolAnswer:
        results = [each for each in record().results if each.tool != READ_RESULT]
        if arguments.id:
            results = [each for each in results if _result_id(each) == arguments.id.strip()]
            if not results:
                return ToolAnswer(text=f"There is no result {arguments.id!r}.", is_error=True)
        if arguments.query.strip():
            text = "\n\n".join(_best_passages(results, arguments.query)) or "No result contains these words."
        elif arguments.id:
            text = _result_page(results[0], arguments.offset)
        else:
            text = "\n".join(_result_line(each) for each in results[-RESULTS_LISTED:]) or "There are no results yet."
        return ToolAnswer(text=text, is_outside=any(each.is_outside for each in results))

    return typed_tool(READ_RESULT, _ABOUT, ReadResultArguments, read, read_only=True)


def _result_id(result: CallResult) -> str:
    return f"{result.step}.{result.place}"


def _result_line(result: CallResult) -> str:
    size_text = f"{len(result.text):,} characters"
    return f"[`{result.tool}`: {size_text}, archived; `{READ_RESULT}` reads them, id {_result_id(result)}]"


def _result_page(result: CallResult, offset: int) -> str:
    page = result.text[offset : offset + RESULT_PAGE_CHARS]
    page_heading = f"{_result_id(result)}, characters {offset:,} to {offset + len(page):,} of {len(result.text):,}:"
    return f"{page_heading}\n{page}"


def _best_passages(results: list[CallResult], query: str) -> list[str]:
    """Return the passages that contain most words of the query. Of equal ones, the latest come first."""
    query_words = set(_WORD.findall(query.casefold()))
    ranked_pieces = sorted(_result_pieces(results, query_words), key=lambda piece: piece[0], reverse=True)
    return [text for _, text in ranked_pieces[:RESULT_PASSAGES]]


def _result_pieces(results: list[CallResult], query_words: set[str]) -> Iterator[tuple[int, str]]:
    passage_chars = RESULT_PASSAGE_CHARS
    for result in reversed(results):
        # Pieces overlap, so that a passage at a boundary is complete in one of them.
        for piece_start in range(0, max(len(result.text), 1), passage_chars // 2):
            piece = result.text[piece_start : piece_start + passage_chars]
            if match_count := len(query_words & set(_WORD.findall(piece.casefold()))):
                yield match_count, f"{_result_id(result)} (`{result.tool}`), from character {piece_start:,}:\n{piece}"


class NextDoing(StrEnum):
    """Kind of the next action."""

    ASK = "ask"
    CALL = "call"
    END = "end"


class NextAction(NamedTuple):
    """The next action: a request to the model, calls of its last reply by their places, or the end."""

    doing: NextDoing
    reason: StopReason = StopReason.ANSWERED
    places: tuple[int, ...] = ()


_ENDS = {FinishReason.LENGTH: StopReason.LENGTH, FinishReason.REFUSED: StopReason.REFUSED}


def next_action(
    record: RunRecord, budget: RunBudget, /, *, readers: Collection[str] = (), handed: Collection[str] = ()
) -> NextAction:
    """Return what the run does next.

    Calls are made in the order of the reply. Adjacent calls of read-only tools, named in `readers`, run concurrently.
    Tools named in `handed` belong to the client, and calling one ends the run.
    """
    if not record.replies:
        return NextAction(NextDoing.ASK) if record.input.asks else NextAction(NextDoing.END, StopReason.DONE)
    last_reply = record.replies[-1]
    calls = last_reply.calls
    result_places = {result.place for result in record.results if result.step == last_reply.step}
    missing_places = [
        place for place, call in enumerate(calls) if place not in result_places and call.name not in handed
    ]
    if missing_places:
        return NextAction(NextDoing.CALL, places=_side_by_side(calls, missing_places, readers))
    if record.corrections > MAX_CORRECTIONS:
        return NextAction(NextDoing.END, StopReason.MALFORMED)
    if not calls and not last_reply.correction:
        return NextAction(NextDoing.END, _ENDS.get(last_reply.finish, StopReason.ANSWERED))
    if any(call.name in handed for call in calls):
        return NextAction(NextDoing.END, StopReason.HANDED)
    if [call.name for call in calls] == [DONE_TOOL]:
        return NextAction(NextDoing.END, StopReason.DONE)
    usage = record.usage
    if len(record.replies) >= budget.steps:
        return NextAction(NextDoing.END, StopReason.STEPS)
    if budget.calls is not None and usage.calls > budget.calls:
        return NextAction(NextDoing.END, StopReason.CALLS)
    if budget.tokens is not None and usage.tokens >= budget.tokens:
        return NextAction(NextDoing.END, StopReason.TOKENS)
    return NextAction(NextDoing.ASK)


def end_reason(record: RunRecord, budget: RunBudget, /, *, handed: Collection[str] = ()) -> StopReason:
    """Return why an interrupted run ends: its actual outcome if only the end is missing, otherwise cancelled."""
    if record.end is not None:
        return record.end.reason
    action = next_action(record, budget, handed=handed)
    return action.reason if action.doing is NextDoing.END else StopReason.CANCELLED


def _side_by_side(calls: Sequence[ToolCall], missing: Sequence[int], readers: Collection[str]) -> tuple[int, ...]:
    """Return the first missing call, and if it only reads, the read-only calls directly after it."""
    reading_places = tuple(takewhile(lambda place: calls[place].name in readers, missing))
    return reading_places[:READS_AT_ONCE] or (missing[0],)
