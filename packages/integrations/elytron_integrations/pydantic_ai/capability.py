"""Memory around the runs of Pydantic AI agents."""

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
from elytron_integrations.user_memory import require_open_memory, user_memory

SpaceOfRun = Callable[[RunContext[Any]], str]
"""Returns the space whose memory a run uses, such as `lambda ctx: ctx.deps.user_id`."""


@dataclass
class ElytronMemory(AbstractCapability[Any]):
    """Recall before a run's model requests, and store the person's words and the agent's answer after the run.

    `space` is the memory space, or a function that returns it for a run; by default, the memory's own is used. The
    block is added to requests only, not to the message history. A memory failure never fails a run.
    """

    memory: MemoryFace
    space: str | SpaceOfRun | None = None
    max_chars: int = BLOCK_CHARS
    _run: AgentRunMemory | None = field(default=None, repr=False)
    _block: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_open_memory(self.memory)

    @classmethod
    @override
    def get_serialization_name(cls) -> None:
        """Return None: the program opens the memory, so a specification cannot name it."""
        return

    @override
    async def for_run(self, ctx: RunContext[Any]) -> "ElytronMemory":
        """Return the capability for one run. Raises ScopeMissing if no space is given."""
        space = self.space(ctx) if callable(self.space) else self.space
        memory = user_memory(self.memory, space, operation="the capability ElytronMemory")
        run = AgentRunMemory(memory, framework="pydantic-ai", max_chars=self.max_chars)
        return replace(self, _run=run, _block=None)

    @override
    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Insert the recalled block before the person's latest words in the request."""
        place, prompt = _latest_prompt(request_context.messages)
        if prompt is None or self._run is None:
            return request_context
        if self._block is None:
            # Recall once per run, so requests after tool calls repeat the same bytes that the provider has cached.
            self._block = await self._run.block(joined_text(_user_texts(prompt)), conversation=ctx.conversation_id)
        if not self._block:
            return request_context
        shown_prompt = replace(prompt, parts=[UserPromptPart(content=self._block), *prompt.parts])
        messages = list(request_context.messages)
        messages[place] = shown_prompt
        return replace(request_context, messages=messages)

    @override
    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Store the run's turn under its id, in the run's conversation."""
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
    """Return the last message that contains the person's words, and its index."""
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
    """Return the text of the last answer, for a run whose output is not text."""
    answers = [message.text for message in messages if isinstance(message, ModelResponse)]
    return (answers[-1] if answers else None) or ""
