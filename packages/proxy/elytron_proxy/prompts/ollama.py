"""Prompts of Ollama: its chat, and its completions of one prompt."""

from dataclasses import replace

from elytron_core.policy.projection.fence import without_wrapped
from elytron_models.chat_messages import message_items
from elytron_models.dialect import Fields, json_text, object_list, text_field
from elytron_models.dialects.ollama import OllamaAnswer
from elytron_proxy.prompts.openai import place_in_chat
from elytron_proxy.prompts.prompt import (
    BETWEEN,
    Body,
    CallPrompt,
    CallRefusal,
    PromptDialect,
    functions_of,
    items_of,
    prompt_of,
    steps_of,
    with_part,
)
from elytron_proxy.settings import BlockPlacement


def read_prompt(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a chat."""
    steps = steps_of(object_list(body, "messages"), message_items)
    return prompt_of(steps, tools=functions_of(body))


def read_completion(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a completion; None for a raw one, and for one that fills a gap."""
    text = without_wrapped(text_field(body, "prompt").strip())
    if not text or body.get("raw") or body.get("suffix"):
        return None
    context = items_of(body, "context")
    return CallPrompt(text=text, continues=json_text(context) if context else "")


def place_in_completion(body: Body, _prompt: CallPrompt, block: str, placement: BlockPlacement, /) -> Body:
    """Return the request with the block in its prompt, or in its system prompt."""
    if placement is BlockPlacement.SYSTEM:
        system = text_field(body, "system")
        return {**body, "system": f"{system}{BETWEEN}{block}" if system else block}
    return {**body, "prompt": with_part(text_field(body, "prompt"), block, kind="text", placement=placement)}


def stream_whole(answer: Fields, /) -> bytes:
    """Return a complete answer as a single line."""
    return f"{json_text(answer)}\n".encode("utf-8", "replace")


def refusal_body(refusal: CallRefusal, /) -> Fields:
    """Return the error object of the dialect."""
    return {"error": refusal.message}


OLLAMA = PromptDialect(
    name="ollama",
    read=read_prompt,
    place=place_in_chat,
    answer=lambda: OllamaAnswer(""),
    streamed=stream_whole,
    refused=refusal_body,
    cut=lambda refusal, _: stream_whole(refusal_body(refusal)),
    has_lines=True,
)
COMPLETION = replace(OLLAMA, read=read_completion, place=place_in_completion)
