"""The response service: plan the turn of a request, queue it for its thread, stream it, and compact inputs."""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from elytron_agent.loop.run_input import TurnOpening, check_input
from elytron_agent.runs.events import (
    AgentEvent,
    AnswerDropped,
    RunEnded,
    RunStarted,
    StepTaken,
    StopReason,
    TextSaid,
    ToolAnswered,
)
from elytron_agent.runs.journal import RunEnd, RunInput, RunRecord
from elytron_agent.runs.settings import AgentSettings
from elytron_agent.runs.thread import holds_thread
from elytron_agent.service.chat_turn import INTERNAL, TurnLines, TurnTicket
from elytron_agent.service.companion import KnownAgent, UserAgents, config_of
from elytron_agent.service.events import TurnFeed
from elytron_agent.service.responses.response_items import (
    SummarySeal,
    TurnInput,
    call_items,
    changed_settings,
    client_part,
    listed_items,
    message_item,
    output_items,
    read_input,
    require_options,
    require_room,
    stored_items,
    word_of,
    words_of_messages,
)
from elytron_agent.service.responses.response_repository import (
    ConversationRepository,
    KnownResponse,
    ResponseDocument,
    ResponseRepository,
    require_model,
    response_body,
)
from elytron_agent.service.responses.response_wire import (
    CallItem,
    CompactedBody,
    CompactionItem,
    CompactRequest,
    InputItem,
    OutputItem,
    ResponseBody,
    ResponseProblem,
    ResponseRequest,
)
from elytron_core.errors import Conflict, ElytronError, InvalidInput, ModelError, NotFound
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.policy.projection.sections import clip_text
from elytron_core.ports.chat import ModelReply, ToolCall
from elytron_models.answer import ask_for
from elytron_models.client import ModelClient
from elytron_turn import limits as turn_limits
from elytron_turn.compaction import WindowSummaryDraft, extract_summary, problem_of, summary_request
from elytron_turn.context import WindowTurn, shown_given
from elytron_turn.sizes import window_of

if TYPE_CHECKING:
    from elytron_agent.loop.agent import Agent
    from elytron_agent.service.chat_turn import AgentPool

RESPONSE_FEEDS: Final = 64
"""Maximum number of finished background responses whose streams can be replayed."""


_OVER: Final = b"data: [DONE]\n\n"
"""The end of every stream."""


class ResponseStream:
    """Append the events of one response to a feed. `body` is set at the end."""

    def __init__(self, document: ResponseDocument, feed: TurnFeed[bytes], /) -> None:
        self.document = document
        self.body: ResponseBody | None = None
        self._feed = feed
        self._number = 0
        self._step, self._attempt = 1, 0
        self._text: str | None = None
        """Text of the current message; None between messages."""
        self._items: list[OutputItem] = []
        self._ended: RunEnded | None = None

    def begin(self, record: RunRecord | None = None) -> None:
        """Emit the start of the response, with messages of a run that was started by an earlier process."""
        body = response_body(self.document, None, status="in_progress")
        if self._number == 0:
            self._put("response.created", response=body.model_dump(mode="json", by_alias=True))
            self._put("response.in_progress", response=body.model_dump(mode="json", by_alias=True))
        if record is not None:
            self._add_missing(record)
            self._step = len(record.replies) + 1

    def take(self, event: AgentEvent, /) -> None:
        """Emit the stream events for one event of the run."""
        match event:
            case TextSaid():
                self._begin_message()
                self._text = (self._text or "") + event.text
                self._put("response.output_text.delta", delta=event.text, logprobs=[], **self._content_place())
            case AnswerDropped():
                self._end_message(self._text or "", status="incomplete")
                self._attempt += 1
            case StepTaken():
                if event.text:
                    self._begin_message()
                    self._end_message(event.text)
                elif self._text is not None:
                    self._end_message(self._text)
                self._step, self._attempt = event.step + 1, 0
            case RunEnded():
                self._ended = event
                for item in call_items(self.document.id, event.usage.steps, event.calls):
                    self._add_call(item)
            case _:
                pass

    def finish(self, record: RunRecord | None) -> ResponseBody:
        """Emit the last event and return the response. `record` is the stored run, or None if it is not stored."""
        if record is not None:
            self._add_missing(record)
        elif self._ended is not None:
            record = _unstored_record(self.document, self._ended)
        response = response_body(self.document, record)
        if not self.document.form.is_stored:
            response = response.model_copy(update={"output": tuple(self._items)})
        return self._last(response)

    def fail(self, code: str, message: str) -> ResponseBody:
        """Emit the end of a failed response and return it."""
        self.document = self.document.model_copy(update={"problem": ResponseProblem(code=code, message=message)})
        if self._text is not None:
            self._end_message(self._text, status="incomplete")
        body = response_body(self.document, None)
        return self._last(body.model_copy(update={"output": tuple(self._items)}))

    def _last(self, body: ResponseBody) -> ResponseBody:
        event_suffix = {"completed": "completed", "incomplete": "incomplete"}.get(body.status, "failed")
        # An interrupted message stays in this stream's response, because its client has seen it.
        incomplete_items = tuple(item for item in self._items if item.status == "incomplete")
        whole_body = body.model_copy(update={"output": tuple(self._items)}) if incomplete_items else body
        self.body = body
        self._put(f"response.{event_suffix}", response=whole_body.model_dump(mode="json", by_alias=True))
        self._feed.put(_OVER)
        return body

    def _add_missing(self, record: RunRecord) -> None:
        """Add stored output that this stream has not sent."""
        item_ids = {item.id for item in self._items}
        for item in output_items(self.document.id, record):
            if item.id in item_ids:
                continue
            if isinstance(item, CallItem):
                self._add_call(item)
            else:
                self._step, self._attempt = int(item.id.rpartition("_")[2]), 0
                self._begin_message()
                self._end_message(item.content[0].text)

    def _begin_message(self) -> None:
        if self._text is not None:
            return
        self._text = ""
        item = message_item(self.document.id, self._step, "", attempt=self._attempt, status="in_progress")
        self._put(
            "response.output_item.added",
            output_index=len(self._items),
            item=item.model_copy(update={"content": ()}).model_dump(mode="json"),
        )
        self._put("response.content_part.added", part=_text_part(""), **self._content_place())

    def _end_message(self, text: str, *, status: str = "completed") -> None:
        if self._text is None:
            return
        content_place = self._content_place()
        self._put("response.output_text.done", text=text, logprobs=[], **content_place)
        self._put("response.content_part.done", part=_text_part(text), **content_place)
        item = message_item(self.document.id, self._step, text, attempt=self._attempt, status=status)
        self._put("response.output_item.done", output_index=len(self._items), item=item.model_dump(mode="json"))
        self._items.append(item)
        self._text = None

    def _add_call(self, item: CallItem) -> None:
        output_index = len(self._items)
        open_item = item.model_copy(update={"arguments": "", "status": "in_progress"})
        item_place: dict[str, Any] = {"item_id": item.id, "output_index": output_index}
        self._put("response.output_item.added", output_index=output_index, item=open_item.model_dump(mode="json"))
        self._put("response.function_call_arguments.delta", delta=item.arguments, **item_place)
        self._put("response.function_call_arguments.done", arguments=item.arguments, name=item.name, **item_place)
        self._put("response.output_item.done", output_index=output_index, item=item.model_dump(mode="json"))
        self._items.append(item)

    def _content_place(self) -> dict[str, Any]:
        item = message_item(self.document.id, self._step, "", attempt=self._attempt)
        return {"item_id": item.id, "output_index": len(self._items), "content_index": 0}

    def _put(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        data = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        self._feed.put(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))


def _unstored_record(document: ResponseDocument, ended: RunEnded) -> RunRecord:
    """Return the end of a run that is not stored, in the form of a stored one."""
    run_input = RunInput(run=document.id, at=document.created_at, text="", thread=document.thread, is_stored=False)
    run_end = RunEnd(reason=ended.reason, problem=ended.problem, usage=ended.usage, at=document.created_at)
    return RunRecord(input=run_input, end=run_end)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResponseTurn:
    """A turn that answers a response."""

    user: UserAgents
    agent: KnownAgent
    document: ResponseDocument
    input: TurnInput
    after: str | None = None
    is_resumed: bool = False


@dataclass(slots=True)
class OpenResponse:
    """A response with its events, whose turn runs, waits or is over."""

    feed: TurnFeed[bytes]
    stream: ResponseStream


class ResponseService:
    """Run the turns of responses in this process."""

    def __init__(self, pool: "AgentPool", lines: TurnLines, /) -> None:
        self._pool = pool
        self._lines = lines
        self._open: LruCache[tuple[SpaceId, str], OpenResponse] = LruCache(RESPONSE_FEEDS)

    def forget_space(self, space: SpaceId, /) -> None:
        """Discard the responses of a space with their events."""
        for thread_place in [thread_place for thread_place in self._open if thread_place[0] == space]:
            del self._open[thread_place]

    async def plan(self, user: UserAgents, request: ResponseRequest, response: str, /) -> ResponseTurn:
        """Plan the turn of a request. Raises InvalidInput, NotFound if it continues something that does not exist."""
        main, repository = await user.answering(), ResponseRepository(user)
        config = config_of(main, user.settings)
        model = require_model(request.model, config.models, config.model)
        require_options(request, self._pool.model(user.settings.model_named(model)))
        thread, after_response, open_calls = repository.new_thread(), None, dict[str, str]()
        if (conversation := request.conversation_id) is not None:
            thread = (await ConversationRepository(user, self._lines).read(conversation)).id
            runs = (await repository.head(thread)).window[-1:]
            open_calls = await _open_calls(repository, thread, runs)
        elif request.previous_response_id is not None:
            previous_document = (await repository.read(request.previous_response_id)).document
            open_calls = await _open_calls(repository, previous_document.thread, (previous_document.id,))
            head = await repository.head(previous_document.thread)
            is_last = head.last == previous_document.id and previous_document.conversation is None
            thread, after_response = (
                (previous_document.thread, previous_document.id)
                if is_last
                else (await repository.branch(previous_document), None)
            )
        items = await self.read_items(user, request.items, open_calls)
        check_input(AgentSettings(enabled=True), items.text, items.images, opening=TurnOpening(items.before))
        require_room(request, items, config.max_context_tokens)
        document = ResponseDocument(
            id=response,
            thread=thread,
            conversation=conversation,
            previous=request.previous_response_id,
            created_at=user.memory.context.clock.now(),
            model=model,
            form=request.form,
            items=stored_items(request.items),
            asked=request.digest,
        )
        return ResponseTurn(user, main, document, items, after_response)

    async def read_items(
        self, user: UserAgents, items: Sequence[InputItem], calls: Mapping[str, str], /, *, is_whole: bool = False
    ) -> TurnInput:
        """Parse an input into messages. With `is_whole`, the user's text also becomes a message."""
        seal = SummarySeal(user)
        if any(item.type == "compaction" for item in items):
            await seal.prepare()
        return read_input(items, calls, seal.open, is_whole=is_whole)

    async def begin(self, turn: ResponseTurn, /) -> OpenResponse:
        """Run a turn after those that wait for its thread, and return its events. Raises ThreadBusy, LimitExceeded."""
        document, repository = turn.document, ResponseRepository(turn.user)
        if document.form.is_stored and not turn.is_resumed:
            await repository.put(document)
        feed = TurnFeed[bytes]()
        open_response = OpenResponse(feed, ResponseStream(document, feed))
        self._open[turn.user.space, document.id] = open_response
        thread_place = (turn.user.space, document.thread)
        try:
            ticket = await self._lines.ticket(turn.user, thread_place, document.thread)
        except ElytronError:
            self._open.pop((turn.user.space, document.id), None)
            if not turn.is_resumed:
                await repository.erase(KnownResponse(document=document))
            raise
        self._lines.begin(
            thread_place, partial(self._work, open_response, turn, ticket), feed, name=document.id, ticket=ticket
        )
        return open_response

    async def add_items(
        self, user: UserAgents, conversation: str, items: Sequence[InputItem], /
    ) -> list[dict[str, JsonValue]]:
        """Add items to a conversation, each as a turn without an answer, and return them. Raises ThreadBusy."""
        main, repository = await user.answering(), ResponseRepository(user)
        runs = (await repository.head(conversation)).window[-1:]
        calls = await _open_calls(repository, conversation, runs)
        added_items: list[dict[str, JsonValue]] = []
        for item in items:
            if item.type == "function_call":
                calls[item.call_id or ""] = item.name or ""
            input_items = await self.read_items(user, (item,), calls, is_whole=True)
            document = ResponseDocument(
                id=repository.new_response(),
                thread=conversation,
                conversation=conversation,
                created_at=user.memory.context.clock.now(),
                items=stored_items((item,)),
                is_added=True,
            )
            await repository.put(document)
            agent = self._agent(ResponseTurn(user, main, document, TurnInput()), AgentSettings(enabled=True))
            try:
                if input_items.before:
                    opening = TurnOpening(input_items.before, asks=False)
                    async with aclosing(agent.run("", run_id=document.id, opening=opening)) as run:
                        async for _ in run:
                            pass
            finally:
                await agent.close()
            added_items += listed_items(document.id, document.items)
        return added_items

    def model(self, address: str, /) -> ModelClient:
        """Return a model of the server."""
        return self._pool.model(address)

    def opened(self, user: UserAgents, response: str, /) -> OpenResponse | None:
        """Return a response whose events are in this process, or None."""
        return self._open.get((user.space, response))

    def is_busy(self, user: UserAgents, document: ResponseDocument, /) -> bool:
        """Return whether this process runs the turn of a response."""
        return self._lines.is_busy((user.space, document.thread), name=document.id)

    async def look(self, user: UserAgents, response: KnownResponse, /) -> None:
        """Resume a response if its process has ended."""
        document = response.document
        if response.is_over or document.is_cancelled or self.is_busy(user, document):
            return
        head = await ResponseRepository(user).head(document.thread)
        if holds_thread(head.lease, user.memory.context.clock.now()):
            return
        input_items = await self.read_items(user, document.items, {}) if response.record is None else TurnInput()
        main = await user.answering()
        await self.begin(ResponseTurn(user, main, document, input_items, is_resumed=True))

    async def cancel(self, user: UserAgents, response: KnownResponse, /) -> None:
        """Cancel the turn of a response. If another process runs it, that process ends it at its next step."""
        if response.is_over:
            return
        document, repository = response.document, ResponseRepository(user)
        await repository.put(document.model_copy(update={"is_cancelled": True}))
        await self._lines.cancel((user.space, document.thread), name=document.id)
        head = await repository.head(document.thread)
        if head.open == document.id and not holds_thread(head.lease, user.memory.context.clock.now()):
            agent = self._agent(
                ResponseTurn(user, await user.answering(), document, TurnInput()), AgentSettings(enabled=True)
            )
            await agent.cancel()
            await agent.close()

    async def _work(self, opened: OpenResponse, turn: ResponseTurn, ticket: TurnTicket | None) -> None:
        stream, repository, document = opened.stream, ResponseRepository(turn.user), turn.document
        try:
            try:
                await self._run(stream, turn, ticket)
            except Conflict:
                if turn.after is None:
                    raise
                # The thread has moved on, so this response starts a branch.
                turn = await self._branched(repository, turn)
                stream.document = turn.document
                await self._run(stream, turn, ticket)
            record = (
                await repository.journal(turn.document.thread).load(document.id) if document.form.is_stored else None
            )
            stream.finish(record)
        except ElytronError as error:
            await self._failed(stream, repository, turn, error.key, error.message)
        except Exception as error:
            logger.exception("a response failed (%s)", type(error).__name__)
            await self._failed(stream, repository, turn, "server_error", INTERNAL)
        finally:
            if not document.form.is_stored and turn.after is None and document.conversation is None:
                await repository.drop_thread(turn.document.thread)

    async def _failed(
        self, stream: ResponseStream, repository: ResponseRepository, turn: ResponseTurn, key: str, text: str
    ) -> None:
        stream.fail(key, text)
        if turn.document.form.is_stored:
            problem = ResponseProblem(code=key, message=text)
            await repository.put(turn.document.model_copy(update={"problem": problem}))

    async def _branched(self, repository: ResponseRepository, turn: ResponseTurn) -> ResponseTurn:
        previous_response = await repository.find(turn.after or "")
        moved_document = turn.document.model_copy(
            update={"thread": await repository.branch(previous_response.document)}
        )
        if moved_document.form.is_stored:
            await repository.erase(KnownResponse(document=turn.document))
            await repository.put(moved_document)
        return replace(turn, document=moved_document, after=None)

    async def _run(self, stream: ResponseStream, turn: ResponseTurn, ticket: TurnTicket | None) -> None:
        document, repository = turn.document, ResponseRepository(turn.user)
        settings = self._pool.settings_of(turn.agent, await turn.user.preferences())
        agent = self._agent(turn, changed_settings(settings, document.form))
        record = await repository.journal(document.thread).load(document.id) if turn.is_resumed else None
        stream.begin(record)
        if record is not None:
            runs = agent.resume()
        else:
            opening = TurnOpening(turn.input.before, turn.after)
            runs = agent.run(
                turn.input.text,
                images=turn.input.images,
                run_id=document.id,
                store=document.form.is_stored,
                opening=opening,
            )
        try:
            current_run = ""
            async with aclosing(runs) as events:
                async for event in events:
                    if ticket is not None:
                        await ticket.leave(event)
                    if isinstance(event, RunStarted | RunEnded):
                        current_run = event.run
                    # An interrupted run is resumed first, and its events do not belong to this response.
                    if current_run != document.id:
                        continue
                    stream.take(event)
                    if isinstance(event, StepTaken | ToolAnswered) and await self._is_cancelled(repository, document):
                        break
            if await self._is_cancelled(repository, document):
                await agent.cancel()
        finally:
            await agent.close()

    async def _is_cancelled(self, repository: ResponseRepository, document: ResponseDocument) -> bool:
        if not document.form.background:
            return False
        return (await repository.find(document.id)).document.is_cancelled

    def _agent(self, turn: ResponseTurn, settings: AgentSettings) -> "Agent":
        form, service_settings = turn.document.form, turn.user.settings
        return self._pool.response_agent(
            turn.user,
            turn.document.thread,
            settings,
            client_part(form),
            service_settings.model_named(turn.document.model),
        )


async def _open_calls(repository: ResponseRepository, thread: str, runs: Sequence[str]) -> dict[str, str]:
    """Return the calls of the last turn that wait for the client, as ids with tool names."""
    if not runs:
        return {}
    record = await repository.journal(thread).load(runs[-1])
    if record is None:
        return {}
    reply_items = (item for message in record.input.before if isinstance(message, ModelReply) for item in message.items)
    is_handed_to_client = record.end is not None and record.end.reason is StopReason.HANDED
    calls = (
        *(record.open_calls if is_handed_to_client else ()),
        *(item for item in reply_items if isinstance(item, ToolCall)),
    )
    return {call.id: call.name for call in calls}


_HEAD: Final = "Summary of the conversation so far:\n"


async def sum_up(service: ResponseService, user: UserAgents, request: CompactRequest, /) -> CompactedBody:
    """Return a sealed summary of an input and the history it continues, written by a model or else extracted.

    Raises NotFound, and InvalidInput if there is nothing to summarise or the model is unknown.
    """
    main, repository, now = await user.answering(), ResponseRepository(user), user.memory.context.clock.now()
    config = config_of(main, user.settings)
    model = require_model(request.model, config.models, config.model)
    turns: list[WindowTurn] = []
    if request.previous_response_id is not None:
        document = (await repository.read(request.previous_response_id)).document
        runs = await repository.runs(document.thread)
        if document.id not in runs:
            raise NotFound(what="response", name=document.id)
        previous_responses = await repository.turns(document.thread, runs[: runs.index(document.id) + 1])
        turns += [
            previous_response.record.turn
            for previous_response in previous_responses
            if previous_response.record is not None
        ]
    items = ResponseRequest(input=request.input).items if request.input is not None else ()
    calls = {call.call_id or "": call.name or "" for call in items if call.type == "function_call"}
    input_items = await service.read_items(user, items, calls)
    history = words_of_messages(shown_given(input_items.before))
    if history or input_items.text:
        input_text = "\n".join(part for part in (history, input_items.text) if part)
        turns.append(WindowTurn(run="", at=now, input=clip_text(input_text, turn_limits.SUMMARY_INPUT_CHARS)))
    if not turns:
        raise InvalidInput(field="input", problem="is empty: there is nothing to summarize")
    text = await _written_summary(service, user, model, turns, most=config.max_context_tokens)
    seal = SummarySeal(user)
    await seal.prepare()
    response_name = repository.new_response()
    item = CompactionItem(id=f"cmp_{word_of(response_name)}_0", encrypted_content=seal.seal(_HEAD + text))
    return CompactedBody(id=response_name, created_at=now // 1000, output=(item,))


async def _written_summary(
    service: ResponseService, user: UserAgents, model: str, turns: list[WindowTurn], *, most: int
) -> str:
    address = user.settings.summary_model or user.settings.model_named(model)
    summary_model = service.model(address)
    request = summary_request(turns, "", window=window_of(summary_model, most))
    try:
        answer = await ask_for(summary_model, request, WindowSummaryDraft)
    except ModelError:
        return extract_summary(turns, "")
    summary_draft = answer.value
    if problem_of(summary_draft, turns, "") is not None:
        return extract_summary(turns, "")
    return summary_draft.text
