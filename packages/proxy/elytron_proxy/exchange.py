"""One exchange between a client and a model: the prompt gets its block, bytes pass through, the answer is stored."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from elytron_core import limits as core_limits
from elytron_core.contracts.transcript import MemoryWriteReport, TurnDraft
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.ids import is_name
from elytron_core.planes.records import COPIES_OF_BLOCKS
from elytron_core.planes.transcript import TurnDelivery, TurnSource
from elytron_core.ports.chat import FailureReason, FinishReason
from elytron_models.dialect import fields_of, inner_object, json_text, text_field
from elytron_proxy.caller import CHANNEL, ProxyCaller
from elytron_proxy.conversation import ConversationFinder, RequestThread
from elytron_proxy.figures import ProxyFigure, ProxyFigures
from elytron_proxy.memory import NAMESPACE, MemoryDown, PromptBlock, ProxyMemory
from elytron_proxy.prompts import CallPrompt, CallRefusal, PromptDialect, spoken_answer
from elytron_proxy.prompts.openai import unseal_request
from elytron_proxy.prompts.prompt import Body, encode_stored_block
from elytron_proxy.prompts.request_turn import continued_by, draft_of, end_of
from elytron_proxy.response_store import ContinuedRequest, ResponseStore
from elytron_proxy.settings import BlockPlacement, MemoryUse, ProxySettings
from elytron_proxy.wire.relay import (
    AnswerCopy,
    AnswerHeaders,
    AnswerPassage,
    KeyMask,
    PeekedAnswer,
    ProxyCall,
    Send,
    StreamRelay,
    WholeCopy,
)
from elytron_proxy.wire.upstream import UNDECODED, RefusedCall, UpstreamClients, chunks_of, is_readable
from elytron_turn.memory import NO_DEADLINE, TurnMemory

if TYPE_CHECKING:
    import httpx

READ_AT_ONCE_BYTES: Final = 256 * 1024
"""A longer request is read and written in a thread."""
MAX_AUDITS: Final = 32
"""Blocks that the audit keeps of one space, if it is switched on."""


logger = logging.getLogger("elytron.proxy")
_AUDIT_NAMESPACE: Final = (*COPIES_OF_BLOCKS, NAMESPACE, "blocks-shown")
"""Namespace of the audit's last blocks."""


@dataclass(frozen=True, slots=True)
class ProxyParts:
    """State that all exchanges of a proxy share."""

    settings: ProxySettings
    upstreams: UpstreamClients
    memory: ProxyMemory
    conversations: ConversationFinder
    responses: ResponseStore
    figures: ProxyFigures


@dataclass(frozen=True, slots=True)
class ExchangeCommit:
    """State of an exchange when its answer is complete."""

    parts: ProxyParts
    caller: ProxyCaller
    dialect: str
    path: str
    model: str
    prompt: CallPrompt
    thread: RequestThread
    block: PromptBlock
    continuation: ContinuedRequest | None

    async def keep(self, answer: AnswerCopy, /) -> bool:
        """Store a complete answer as configured; return whether it was. What memory rejects is counted."""
        with self.parts.memory.committing(self.caller):
            try:
                await self._store_answer(answer)
                return True
            except (MemoryDown, ElytronError, ValidationError) as error:
                self.parts.figures.count(ProxyFigure.LOST)
                key = error.key if isinstance(error, MemoryDown | ElytronError) else "invalid_input"
                logger.warning("turn not stored", extra={"request_id": self.caller.request_id, "key": key})
                return False

    async def _store_answer(self, answer: AnswerCopy) -> None:
        thread, figure = self.thread, self._figure(answer)
        is_writing = self.caller.use.writes
        if is_writing and figure is ProxyFigure.COMMITTED:
            thread, figure = await self._commit(answer)
        elif is_writing and figure is ProxyFigure.OPENED:
            thread = await self._open()
        # A response is stored even without memory's writes, because a later request may continue it.
        if self.continuation is not None:
            response = answer.witness.last_response
            await self.parts.responses.keep(self.caller, self.continuation, response, conversation=thread.conversation)
        if not is_writing:
            return
        if figure is not None:
            self.parts.figures.count(figure)
        await self.parts.memory.register(self.caller, self.prompt)
        await self._audit(thread)

    async def _audit(self, thread: RequestThread) -> None:
        if not self.parts.settings.audit or not self.block.text:
            return
        value = {"block": encode_stored_block(self.block.text), "conversation": thread.conversation}
        await self.parts.memory.put(self.caller, _AUDIT_NAMESPACE, thread.turn, value, ttl_s=None)
        await self.parts.memory.trim(self.caller, _AUDIT_NAMESPACE, most=MAX_AUDITS)

    def _figure(self, answer: AnswerCopy) -> ProxyFigure | None:
        """Return the metric for an answer: committed, if it may be evidence; None if nothing is to be stored."""
        if not self.prompt.is_single:
            return None
        awaits_tools = answer.finished is FinishReason.TOOLS
        if answer.finished is not FinishReason.STOP and not awaits_tools and not self.parts.settings.partial:
            return ProxyFigure.PARTIAL
        if answer.is_too_long or len(self.prompt.text) > core_limits.MESSAGE_CHARS:
            return ProxyFigure.TOO_LARGE
        return ProxyFigure.OPENED if awaits_tools else ProxyFigure.COMMITTED

    async def _open(self) -> RequestThread:
        """Store the person's message, whose answer waits for tools; that answer completes the turn, if it comes."""
        conversations, caller = self.parts.conversations, self.caller
        open_thread = self.thread if self.thread.is_open else await conversations.reopened(caller, self.thread)
        if open_thread is not None:
            return open_thread
        thread = await conversations.claim(caller, self.thread)
        await self._store(thread, self._turn(thread, "", delivery=TurnDelivery.USER_ONLY, uses_tools=True))
        await conversations.open(caller, thread)
        return thread

    async def _store(self, thread: RequestThread, turn: TurnDraft) -> MemoryWriteReport:
        memory = TurnMemory(partial(self.parts.memory.keep, self.caller), self.caller.scope(thread.conversation))
        return await memory.after((turn,))

    async def _commit(self, answer: AnswerCopy) -> tuple[RequestThread, ProxyFigure]:
        """Store the user message and the answer as one turn, in one batch."""
        conversations, caller = self.parts.conversations, self.caller
        reply = spoken_answer(self.prompt.answer_start + answer.text)
        context = answer.witness.last_response.get("context")
        end_digest = continued_by(json_text(context)) if context else end_of(self.thread.question_digest, reply)
        is_new = not self.thread.is_named and not self.thread.is_open
        # A request that is repeated without a name would store its turn twice.
        if is_new and await conversations.is_kept(caller, end_digest):
            return self.thread, ProxyFigure.DUPLICATE
        thread = await conversations.claim(caller, self.thread)
        report = await self._store(thread, self._turn(thread, reply, uses_tools=answer.has_tools_used))
        # The open turn ends only once the complete one is stored.
        if thread.is_open:
            await conversations.close(caller, thread)
        if not thread.is_named:
            await conversations.note(caller, thread, end_digest)
        conversations.note_said(caller, self.prompt, reply)
        return thread, ProxyFigure.COMMITTED if report.changed else ProxyFigure.DUPLICATE

    def _turn(
        self, thread: RequestThread, reply: str, *, uses_tools: bool, delivery: TurnDelivery = TurnDelivery.DELIVERED
    ) -> TurnDraft:
        source = TurnSource(
            ingress=CHANNEL,
            protocol=self.dialect,
            endpoint=self.path,
            model_alias=self.model if is_name(self.model) else None,
            request_id=self.caller.request_id,
        )
        return draft_of(
            self.prompt,
            reply,
            turn=thread.turn,
            conversation=thread.conversation,
            source=source,
            uses_tools=uses_tools,
            delivery=delivery,
        )


_OK: Final = 200
_UNREADABLE: Final = 400
_SEALED: Final = "invalid_encrypted_content"
DOWN: Final = CallRefusal(503, "memory_required", "memory is unavailable, and this call requires it: try again later")
_CUT: Final = CallRefusal(502, "upstream_cut", "the model server stopped before the end of its answer: try again")
_NOT_STORED: Final = CallRefusal(503, "turn_not_stored", "the model answered, but the turn was not stored: try again")
_UNFINISHED: Final = frozenset({FailureReason.CUT, FailureReason.MALFORMED})


class ProxyExchange:
    """One call of a dialect, with memory. A memory failure never fails the call, unless memory is required."""

    def __init__(
        self, parts: ProxyParts, dialect: PromptDialect, caller: ProxyCaller, call: ProxyCall, send: Send, /
    ) -> None:
        self._parts = parts
        self._dialect = dialect
        self._timed = caller
        """The caller before the model is called: memory has a deadline."""
        self._caller = caller = replace(caller, deadline=NO_DEADLINE)
        self._call = call
        self._passage = AnswerPassage(parts.upstreams, parts.figures, send)
        self._answer_headers = AnswerHeaders(
            caller.use.value if caller.use is not MemoryUse.REQUIRED else MemoryUse.ON.value
        )
        self._continuation: ContinuedRequest | None = None
        self._prompt: CallPrompt | None = None
        self._thread: RequestThread | None = None
        self._block = PromptBlock()
        self._placed_blocks: list[tuple[int, PromptBlock]] = []
        """Blocks by the position of their message: those of earlier turns, then this turn's own."""
        self._model = ""
        self.keeping: asyncio.Task[bool] | None = None
        """The commit of the answer, once its end marker was received. It continues if the client leaves."""

    async def run(self) -> None:
        """Answer the call. Raises RefusedCall before anything was sent."""
        body = await _work_aside(self._call.body, fields_of)
        if body is None:
            self._parts.figures.count(ProxyFigure.UNREAD)
            await self._pass(self._call)
            return
        self._model = text_field(body, "model")
        if self._caller.use is MemoryUse.OFF:
            await self._pass(self._call)
            return
        await self._parts.memory.settle(self._timed)
        body = await self._continued(dict(body))
        self._prompt = self._dialect.read(body)
        if self._prompt is None:
            is_continuing = self._continuation is not None and self._continuation.is_continuing
            await self._pass(await self._with_body(body) if is_continuing else self._call)
            return
        if self._parts.conversations.is_quoted(self._caller, self._prompt):
            self._prompt = replace(self._prompt, is_task=True)
        await self._remembered(self._prompt)
        placed_body = self._placed(body, self._prompt)
        if self._block.text:
            self._parts.figures.count(ProxyFigure.RECALLED)
        request = await self._with_body(placed_body)
        response = await self._passage.ask(request, model=self._model)
        peeked_answer: PeekedAnswer | None = None
        # Sealed reasoning that this server cannot open is left out, once.
        if response.status_code == _UNREADABLE and (unsealed_body := self._without_sealed(placed_body)) is not None:
            peeked_answer = PeekedAnswer(chunks_of(response))
            if await self._is_sealed(response, peeked_answer):
                self._parts.figures.count(ProxyFigure.RESENT)
                response, peeked_answer = (
                    await self._passage.ask(await self._rewritten(unsealed_body), model=self._model),
                    None,
                )
        if peeked_answer is not None:
            await self._passage.all(response, self._answer_headers, read=peeked_answer)
        else:
            await self._relay(response, body)

    def leave(self) -> None:
        """Stop sending: the client left."""
        self._passage.is_left = True

    def _without_sealed(self, body: Body) -> Body | None:
        """Return the request without sealed reasoning, if that is allowed; None if it is not, or there is none."""
        if self._dialect.name != "responses":
            return None
        is_continuing = self._continuation is not None and self._continuation.is_continuing
        return unseal_request(body) if self._parts.settings.resend or is_continuing else None

    async def _is_sealed(self, response: "httpx.Response", read: PeekedAnswer) -> bool:
        """Return whether a refusal says that reasoning cannot be unsealed; its stream is then closed."""
        if text_field(inner_object(await read.look(), "error"), "code") != _SEALED:
            return False
        await response.aclose()
        return True

    async def _pass(self, call: ProxyCall) -> None:
        await self._passage.all(await self._passage.ask(call, model=self._model), AnswerHeaders(MemoryUse.OFF.value))

    async def _continued(self, body: Body) -> Body:
        """Return the request with the responses that it continues. Raises RefusedCall."""
        if self._dialect.name != "responses":
            return body
        try:
            self._continuation = await self._parts.responses.continued(self._timed, body)
        except MemoryDown as error:
            if error.is_out:
                self._parts.memory.judge(self._caller, is_down=True)
            raise RefusedCall(DOWN) from None
        return self._continuation.body

    async def _remembered(self, prompt: CallPrompt) -> None:
        """Find the conversation, and the block of the prompt. Raises RefusedCall if memory is required and down."""
        start_s = time.perf_counter()
        try:
            self._thread = await self._find_thread(prompt)
            if self._caller.use.reads and not prompt.is_task:
                self._block = await self._recalled(prompt, self._thread)
                if self._parts.settings.placement is BlockPlacement.TAIL:
                    self._placed_blocks = await self._parts.conversations.blocks_before(self._timed, prompt)
                if self._block.text:
                    self._placed_blocks.append((prompt.at, self._block))
                self._answer_headers.recalled = self._block.recalled
                self._answer_headers.recall_ms = (time.perf_counter() - start_s) * 1000
            self._parts.memory.judge(self._caller, is_down=False)
        except MemoryDown as error:
            if error.is_out:
                self._parts.memory.judge(self._caller, is_down=True)
            if self._caller.use is MemoryUse.REQUIRED:
                raise RefusedCall(DOWN) from None
            self._parts.figures.count(ProxyFigure.DEGRADED)
            self._answer_headers.memory = "degraded"
        if self._thread is not None and self._caller.use.writes:
            self._answer_headers.turn = self._thread.turn

    async def _find_thread(self, prompt: CallPrompt) -> RequestThread:
        continued_name = self._continuation.conversation_name if self._continuation is not None else None
        conversation = self._caller.conversation or (
            continued_name if continued_name and is_name(continued_name) else None
        )
        thread = await self._parts.conversations.find(self._timed, prompt, name=conversation)
        # A continued response includes all earlier messages.
        return replace(thread, is_shown=True) if conversation is not None and conversation == continued_name else thread

    async def _recalled(self, prompt: CallPrompt, thread: RequestThread) -> PromptBlock:
        """Return the block; further calls of one user turn, after tool results, get the first one's."""
        conversations = self._parts.conversations
        block = await conversations.block_of(self._timed, thread) if prompt.has_tools_used else None
        if block is None:
            block = await self._parts.memory.block(
                self._timed,
                prompt,
                max_chars=self._parts.settings.max_chars,
                conversation=thread.conversation if thread.is_shown else None,
            )
        conversations.remember(self._caller, thread, block)
        return block

    def _placed(self, body: Body, prompt: CallPrompt) -> Body:
        try:
            for at, block in self._placed_blocks:
                body = self._dialect.place(body, replace(prompt, at=at), block.text, self._parts.settings.placement)
            return body
        except InvalidInput as error:
            raise RefusedCall(CallRefusal(400, error.key, error.message)) from None

    async def _with_body(self, body: Body) -> ProxyCall:
        """Return the request with `body`; an unchanged one is forwarded with its own bytes."""
        is_continued = self._continuation is not None and self._continuation.is_changed
        if not self._placed_blocks and not is_continued:
            return self._call
        return await self._rewritten(body)

    async def _rewritten(self, body: Body) -> ProxyCall:
        return replace(self._call, body=await _work_aside(body, _bytes_of, size=len(self._call.body)))

    async def _relay(self, response: "httpx.Response", body: Body) -> None:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not is_readable(response) or not self._parts.figures.endings.is_storable(self._upstream_url):
            self._answer_headers = replace(self._answer_headers, memory=self._caller.use.without_writes.value, turn="")
        if response.status_code != _OK or not is_readable(response):
            await self._passage.all(response, self._answer_headers)
        # Ollama streams unless the request says no.
        elif media_type == "text/event-stream" or (self._dialect.has_lines and body.get("stream") is not False):
            await self._stream(response)
        else:
            await self._whole(response)

    async def _stream(self, response: "httpx.Response") -> None:
        """Send a stream event by event; an interrupted one ends with the dialect's own error."""
        import httpx

        relay = StreamRelay(self._dialect, self._parts.upstreams.keys)
        refusal = None
        try:
            # If it is interrupted, an error follows that its server did not count.
            await self._passage.begin(response, self._answer_headers, without="content-length")
            async for chunk in chunks_of(response):
                passed_bytes = relay.feed(chunk)
                # Before the piece is forwarded: a client that leaves after it loses no turn.
                self._look(relay.answer)
                if not await self._may_end():
                    break
                await self._passage.give(passed_bytes)
        except httpx.HTTPError as error:
            refusal = UNDECODED if isinstance(error, httpx.DecodingError) else _CUT
        finally:
            await response.aclose()
        is_broken = refusal is not None
        last_bytes = relay.end(refusal or _CUT, is_broken=is_broken)
        self._look(relay.answer)
        self._judge(relay.answer, is_broken=is_broken)
        if not await self._may_end():
            last_bytes = relay.refuse(_NOT_STORED)
        if last_bytes is not None:  # without its end, the server closes the connection
            await self._passage.give(last_bytes, is_last=True)

    async def _whole(self, response: "httpx.Response") -> None:
        """Send an answer that comes at once. Its last piece is sent after the copy was read."""
        import httpx

        mask = KeyMask(self._parts.upstreams.keys)
        answer_copy = WholeCopy(self._dialect)
        last_piece = b""
        try:
            await self._passage.begin(response, self._answer_headers)
            async for chunk in chunks_of(response):
                masked_chunk = mask.feed(chunk)
                answer_copy.feed(masked_chunk)
                # A client with the last byte may send another request, and the commit must have started by then.
                await self._passage.give(last_piece)
                last_piece = masked_chunk
        except httpx.HTTPError:
            self._parts.figures.count(ProxyFigure.CUT)
            return  # without its end, the server closes the connection
        finally:
            await response.aclose()
        masked_tail = mask.end()
        answer_copy.feed(masked_tail)
        answer_copy.end()
        self._look(answer_copy.answer)
        self._judge(answer_copy.answer)
        if await self._may_end():
            await self._passage.give(last_piece + masked_tail, is_last=True)

    async def _may_end(self) -> bool:
        """Return whether the end of an answer may be sent, which may wait until its turn is stored."""
        if not self._parts.settings.durable or self.keeping is None:
            return True
        return await asyncio.shield(self.keeping)

    def _look(self, answer: AnswerCopy) -> None:
        """Start storing the answer as soon as its end marker has been received."""
        if not answer.is_whole or self.keeping is not None or self._prompt is None or self._thread is None:
            return
        commit = ExchangeCommit(
            self._parts,
            self._caller,
            dialect=self._dialect.name,
            path=self._call.path,
            model=self._model,
            prompt=self._prompt,
            thread=self._thread,
            block=self._block,
            continuation=self._continuation,
        )
        self.keeping = asyncio.create_task(commit.keep(answer))

    @property
    def _upstream_url(self) -> str:
        return self._parts.upstreams.of_model(self._model).url

    def _judge(self, answer: AnswerCopy, *, is_broken: bool = False) -> None:
        if not is_broken and (answer.is_whole or answer.failed in _UNFINISHED):
            self._parts.figures.endings.note(self._upstream_url, is_whole=answer.is_whole)
        if answer.usage is not None:
            usage = answer.usage
            figures = self._parts.memory.figures
            figures.count_tokens(self._caller.space, self._model, read=usage.input_tokens, output=usage.output_tokens)
        match answer.failed:
            case None:
                pass
            case FailureReason.TOO_LARGE:
                self._parts.figures.count(ProxyFigure.TOO_LARGE)
            case FailureReason.MALFORMED:
                self._parts.figures.count(ProxyFigure.UNREAD)
            case FailureReason.CUT:
                self._parts.figures.count(ProxyFigure.CUT)
            case _:
                self._parts.figures.count(ProxyFigure.FAILED)


async def _work_aside(value: Any, work: Callable[[Any], Any], /, *, size: int | None = None) -> Any:
    """Return the result of `work` on `value`; for a large one, in a thread."""
    size = len(value) if size is None else size
    return work(value) if size <= READ_AT_ONCE_BYTES else await asyncio.to_thread(work, value)


def _bytes_of(body: Mapping[str, object]) -> bytes:
    try:
        return json_text(body).encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON writes as an escape
        return json.dumps(body, separators=(",", ":")).encode()
