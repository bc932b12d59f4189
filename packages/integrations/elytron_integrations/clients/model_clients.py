"""Memory around a model client's calls: recall before a request is sent, and store when its answer ends.

The client is given an HTTP client that adds the block to requests and reads a copy of the answers, so its methods,
streams and tools work unchanged. Requests and answers are parsed by the proxy's code.
"""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeVar
from uuid import uuid4

from elytron.api import MemoryFace
from elytron.runtime import BlockingMemory
from elytron_core import limits as core_limits
from elytron_core.contracts.recall import RecallFilters
from elytron_core.errors import ElytronError, Unsupported
from elytron_core.lru_cache import LruCache
from elytron_core.planes.transcript import TurnDelivery, TurnSource
from elytron_core.policy.projection.fence import wrap_block
from elytron_core.ports.chat import FinishReason
from elytron_core.scope import Scope
from elytron_integrations.user_memory import require_open_memory, space_scope
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
"""HTTP client libraries that model clients use, depending on their version."""
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
    """Return an `openai` or `anthropic` client whose calls recall from `memory` before and store the turn after.

    Chat completions, Responses and Messages are covered, streamed or not, including turns with tool calls; other calls
    pass through. A memory failure or timeout never fails a call: the first failure is logged, and the call continues
    without memory. Turns are stored in `conversation`; by default, chats are recognised by their messages. A blocking
    client needs a blocking memory, an asyncio client the memory of its loop. Raises ScopeMissing without a space, or
    Unsupported.

    >>> from openai import OpenAI
    >>> client = elytron.wrap(OpenAI(api_key="key"), memory, conversation="support")
    >>> type(client).__name__
    'OpenAI'
    """
    own: Any = getattr(client, "_client", None)
    if own is None or not hasattr(client, "copy"):
        raise Unsupported("wrap requires a client from the package openai or anthropic, such as openai.OpenAI()")
    require_open_memory(memory)
    scope = space_scope(memory.scope, space, operation="wrap", conversation=conversation)
    is_async = hasattr(own, "aclose")
    if isinstance(memory, BlockingMemory):
        if is_async:
            raise Unsupported("an asyncio client needs the memory of `async with elytron.open(...)`")
        sender = BlockingSender(own, ClientTurns(memory.runtime, scope, max_chars=max_chars), memory.run)
    elif not is_async:
        raise Unsupported(
            "a blocking client needs a blocking memory: `with elytron.open(...)`, or `elytron.open(...).sync()`"
        )
    else:
        sender = AsyncSender(own, ClientTurns(memory, scope, max_chars=max_chars))
    original: Any = client
    return original.copy(http_client=_http_client(own, sender, is_async=is_async))


@dataclass(frozen=True, slots=True)
class ClientTurn:
    """A client's turn: the chat it belongs to, its id, and the block shown in its requests."""

    thread: str
    id: str
    block: str
    selected: tuple[str, ...]
    """Ids of the memories in the block."""


@dataclass(slots=True)
class WrappedCall:
    """An outgoing call, and the copy of its answer until it is stored."""

    dialect: PromptDialect
    prompt: CallPrompt
    body: bytes
    path: str
    question: bytes
    """Digest of the conversation up to and including the question."""
    turn: ClientTurn
    is_open: bool
    """True if the question has been stored already and its tools are running."""
    copy: StreamCopy | WholeCopy | None = None

    def begin_copy(self, response: Any, /) -> bool:
        """Start copying an answer. Return whether it is an answer and not an error."""
        is_stream = "text/event-stream" in response.headers.get("content-type", "")
        self.copy = StreamCopy(self.dialect) if is_stream else WholeCopy(self.dialect)
        return response.status_code == 200

    def feed(self, chunk: bytes, /) -> bool:
        """Add a chunk to the copy. Return whether the answer is complete and not yet stored."""
        if self.copy is None:
            return False
        self.copy.feed(chunk)
        return self.copy.answer.is_whole


class ClientTurns:
    """The turns of a wrapped client: what memory adds to a request, and what is stored of its answer."""

    def __init__(self, memory: MemoryFace, scope: Scope, /, *, max_chars: int) -> None:
        self._memory = memory
        self._scope = scope
        self._max_chars = max_chars
        self._threads: LruCache[bytes, str] = LruCache(limits.BLOCKS)
        """Chats by the digest of everything said in them so far."""
        self._open: LruCache[bytes, ClientTurn] = LruCache(limits.BLOCKS)
        """Turns whose tools are running, by question."""
        self._has_failed = False

    async def begin(self, dialect: PromptDialect, path: str, content: bytes) -> WrappedCall | None:
        """Return the call with memory's block in its body, or None if the request is not a prompt."""
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
        # The same memories must produce the same bytes, because the provider has cached everything up to them.
        if turn is None or turn.selected != context.selected:
            turn_id = turn.id if turn is not None else uuid4().hex
            turn = ClientTurn(thread or uuid4().hex, turn_id, context.block, context.selected)
        if turn.block:
            content = json_text(dialect.place(dict(body), prompt, wrap_block(turn.block), BlockPlacement.TAIL)).encode()
        return WrappedCall(dialect, prompt, content, path, question, turn, is_open=open_turn is not None)

    async def store(self, call: WrappedCall) -> None:
        """Store the turn of a complete answer once. While its tools run, store only the question."""
        copy, prompt, call.copy = call.copy, call.prompt, None
        match copy:
            case StreamCopy():
                # An answer with a finish reason is complete, however its stream ends.
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
        """Log a memory failure: the first as a warning, later ones at debug level."""
        key = error.key if isinstance(error, ElytronError) else type(error).__name__
        logger.log(
            logging.DEBUG if self._has_failed else logging.WARNING, "memory failed, calls continue without it: %s", key
        )
        self._has_failed = True

    async def _context(self, prompt: CallPrompt, thread: str | None) -> TurnContext:
        """Return memories for the question, except those that the request itself shows from its chat."""
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
    """Sends a blocking client's requests through the client's own HTTP client."""

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
                # The caller may stop reading once the answer is complete.
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
        """Run a memory call and return its result, or None if it failed."""
        try:
            return self._run(work)
        except Exception as error:  # noqa: BLE001 - a memory failure must not fail the call
            self._turns.note_failure(error)
            return None


class AsyncSender:
    """Sends an asyncio client's requests through the client's own HTTP client."""

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
                # The caller may stop reading once the answer is complete.
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
        """Await a memory call and return its result, or None if it failed."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - a memory failure must not fail the call
            self._turns.note_failure(error)
            return None


def _dialect_of(request: Any) -> PromptDialect | None:
    """Return the dialect that handles the request's path, or None if the request is not a prompt."""
    ends = ((path.removeprefix("/v1"), dialect) for path, dialect in DIALECTS.items() if request.method == "POST")
    return next((dialect for end, dialect in ends if request.url.path.endswith(end)), None)


def _changed_request(request: Any, call: WrappedCall | None) -> Any:
    """Return the request with the call's body."""
    if call is None or call.body == request.content:
        return request
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() != "content-length"]
    changed = type(request)(request.method, request.url, headers=headers, content=call.body)
    changed.extensions = request.extensions
    return changed


def _http_client(own: Any, sender: BlockingSender | AsyncSender, /, *, is_async: bool) -> Any:
    """Return an HTTP client that builds requests as `own` does and sends them with `sender`."""
    modules = {base.__module__.partition(".")[0] for base in type(own).__mro__}
    library_name = next((name for name in _LIBRARIES if name in modules), None)
    if library_name is None:
        raise Unsupported(f"wrap supports clients that use {' or '.join(_LIBRARIES)}; this one does not")
    library: Any = import_module(library_name)
    kind: Any = library.AsyncClient if is_async else library.Client

    class RecallingClient(kind):
        """Builds requests for the sender to send. Closing it closes the client that sends them."""

        is_closed = property(lambda _: own.is_closed)

        def send(self, request: Any, **options: Any) -> Any:
            return sender.send(request, options)

    def close_own(_: object) -> Any:
        return own.aclose() if is_async else own.close()

    setattr(RecallingClient, "aclose" if is_async else "close", close_own)
    transport = library.AsyncBaseTransport() if is_async else library.BaseTransport()
    return RecallingClient(transport=transport, **{name: getattr(own, name) for name in _SHARED})
