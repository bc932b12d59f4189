"""The repository of responses and conversations. Each response is a turn of an agent, in its own kind of thread.

The request is stored where erasing the turn also removes it. A response that continues another joins its thread. If
that thread has moved on, it starts a branch: a new thread whose window begins with turns of the old one.
"""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from pydantic import JsonValue

from elytron_agent import limits
from elytron_agent.loop.removal import SharedMemory, ThreadRemoval, delete_agent
from elytron_agent.runs.events import StopReason
from elytron_agent.runs.journal import RunJournal, RunRecord, run_of_documents
from elytron_agent.runs.thread_notes import AGENTS, MARK, named_run, run_place
from elytron_agent.service.companion import UserAgents
from elytron_agent.service.responses.response_items import listed_items, output_items, response_of_item
from elytron_agent.service.responses.response_wire import (
    RESPONSE_PREFIX,
    THREAD_PREFIX,
    BatchOutcome,
    ConversationBody,
    ConversationList,
    ConversationRef,
    IncompleteReason,
    InputItem,
    ItemPage,
    Metadata,
    ResponseBody,
    ResponseForm,
    ResponseProblem,
    ResponseUsage,
    Status,
)
from elytron_agent.service.thread_items import ItemOrder
from elytron_core.clock import Instant
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound
from elytron_core.model import Value
from elytron_core.planes.records import COPIES_OF_BLOCKS, Record, copies_of_conversation, copies_of_turn
from elytron_core.policy.admission.own_output import of_others
from elytron_turn.context import ThreadHead, WindowTurn

if TYPE_CHECKING:
    from elytron_agent.service.chat_turn import TurnLines

RESPONSE_INPUT_BYTES: Final = 200_000
"""Maximum size of a stored input without its images, so that it fits into a document."""
RESPONSE_RUNS: Final = 2_000
"""Maximum number of earlier turns in a branched thread."""


ItemT = TypeVar("ItemT")
_REQUEST: Final = f"{MARK}response"
_ENDS: Final[dict[StopReason, Status]] = {
    StopReason.STEPS: "incomplete",
    StopReason.CALLS: "incomplete",
    StopReason.TOKENS: "incomplete",
    StopReason.SECONDS: "incomplete",
    StopReason.LENGTH: "incomplete",
    StopReason.REFUSED: "incomplete",
    StopReason.WINDOW: "failed",
    StopReason.FAILED: "failed",
    StopReason.MALFORMED: "failed",
    StopReason.CANCELLED: "cancelled",
}
_FAILED: Final = "the model could not be called, or returned no usable answer"


class ResponseDocument(Value):
    """The request of a response. `thread` contains its turn; `previous` is the turn before it."""

    id: str
    thread: str
    conversation: str | None = None
    previous: str | None = None
    created_at: Instant
    model: str = ""
    form: ResponseForm = ResponseForm()
    items: tuple[InputItem, ...] = ()
    asked: str = ""
    """Digest of the input as it was sent, including images; empty for added items."""
    is_added: bool = False
    """True for items that were added to a conversation without asking the model."""
    is_cancelled: bool = False
    problem: ResponseProblem | None = None
    """Why it failed before its turn began."""


class KnownResponse(Value):
    """A response with its stored turn."""

    document: ResponseDocument
    record: RunRecord | None = None

    @property
    def body(self) -> ResponseBody:
        """Return the response in its form for the client."""
        return response_body(self.document, self.record)

    @property
    def is_over(self) -> bool:
        if self.record is None:
            return self.document.problem is not None or self.document.is_cancelled
        return self.record.end is not None


def response_body(
    document: ResponseDocument,
    record: RunRecord | None,
    /,
    *,
    status: Status | None = None,
) -> ResponseBody:
    """Return a response in its form for the client. `status` is that of an unfinished one."""
    form, run_end = document.form, record.end if record is not None else None
    stop_reason = run_end.reason if run_end is not None else None
    if stop_reason is not None:
        status = _ENDS.get(stop_reason, "completed")
    elif document.is_cancelled and record is None:
        status = "cancelled"
    elif document.problem is not None:
        status = "failed"
    problem = document.problem
    if status == "failed" and problem is None:
        code = "context_length_exceeded" if stop_reason is StopReason.WINDOW else "server_error"
        problem = ResponseProblem(code=code, message=(run_end.problem if run_end is not None else "") or _FAILED)
    cut_reason: Literal["content_filter", "max_output_tokens"] = (
        "content_filter" if stop_reason is StopReason.REFUSED else "max_output_tokens"
    )
    usage = run_end.usage if run_end is not None else None
    fields = form.model_dump(
        exclude_none=True,
        include={
            *("instructions", "max_output_tokens", "max_tool_calls", "parallel_tool_calls", "temperature", "top_p"),
            *("text", "tool_choice", "tools", "truncation", "metadata", "reasoning", "user", "safety_identifier"),
            *("prompt_cache_key", "top_logprobs"),
        },
        by_alias=True,
    )
    if form.reasoning is not None:
        fields["reasoning"] = {"effort": form.reasoning.get("effort"), "summary": None}
    return ResponseBody.model_validate(
        {
            **fields,
            "id": document.id,
            "created_at": document.created_at // 1000,
            "completed_at": run_end.at // 1000
            if run_end is not None and run_end.at is not None and status == "completed"
            else None,
            "status": status or ("in_progress" if record is not None else "queued"),
            "background": bool(form.background),
            "error": problem if status == "failed" else None,
            "incomplete_details": IncompleteReason(reason=cut_reason) if status == "incomplete" else None,
            "model": document.model,
            "output": output_items(document.id, record) if record is not None else (),
            "previous_response_id": form.previous_response_id,
            "conversation": ConversationRef(id=document.conversation) if document.conversation is not None else None,
            "store": form.is_stored,
            "usage": ResponseUsage(
                input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.tokens
            )
            if usage is not None
            else None,
        }
    )


class ResponseRepository:
    """The responses of one user."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._context = user.memory.context

    def new_response(self) -> str:
        """Return an id for a new response."""
        return f"{RESPONSE_PREFIX}{self._context.ids.new().replace('-', '')}"

    def new_thread(self) -> str:
        """Return an id for a new thread."""
        return f"{THREAD_PREFIX}{self._context.ids.new().replace('-', '')}"

    async def put(self, document: ResponseDocument, /) -> None:
        """Store the request of a response. Raises LimitExceeded if it is too large."""
        value = document.model_dump(mode="json", exclude_none=True, by_alias=True)
        if len(json.dumps(value, ensure_ascii=False).encode()) > RESPONSE_INPUT_BYTES:
            raise LimitExceeded(
                what="bytes in a stored input",
                limit=RESPONSE_INPUT_BYTES,
                way_out="continue from `previous_response_id`, or send `store: false`",
            )
        document_namespace = copies_of_turn(document.id, document.thread)
        await self._user.records.put(document_namespace, _REQUEST, of_others(value), text="request of a response")

    async def find(self, response: str, /) -> KnownResponse:
        """Return a response. Raises NotFound, also if part of it was forgotten or erased."""
        documents = [each async for each in self._documents(response)]
        request_document = next((each for each in documents if each.key == _REQUEST), None)
        if request_document is None:
            raise NotFound(what="response", name=response)
        document = ResponseDocument.model_validate(request_document.value)
        record = run_of_documents(documents)
        stored_response = KnownResponse(document=document, record=record)
        # Memory contains a turn only once it is over.
        is_over = record is not None and record.end is not None
        if record is not None and is_over and await self._user.journal(document.thread).changed_runs((record.turn,)):
            raise NotFound(what="response", name=response)
        return stored_response

    async def read(self, response: str, /) -> KnownResponse:
        """Return a response that answers a request. Raises NotFound, also for added items."""
        response_record = await self.find(response)
        if response_record.document.is_added:
            raise NotFound(what="response", name=response)
        return response_record

    async def erase(self, response: KnownResponse, /) -> None:
        """Erase a response with its turn."""
        run_end = response.record.end if response.record is not None else None
        if run_end is not None and run_end.memories:
            erasure = MemoryEraseRequest(
                scope=self._user.scope, ids=run_end.memories, reason="its response was deleted"
            )
            await self._user.memory.erase(erasure)
        await self._user.records.erase([document async for document in self._documents(response.document.id)])

    async def head(self, thread: str, /) -> ThreadHead:
        """Return the state of a thread."""
        return (await self._user.journal(thread).head(thread))[0]

    async def runs(self, thread: str, /) -> list[str]:
        """Return the turns of a thread, oldest first, including those that left its window. Raises LimitExceeded."""
        journal = self._user.journal(thread)
        head = await self.head(thread)
        names = list(head.window)
        number = head.summary
        while number:
            summary = await journal.summary(thread, number)
            if summary is None:
                break
            names[:0] = summary.covers
            number = summary.previous
        if len(names) > RESPONSE_RUNS:
            raise LimitExceeded(what="turns in a branched thread", limit=RESPONSE_RUNS)
        return names

    async def branch(self, document: ResponseDocument, /) -> str:
        """Create a thread that begins with every turn up to a response, and return its id.

        Raises NotFound, LimitExceeded.
        """
        runs = await self.runs(document.thread)
        if document.id not in runs:
            raise NotFound(what="response", name=document.id)
        branch_runs = tuple(named_run(run, document.thread) for run in runs[: runs.index(document.id) + 1])
        thread = self.new_thread()
        await self._user.journal(thread).put_head(thread, ThreadHead(window=branch_runs, runs=len(branch_runs)), 0)
        return thread

    async def turns(self, thread: str, runs: Sequence[str], /) -> list[KnownResponse]:
        """Return the existing turns of a thread, without those that were forgotten or erased."""
        responses: list[tuple[str, KnownResponse]] = []
        window: list[WindowTurn] = []
        for run in runs:
            name, _ = run_place(run)
            documents = [each async for each in self._documents(name)]
            run_input, record = (
                next((each for each in documents if each.key == _REQUEST), None),
                run_of_documents(documents),
            )
            if run_input is None or record is None:
                continue
            document = ResponseDocument.model_validate(run_input.value)
            responses.append((run, KnownResponse(document=document, record=record)))
            window.append(record.turn.model_copy(update={"run": run}))
        removed_turns = await self._user.journal(thread).changed_runs(window)
        return [response for run, response in responses if run not in removed_turns]

    async def drop_thread(self, thread: str, /) -> None:
        """Erase the documents of a thread that has no turn."""
        for namespace in ((*COPIES_OF_BLOCKS, thread), copies_of_conversation(thread), (AGENTS, thread)):
            await self._user.records.erase([record async for record in self._user.records.below(namespace)])

    def removal(self, reason: str, /) -> ThreadRemoval:
        """Return the object that erases threads."""
        return ThreadRemoval(self._user.memory, self._user.records, self._user.scope, reason)

    def journal(self, thread: str, /) -> RunJournal:
        """Return the journal of a thread."""
        return self._user.journal(thread)

    async def _documents(self, response: str) -> AsyncIterator[Record]:
        if not response.startswith(RESPONSE_PREFIX) or not response.removeprefix(RESPONSE_PREFIX).isalnum():
            return
        # Search by id only: the thread is not known here, and a branch has another one.
        async for document in self._user.records.below(copies_of_turn(response, "")[:1]):
            yield document


def require_model(name: str | None, models: Sequence[str], usual: str, /) -> str:
    """Return the server's model for a name with or without its dialect. Raises InvalidInput."""
    if name is None:
        return usual
    for model in models:
        if name in {model, model.partition(":")[2]}:
            return model
    raise InvalidInput(field="model", problem=f"is not one of this server's models: use {', '.join(models)}")


_PLACE: Final = (AGENTS, "responses", "conversations")
_CHUNK: Final = 20
"""Number of turns that are read at once."""


class ConversationRepository:
    """The conversations of one user, which do not include the agents' threads."""

    def __init__(self, user: UserAgents, lines: "TurnLines", /) -> None:
        self._user = user
        self._lines = lines
        self._responses = ResponseRepository(user)

    async def create(self, metadata: Metadata, /) -> ConversationBody:
        """Create a conversation."""
        body = ConversationBody(
            id=self._responses.new_thread(),
            created_at=self._user.memory.context.clock.now() // 1000,
            metadata=metadata,
        )
        await self._put(body)
        return body

    async def read(self, conversation: str, /) -> ConversationBody:
        """Return a conversation. Raises NotFound."""
        response_record = await self._user.records.get(_PLACE, conversation) if _is_name(conversation) else None
        if response_record is None:
            raise NotFound(what="conversation", name=conversation)
        return ConversationBody.model_validate(response_record.value)

    async def change(self, conversation: str, metadata: Metadata, /) -> ConversationBody:
        """Replace the metadata of a conversation and return it. Raises NotFound."""
        changed_body = (await self.read(conversation)).model_copy(update={"metadata": metadata})
        await self._put(changed_body)
        return changed_body

    async def list(self) -> list[ConversationBody]:
        """Return the conversations, the latest first."""
        bodies = [ConversationBody.model_validate(record.value) async for record in self._user.records.below(_PLACE)]
        return sorted(bodies, key=lambda body: (body.created_at, body.id), reverse=True)

    async def delete(self, conversation: str, /) -> None:
        """Erase a conversation with all its turns. Raises NotFound."""
        thread = (await self.read(conversation)).id
        # Cancel its turns first, because an active one would write to what is being erased.
        await self._lines.cancel((self._user.space, thread))
        record = await self._user.records.get(_PLACE, thread)
        try:
            reason = "its conversation was deleted"
            await delete_agent(self._user.memory, conversation, reason=reason, shared=SharedMemory.KEPT)
        except NotFound:
            pass  # it has no turns
        await self._user.records.erase([record] if record is not None else [])

    async def delete_each(self, conversations: Iterable[str], /) -> tuple[BatchOutcome, ...]:
        """Erase several conversations, and return for each whether it existed."""
        outcomes: list[BatchOutcome] = []
        for conversation in conversations:
            try:
                await self.delete(conversation)
                outcomes.append(BatchOutcome(id=conversation, deleted=True))
            except NotFound:
                outcomes.append(BatchOutcome(id=conversation, deleted=False, error="not_found"))
        return tuple(outcomes)

    async def page(
        self, conversation: str, /, *, limit: int, after: str | None = None, order: ItemOrder = ItemOrder.DESCENDING
    ) -> ItemPage:
        """Return a page of a conversation's items. Raises NotFound, also if `after` is not one of its items."""
        thread = (await self.read(conversation)).id
        runs = await self._responses.runs(thread)
        is_down = order is ItemOrder.DESCENDING
        runs = runs[::-1] if is_down else runs
        if after is not None:
            start_run = response_of_item(after)
            if start_run not in runs:
                raise NotFound(what="item", name=after)
            runs = runs[runs.index(start_run) :]
        page_items: list[dict[str, JsonValue]] = []
        is_after_cursor = after is None
        for chunk_start in range(0, len(runs), _CHUNK):
            for response in await self._responses.turns(thread, runs[chunk_start : chunk_start + _CHUNK]):
                items = turn_items(response)
                for item in reversed(items) if is_down else items:
                    page_items += [item] if is_after_cursor else []
                    is_after_cursor = is_after_cursor or item["id"] == after
            if len(page_items) > limit:
                break
        if not is_after_cursor:
            raise NotFound(what="item", name=after or "")
        return item_page(page_items, limit)

    async def item(self, conversation: str, item_id: str, /) -> dict[str, JsonValue]:
        """Return an item of a conversation. Raises NotFound."""
        for item in turn_items(await self.turn_of_item(conversation, item_id)):
            if item["id"] == item_id:
                return item
        raise NotFound(what="item", name=item_id)

    async def turn_of_item(self, conversation: str, item_id: str, /) -> KnownResponse:
        """Return the turn of an item. Raises NotFound."""
        thread, run = (await self.read(conversation)).id, response_of_item(item_id)
        responses = await self._responses.turns(thread, (run,)) if run is not None else []
        if not responses or responses[0].document.thread != thread:
            raise NotFound(what="item", name=item_id)
        return responses[0]

    async def delete_item(self, conversation: str, item_id: str, /) -> ConversationBody:
        """Erase the turn of an item and return the conversation. Raises NotFound."""
        await self.item(conversation, item_id)
        await self._responses.erase(await self.turn_of_item(conversation, item_id))
        return await self.read(conversation)

    async def head(self, conversation: str, /) -> ThreadHead:
        """Return the state of a conversation's thread. Raises NotFound."""
        return await self._responses.head((await self.read(conversation)).id)

    async def _put(self, body: ConversationBody) -> None:
        value = body.model_dump(mode="json")
        await self._user.records.put(_PLACE, body.id, value, text="a conversation")


def turn_items(response: KnownResponse, /) -> list[dict[str, JsonValue]]:
    """Return the items of a turn: its input, and the agent's output."""
    document, record = response.document, response.record
    answer_items = output_items(document.id, record) if record is not None else ()
    return [*listed_items(document.id, document.items), *(item.model_dump(mode="json") for item in answer_items)]


def input_page(response: KnownResponse, /, *, limit: int, after: str | None, order: ItemOrder) -> ItemPage:
    """Return a page of a response's input items. Raises NotFound if `after` is not one of them."""
    items = listed_items(response.document.id, response.document.items)
    items = items[::-1] if order is ItemOrder.DESCENDING else items
    return item_page(_items_after(items, after, [str(item["id"]) for item in items], what="item"), limit)


def conversation_page(
    conversations: Sequence[ConversationBody], /, *, limit: int, after: str | None
) -> ConversationList:
    """Return a page of conversations. Raises NotFound if `after` is not one of them."""
    later_conversations = _items_after(
        conversations, after, [conversation.id for conversation in conversations], what="conversation"
    )
    page = later_conversations[:limit]
    return ConversationList(
        data=tuple(page),
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=len(later_conversations) > limit,
    )


def _items_after(items: Sequence[ItemT], after: str | None, names: Sequence[str], *, what: str) -> Sequence[ItemT]:
    if after is None:
        return items
    if after not in names:
        raise NotFound(what=what, name=after)
    return items[names.index(after) + 1 :]


def item_page(items: Sequence[dict[str, JsonValue]], limit: int, /) -> ItemPage:
    """Return the first items as a page."""
    page = items[:limit]
    return ItemPage(
        data=tuple(page),
        first_id=str(page[0]["id"]) if page else "",
        last_id=str(page[-1]["id"]) if page else "",
        has_more=len(items) > limit,
    )


def _is_name(name: str) -> bool:
    return name.isascii() and name.replace("_", "").isalnum() and len(name) <= limits.RESPONSE_ID_CHARS
