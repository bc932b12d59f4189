"""The turn of a request: which conversation it continues, by digests of its messages, and the draft that is stored."""

import hashlib
from typing import Final

from elytron_core import limits
from elytron_core.contracts.recall import AnyOf, ComparisonOperator, FieldCondition, RecallFilters
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.evidence import PRIVATE_FLAG, EvidenceRole
from elytron_core.planes.transcript import Message, TurnDelivery, TurnSource
from elytron_proxy.prompts.prompt import CallPrompt, spoken_answer
from elytron_turn.memory import observed_tools

CONVERSATION: Final = "llm_conversation"
"""Metadata key of a turn's conversation, so that recall can exclude the request's own messages."""
START: Final = b""


def start_of(prompt: CallPrompt, /) -> bytes:
    """Return the digest of everything before the last user message; empty if there is nothing."""
    if prompt.continues:
        return continued_by(prompt.continues)
    digest = START
    for exchange in prompt.earlier:
        digest = end_of(question_of(digest, exchange.prompt), exchange.answer)
    return digest


def question_of(start: bytes, words: str, /) -> bytes:
    """Return the digest of a conversation in which the user says `words` after `start`."""
    return _link_digest(start, "user", words)


def end_of(question_digest: bytes, answer: str, /) -> bytes:
    """Return the digest of a conversation that ends with this answer to `question_digest`."""
    return _link_digest(question_digest, "assistant", spoken_answer(answer))


def continued_by(context: str, /) -> bytes:
    """Return the digest of a conversation that continues through what the model itself calls its context."""
    return _link_digest(START, "context", context)


def _link_digest(before: bytes, role: str, words: str) -> bytes:
    """Return the digest of a message after `before`; white space is ignored, because clients change it."""
    normalised_words = " ".join(words.split())
    return hashlib.blake2b(
        f"{role}\0{normalised_words}".encode("utf-8", "surrogatepass"), digest_size=20, key=before
    ).digest()


def without_conversation(conversation: str, /) -> RecallFilters:
    """Return filters that exclude turns of this conversation, which the request contains in full."""
    other_conversations = FieldCondition(field=CONVERSATION, comparison=ComparisonOperator.NE, values=(conversation,))
    return RecallFilters(where=(AnyOf(conditions=(other_conversations,)),))


def draft_of(
    prompt: CallPrompt,
    reply: str,
    /,
    *,
    turn: str,
    conversation: str,
    source: TurnSource,
    uses_tools: bool,
    delivery: TurnDelivery = TurnDelivery.DELIVERED,
) -> TurnDraft:
    """Return the turn of a request and its answer, under the host's id `turn`.

    `uses_tools` is true if the answer calls tools, or the provider used its own.
    """
    is_task = prompt.is_task
    # A program's words are no person's: they are trusted like a tool's result, and a task is private.
    question_message = Message(role=EvidenceRole.TOOL if is_task else EvidenceRole.USER, text=prompt.text)
    program_messages = (
        (Message(role=EvidenceRole.TOOL, text=prompt.beside[: limits.MESSAGE_CHARS]),) if prompt.beside else ()
    )
    answer_messages = (Message(role=EvidenceRole.ASSISTANT, text=reply),) if reply else ()
    return TurnDraft(
        host_id=turn,
        messages=(question_message, *program_messages, *answer_messages),
        delivery=delivery,
        metadata={CONVERSATION: conversation, **({PRIVATE_FLAG: True} if is_task else {})},
        source=source,
        tool_observations=observed_tools(((use.id, use.name) for use in prompt.uses), is_outside=True),
        # A tool's result may contain anyone's words, and the model's answer is based on it.
        external_content_used=is_task or bool(program_messages) or prompt.has_tools_used or uses_tools,
    )
