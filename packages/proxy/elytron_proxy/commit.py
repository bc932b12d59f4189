"""The commit of an exchange: what a whole answer leaves as evidence, and what is remembered for its next calls."""

import logging
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from elytron_core import limits as core_limits
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.errors import ElytronError
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.records import COPIES_OF_BLOCKS
from elytron_core.planes.transcript import PRIVATE, Message, ToolObservation, TurnDelivery, TurnSource
from elytron_core.ports.chat import FinishReason
from elytron_models.stream_parser import json_text
from elytron_proxy import limits
from elytron_proxy.caller import CHANNEL, ProxyCaller, is_name
from elytron_proxy.conversation import ConversationFinder, RequestThread, continued_by, end_of
from elytron_proxy.dialects import CallPrompt, spoken_answer
from elytron_proxy.dialects.dialect import encode_shelved
from elytron_proxy.figures import ProxyFigure, ProxyFigures
from elytron_proxy.memory import CONVERSATION, NAMESPACE, MemoryDown, PromptBlock, ProxyMemory
from elytron_proxy.response_store import ContinuedRequest, ResponseStore
from elytron_proxy.settings import ProxySettings
from elytron_proxy.wire.relay import AnswerCopy
from elytron_proxy.wire.upstream import UpstreamClients

logger = logging.getLogger("elytron.proxy")
_SHOWN: Final = (*COPIES_OF_BLOCKS, NAMESPACE, "blocks-shown")
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

    async def keep(self, answer: AnswerCopy, /) -> None:
        """Keep what is to be kept of a whole answer. What memory does not take is counted."""
        with self.parts.memory.committing(self.caller):
            try:
                await self._kept(answer)
            except (MemoryDown, ElytronError, ValidationError) as error:
                self.parts.figures.count(ProxyFigure.LOST)
                key = error.key if isinstance(error, MemoryDown | ElytronError) else "invalid_input"
                logger.warning("turn not kept", extra={"request_id": self.caller.request_id, "key": key})

    async def _kept(self, answer: AnswerCopy) -> None:
        thread, figure = self.thread, self._figure(answer)
        writes = self.caller.use.writes
        if writes and figure is ProxyFigure.COMMITTED:
            thread, figure = await self._commit(answer)
        elif writes and figure is ProxyFigure.OPENED:
            thread = await self._open()
        if self.continuation is not None:
            response = answer.witness.ended
            await self.parts.responses.keep(self.caller, self.continuation, response, conversation=thread.conversation)
        if not writes:
            return
        if figure is not None:
            self.parts.figures.count(figure)
        await self.parts.memory.register(self.caller, self.prompt)
        await self._audit(thread)

    async def _audit(self, thread: RequestThread) -> None:
        if not self.parts.settings.audit or not self.block.text:
            return
        value = {"block": encode_shelved(self.block.text), "conversation": thread.conversation}
        await self.parts.memory.put(self.caller, _SHOWN, thread.turn, value, ttl_s=None)
        await self.parts.memory.trim(self.caller, _SHOWN, most=limits.AUDITS)

    def _figure(self, answer: AnswerCopy) -> ProxyFigure | None:
        """Return as what an answer counts: as committed, if it may be evidence; None if nothing is to be kept."""
        if not self.prompt.is_single:
            return None
        goes_on = answer.finished is FinishReason.TOOLS
        if answer.finished is not FinishReason.STOP and not goes_on and not self.parts.settings.partial:
            return ProxyFigure.PARTIAL
        if answer.is_too_long or len(self.prompt.said) > core_limits.MESSAGE_CHARS:
            return ProxyFigure.TOO_LARGE
        return ProxyFigure.OPENED if goes_on else ProxyFigure.COMMITTED

    async def _open(self) -> RequestThread:
        """Store what the person said, whose answer waits for tools; that answer completes the turn, if it comes."""
        conversations, caller = self.parts.conversations, self.caller
        known = self.thread if self.thread.is_open else await conversations.reopened(caller, self.thread)
        if known is not None:
            return known
        thread = await conversations.claim(caller, self.thread)
        await self._store(thread, self._turn(thread, "", delivery=TurnDelivery.USER_ONLY, uses_tools=True))
        await conversations.open(caller, thread)
        return thread

    async def _store(self, thread: RequestThread, turn: TurnDraft) -> MemoryWriteReport:
        request = MemoryWriteRequest(scope=self.caller.scope(thread.conversation), write=TranscriptWrite(turns=(turn,)))
        return await self.parts.memory.keep(self.caller, request)

    async def _commit(self, answer: AnswerCopy) -> tuple[RequestThread, ProxyFigure]:
        """Store the user message and the answer as one turn, in one batch."""
        conversations, caller = self.parts.conversations, self.caller
        said = spoken_answer(self.prompt.begun + answer.text)
        context = answer.witness.ended.get("context")
        end = continued_by(json_text(context)) if context else end_of(self.thread.asked, said)
        is_new = not self.thread.is_named and not self.thread.is_open
        if is_new and await conversations.is_kept(caller, end):
            return self.thread, ProxyFigure.DUPLICATE
        thread = await conversations.claim(caller, self.thread)
        report = await self._store(thread, self._turn(thread, said, uses_tools=answer.has_tools_used))
        if thread.is_open:
            await conversations.close(caller, thread)
        if not thread.is_named:
            await conversations.note(caller, thread, end)
        conversations.note_said(caller, self.prompt, said)
        return thread, ProxyFigure.COMMITTED if report.changed else ProxyFigure.DUPLICATE

    def _turn(
        self, thread: RequestThread, said: str, *, uses_tools: bool, delivery: TurnDelivery = TurnDelivery.DELIVERED
    ) -> TurnDraft:
        is_task = self.prompt.is_task
        # A program's words are no person's word: it has the trust of a tool's result, and a task is private.
        told = Message(role=EvidenceRole.TOOL if is_task else EvidenceRole.USER, text=self.prompt.said)
        beside = (
            (Message(role=EvidenceRole.TOOL, text=self.prompt.beside[: core_limits.MESSAGE_CHARS]),)
            if self.prompt.beside
            else ()
        )
        answer = (Message(role=EvidenceRole.ASSISTANT, text=said),) if said else ()
        return TurnDraft(
            host_id=thread.turn,
            messages=(told, *beside, *answer),
            delivery=delivery,
            metadata={CONVERSATION: thread.conversation, **({PRIVATE: True} if is_task else {})},
            source=TurnSource(
                ingress=CHANNEL,
                protocol=self.dialect,
                endpoint=self.path,
                model_alias=self.model if is_name(self.model) else None,
                request_id=self.caller.request_id,
            ),
            tool_observations=_prompt_observations(self.prompt),
            # A tool's result may have anyone's words, and the model's answer rests on it.
            external_content_used=is_task or bool(beside) or self.prompt.has_tools_used or uses_tools,
        )


def _prompt_observations(prompt: CallPrompt) -> tuple[ToolObservation, ...]:
    named = {use.id: use for use in prompt.uses if is_name(use.id) and is_name(use.name)}
    found = [
        ToolObservation(observation_id=use.id, tool_name=use.name, external_content=True) for use in named.values()
    ]
    return tuple(found[: core_limits.TOOL_OBSERVATIONS])
