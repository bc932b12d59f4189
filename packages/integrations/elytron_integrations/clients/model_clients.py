"""Memory around the calls of a model client: recalled before a request goes out, stored when its answer ends.

The client gets an HTTP client that adds the block to requests and reads a copy of answers, so that its methods, streams
and tools stay as they are. Requests and answers are read as the proxy reads them.
"""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeVar
from uuid import uuid4

from elytron.api import MemoryFace, calls
from elytron.runtime import BlockingMemory
from elytron_core import limits as core_limits
from elytron_core.contracts.recall import RecallFilters
from elytron_core.errors import ElytronError, ScopeMissing, Unsupported
from elytron_core.lru_cache import LruCache
from elytron_core.planes.transcript import TurnDelivery, TurnSource
from elytron_core.policy.projection.fence import wrap_block
from elytron_core.ports.chat import FinishReason
from elytron_core.scope import Scope
from elytron_models.dialect import fields_of, json_text
from elytron_proxy import limits
from elytron_proxy.prompts import DIALECTS, CallPrompt, PromptDialect, spoken_answer
from elytron_proxy.prompts.request_turn import draft_of, end_of, question_of, start_of, without_conversation
from elytron_proxy.settings import BlockPlacement
from elytron_proxy.wire.relay import StreamCopy, WholeCopy
from elytron_turn.memory import TurnBudget, TurnContext, TurnDeadline, TurnMemory, TurnMessages

ClientT = TypeVar("ClientT")
ResultT = TypeVar("ResultT")
logger = logging.getLogger("elytron.wrap")
_LIBRARIES: Final = ("httpx2", "httpx")
"""Libraries of HTTP clients that model clients are built on, by their versions."""
_SHARED: Final = ("timeout", "headers", "params", "cookies", "base_url")


def wrap(
    client: ClientT,
    memory: MemoryFace | BlockingMemory[Any],
    /,
    *,
    space: str | None = None,
    conversation: str | None = None,
    max_chars: int = limits.BLOCK_CHARS,
) -> ClientT:
    """Return a client of `openai` or `anthropic` whose calls recall from `memory` before and store the turn after.

    Chat completions, Responses and Messages take part, whole or streamed, also while tools run; other calls pass. A
    memory that fails or is late never fails a call: the first failure is logged, and the call goes on without it.
    Turns go to `conversation`; without one, chats are told apart by their messages. A client of blocking calls needs a
    blocking memory, one of asyncio the memory of its loop. Raises ScopeMissing without a space, Unsupported.

    >>> from openai import OpenAI
    >>> client = elytron.wrap(OpenAI(api_key="key"), memory, conversation="support")
    >>> type(client).__name__
    'OpenAI'
    """
    own: Any = getattr(client, "_client", None)
    if own is None or not hasattr(client, "copy"):
        raise Unsupported("wrap takes a client of the package openai or anthropic, such as openai.OpenAI()")
    scope = calls.scope_of(memory.scope, user_id=space, conversation=conversation)
    if scope is None:
        raise ScopeMissing(operation="wrap", way_out="pass space=, or open the memory with space=")
    is_async = hasattr(own, "aclose")
    if isinstance(memory, BlockingMemory):
        if is_async:
            raise Unsupported("an asyncio client needs the memory of `async with elytron.open(...)`")
        sender = BlockingSender(own, ClientTurns(memory.runtime, scope, max_chars=max_chars), memory.run)
    elif not is_async:
        raise Unsupported(
            "a client of blocking calls needs a blocking memory: `with elytron.open(...)`, or its .sync()"
        )
    else:
        sender = AsyncSender(own, ClientTurns(memory, scope, max_chars=max_chars))
    original: Any = client
    return original.copy(http_client=_http_client(own, sender, is_async=is_async))


@dataclass(frozen=True, slots=True)
class ClientTurn:
    """A turn of a client: the chat that it belongs to, its id, and the block that its requests show."""

    thread: str
    id: str
    block: str
    selected: tuple[str, ...]
    """The ids of what is in the block."""


@dataclass(slots=True)
class WrappedCall:
    """A call as it goes out, and the copy of its answer until that is stored."""

    dialect: PromptDialect
    prompt: CallPrompt
    body: bytes
    path: str
    question: bytes
    """Digest of the conversation up to the question."""
    turn: ClientTurn
    is_open: bool
    """True if the question is stored already: its tools run."""
    copy: StreamCopy | WholeCopy | None = None

    def begin_copy(self, response: Any, /) -> bool:
        """Begin the copy of an answer; return whether it is one, and no refusal."""
        is_stream = "text/event-stream" in response.headers.get("content-type", "")
        self.copy = StreamCopy(self.dialect) if is_stream else WholeCopy(self.dialect)
        return response.status_code == 200

    def feed(self, chunk: bytes, /) -> bool:
        """Read on; return whether the answer has come to its end and is not stored yet."""
        if self.copy is None:
            return False
        self.copy.feed(chunk)
        return self.copy.answer.is_whole


class ClientTurns:
    """The turns of one wrapped client: what memory adds to a request, and what is stored of its answer."""

    def __init__(self, memory: MemoryFace, scope: Scope, /, *, max_chars: int) -> None:
        self._memory = memory
        self._scope = scope
        self._max_chars = max_chars
        self._threads: LruCache[bytes, str] = LruCache(limits.BLOCKS)
        """Chats by the digest of all that was said in them so far."""
        self._open: LruCache[bytes, ClientTurn] = LruCache(limits.BLOCKS)
        """Turns whose tools run, by their question."""
        self._has_failed = False

    async def begin(self, dialect: PromptDialect, path: str, content: bytes) -> WrappedCall | None:
        """Return the call with memory's block in its body; None for one that is no prompt."""
        body = fields_of(content)
        prompt = dialect.read(body) if body is not None else None
        if body is None or prompt is None:
            return None
        start = start_of(prompt)
        question = question_of(start, prompt.text)
        open_turn = self._open.use(question) if prompt.has_tools_used else None
        thread = open_turn.thread if open_turn is not None else self._threads.use(start)
        context = await self._context(prompt, thread) if not prompt.is_task else TurnContext()
        turn = open_turn
        # The same memories stay the same bytes, which the provider has cached with all before them.
        if turn is None or turn.selected != context.selected:
            turn_id = turn.id if turn is not None else uuid4().hex
            turn = ClientTurn(thread or uuid4().hex, turn_id, context.block, context.selected)
        if turn.block:
            content = json_text(dialect.place(dict(body), prompt, wrap_block(turn.block), BlockPlacement.TAIL)).encode()
        return WrappedCall(dialect, prompt, content, path, question, turn, is_open=open_turn is not None)

    async def store(self, call: WrappedCall) -> None:
        """Store the turn of an answer that came to its end, once; the question alone while its tools run."""
        copy, prompt, call.copy = call.copy, call.prompt, None
        match copy:
            case StreamCopy():
                # An answer that gave its reason is whole, however its stream ends.
                copy.end(is_clean=True)
            case WholeCopy():
                copy.end()
            case None:
                return
        answer, uses_tools = copy.answer, copy.answer.finished is FinishReason.TOOLS
        is_too_long = answer.is_too_long or len(prompt.text) > core_limits.MESSAGE_CHARS
        if not prompt.is_single or is_too_long or not (uses_tools or answer.finished is FinishReason.STOP):
            return
        reply = "" if uses_tools else spoken_answer(prompt.answer_start + answer.text)
        if not (uses_tools and call.is_open):
            draft = draft_of(
                prompt,
                reply,
                turn=call.turn.id,
                conversation=call.turn.thread,
                source=TurnSource(ingress="wrap", protocol=call.dialect.name, endpoint=call.path),
                uses_tools=uses_tools or answer.has_tools_used,
                delivery=TurnDelivery.USER_ONLY if uses_tools else TurnDelivery.DELIVERED,
            )
            memory = self._turn_memory(call.turn.thread, RecallFilters())
            await TurnDeadline.after(limits.MEMORY_WAIT_S).run_within(lambda: memory.after((draft,)))
        if uses_tools:
            self._open[call.question] = call.turn
        else:
            self._open.pop(call.question, None)
            self._threads[end_of(call.question, reply)] = call.turn.thread

    def note_failure(self, error: Exception, /) -> None:
        """Log that memory failed, the first time as a warning."""
        key = error.key if isinstance(error, ElytronError) else type(error).__name__
        logger.log(logging.DEBUG if self._has_failed else logging.WARNING, "calls go on without memory: %s", key)
        self._has_failed = True

    async def _context(self, prompt: CallPrompt, thread: str | None) -> TurnContext:
        """Return what memory knows for the question, without what the request itself shows of its chat."""
        memory = self._turn_memory(thread, RecallFilters() if thread is None else without_conversation(thread))
        budget = TurnBudget(self._max_chars, wait_s=limits.MEMORY_WAIT_S)
        context = await memory.before(TurnMessages(current=prompt.text), budget)
        if context.failure is not None:
            self.note_failure(context.failure)
        return context

    def _turn_memory(self, thread: str | None, filters: RecallFilters) -> TurnMemory:
        conversation = self._scope.conversation or (f"chat-{thread}" if thread is not None else None)
        scope = self._scope.model_copy(update={"conversation": conversation})
        return TurnMemory(self._memory.operate, scope, filters=filters)


class BlockingSender:
    """Sends the requests of a client of blocking calls through its own HTTP client."""

    def __init__(self, http_client: Any, turns: ClientTurns, run: Callable[[Coroutine[Any, Any, Any]], Any], /) -> None:
        self._http_client = http_client
        self._turns = turns
        self._run = run

    def send(self, request: Any, options: dict[str, Any], /) -> Any:
        """Send a request with memory's block and return its answer, which is stored when it ends."""
        dialect = _dialect_of(request)
        call = None
        if dialect is not None:
            call = self._attempt(self._turns.begin(dialect, request.url.path, request.read()))
        response = self._http_client.send(_changed_request(request, call), **options)
        if call is None or not call.begin_copy(response):
            return response
        if not options.get("stream"):
            call.feed(response.content)
            self._attempt(self._turns.store(call))
            return response
        chunks_of, close = response.iter_bytes, response.close

        def copy_chunks(*size: int) -> Iterator[bytes]:
            for chunk in chunks_of(*size):
                # The caller may read no further than the end of the answer.
                if call.feed(chunk):
                    self._attempt(self._turns.store(call))
                yield chunk

        def close_answer() -> None:
            close()
            if call.copy is not None:
                self._attempt(self._turns.store(call))

        response.iter_bytes, response.close = copy_chunks, close_answer
        return response

    def _attempt(self, work: Coroutine[Any, Any, ResultT]) -> ResultT | None:
        """Return what memory did; None where it failed."""
        try:
            return self._run(work)
        except Exception as error:  # noqa: BLE001 - no failure of memory fails the call
            self._turns.note_failure(error)
            return None


class AsyncSender:
    """Sends the requests of an asyncio client through its own HTTP client."""

    def __init__(self, http_client: Any, turns: ClientTurns, /) -> None:
        self._http_client = http_client
        self._turns = turns

    async def send(self, request: Any, options: dict[str, Any], /) -> Any:
        """Send a request with memory's block and return its answer, which is stored when it ends."""
        dialect = _dialect_of(request)
        call = None
        if dialect is not None:
            call = await self._attempt(self._turns.begin(dialect, request.url.path, await request.aread()))
        response = await self._http_client.send(_changed_request(request, call), **options)
        if call is None or not call.begin_copy(response):
            return response
        if not options.get("stream"):
            call.feed(response.content)
            await self._attempt(self._turns.store(call))
            return response
        chunks_of, close = response.aiter_bytes, response.aclose

        async def copy_chunks(*size: int) -> AsyncIterator[bytes]:
            async for chunk in chunks_of(*size):
                # The caller may read no further than the end of the answer.
                if call.feed(chunk):
                    await self._attempt(self._turns.store(call))
                yield chunk

        async def close_answer() -> None:
            await close()
            if call.copy is not None:
                await self._attempt(self._turns.store(call))

        response.aiter_bytes, response.aclose = copy_chunks, close_answer
        return response

    async def _attempt(self, work: Coroutine[Any, Any, ResultT]) -> ResultT | None:
        """Return what memory did; None where it failed."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - no failure of memory fails the call
            self._turns.note_failure(error)
            return None


def _dialect_of(request: Any) -> PromptDialect | None:
    """Return the dialect of a request, by the end of its path; None for one that is no prompt."""
    ends = ((path.removeprefix("/v1"), dialect) for path, dialect in DIALECTS.items() if request.method == "POST")
    return next((dialect for end, dialect in ends if request.url.path.endswith(end)), None)


def _changed_request(request: Any, call: WrappedCall | None) -> Any:
    """Return the request with the body of the call."""
    if call is None or call.body == request.content:
        return request
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() != "content-length"]
    changed = type(request)(request.method, request.url, headers=headers, content=call.body)
    changed.extensions = request.extensions
    return changed


def _http_client(own: Any, sender: BlockingSender | AsyncSender, /, *, is_async: bool) -> Any:
    """Return an HTTP client of the library of `own` that makes requests as that does, and sends them by `sender`."""
    modules = {base.__module__.partition(".")[0] for base in type(own).__mro__}
    library_name = next((name for name in _LIBRARIES if name in modules), None)
    if library_name is None:
        raise Unsupported(f"wrap takes clients that send by {' or '.join(_LIBRARIES)}, and this one does not")
    library: Any = import_module(library_name)
    kind: Any = library.AsyncClient if is_async else library.Client

    class RecallingClient(kind):
        """Makes requests; its sender sends them, and it is closed with the client that they go out by."""

        is_closed = property(lambda _: own.is_closed)

        def send(self, request: Any, **options: Any) -> Any:
            return sender.send(request, options)

    def close_own(_: object) -> Any:
        return own.aclose() if is_async else own.close()

    setattr(RecallingClient, "aclose" if is_async else "close", close_own)
    transport = library.AsyncBaseTransport() if is_async else library.BaseTransport()
    return RecallingClient(transport=transport, **{name: getattr(own, name) for name in _SHARED})
