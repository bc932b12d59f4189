"""Memory around the runs of an agent of Pydantic AI."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import AgentRunResult, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextContent, UserContent, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from typing_extensions import override

from elytron.api import MemoryFace
from elytron_core.evidence import EvidenceRole
from elytron_integrations.conversation_items import joined_text
from elytron_integrations.run_memory import BLOCK_CHARS, AgentRunMemory, spoken_message
from elytron_integrations.user_memory import user_memory

SpaceOfRun = Callable[[RunContext[Any]], str]
"""Returns whose memory a run uses, such as `lambda ctx: ctx.deps.user_id`."""


@dataclass
class ElytronMemory(AbstractCapability[Any]):
    """Recalls before a run's model requests, and stores what the person said and the agent answered after the run.

    `space` is the memory space, or returns it for a run; without it, the memory's own is used. The block is part of
    the requests only, not of the message history. A memory that fails never fails a run.
    """

    memory: MemoryFace
    space: str | SpaceOfRun | None = None
    max_chars: int = BLOCK_CHARS
    _run: AgentRunMemory | None = field(default=None, repr=False)
    _block: str | None = field(default=None, repr=False)

    @classmethod
    @override
    def get_serialization_name(cls) -> None:
        """Return None: a memory is opened by the program, and no specification names it."""
        return

    @override
    async def for_run(self, ctx: RunContext[Any]) -> "ElytronMemory":
        """Return the capability of one run. Raises ScopeMissing if nothing names whose memory it uses."""
        space = self.space(ctx) if callable(self.space) else self.space
        memory = user_memory(self.memory, space, operation="the capability ElytronMemory")
        run = AgentRunMemory(memory, framework="pydantic-ai", max_chars=self.max_chars)
        return replace(self, _run=run, _block=None)

    @override
    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the recalled block in front of the person's latest words."""
        place, prompt = _latest_prompt(request_context.messages)
        if prompt is None or self._run is None:
            return request_context
        if self._block is None:
            # Once for a run: requests after its tools repeat the same bytes, which a provider has cached.
            self._block = await self._run.block(joined_text(_user_texts(prompt)), conversation=ctx.conversation_id)
        if not self._block:
            return request_context
        shown_prompt = replace(prompt, parts=[UserPromptPart(content=self._block), *prompt.parts])
        messages = list(request_context.messages)
        messages[place] = shown_prompt
        return replace(request_context, messages=messages)

    @override
    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Store the run's turn under its id, in the conversation of the run."""
        new_messages = result.new_messages()
        user_text = joined_text(text for message in new_messages for text in _user_texts(message))
        answer = result.output if isinstance(result.output, str) else _answer_text(new_messages)
        if self._run is not None and ctx.run_id is not None:
            messages = (
                spoken_message(EvidenceRole.USER, user_text),
                spoken_message(EvidenceRole.ASSISTANT, answer),
            )
            await self._run.store(messages, turn_id=ctx.run_id, conversation=ctx.conversation_id)
        return result


def _latest_prompt(messages: Sequence[ModelMessage]) -> tuple[int, ModelRequest | None]:
    """Return the last message with the person's words, and its place."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts):
            return place, message
    return 0, None


def _user_texts(message: ModelMessage) -> Iterator[str]:
    for part in message.parts if isinstance(message, ModelRequest) else ():
        if isinstance(part, UserPromptPart):
            yield from (part.content,) if isinstance(part.content, str) else _content_texts(part.content)


def _content_texts(contents: Sequence[UserContent]) -> Iterator[str]:
    for content in contents:
        if isinstance(content, str):
            yield content
        elif isinstance(content, TextContent):
            yield content.content


def _answer_text(messages: Sequence[ModelMessage]) -> str:
    """Return the words of the last answer, for a run whose output is a value."""
    answers = [message.text for message in messages if isinstance(message, ModelResponse)]
    return (answers[-1] if answers else None) or ""
