"""Prompts of Ollama: its chat, and its completions of one prompt."""

from dataclasses import replace

from elytron_models.dialects.ollama import OllamaAnswer
from elytron_models.stream_parser import Fields, json_text, text
from elytron_proxy.dialects import chat
from elytron_proxy.dialects.dialect import (
    BETWEEN,
    Body,
    PromptDialect,
    Refusal,
    Witness,
    functions_of,
    items_of,
    with_part,
)
from elytron_proxy.dialects.prompt import Prompt, prompt_of, without_blocks
from elytron_proxy.settings import Placement


def read(body: Fields, /) -> Prompt | None:
    """Return the prompt of a chat."""
    return prompt_of(chat.steps_of(body), tools=functions_of(body))


def read_completion(body: Fields, /) -> Prompt | None:
    """Return the prompt of a completion; None for a raw one, and for one that fills a gap."""
    said = without_blocks(text(body, "prompt").strip())
    if not said or body.get("raw") or body.get("suffix"):
        return None
    context = items_of(body, "context")
    return Prompt(said=said, continues=json_text(context) if context else "")


def place_in_completion(body: Body, _prompt: Prompt, block: str, placement: Placement, /) -> Body:
    """Return the request with the block in its prompt, or in its system prompt."""
    if placement is Placement.SYSTEM:
        system = text(body, "system")
        return {**body, "system": f"{system}{BETWEEN}{block}" if system else block}
    return {**body, "prompt": with_part(text(body, "prompt"), block, kind="text", placement=placement)}


def streamed(answer: Fields, /) -> bytes:
    """Return a whole answer as the line that it is."""
    return f"{json_text(answer)}\n".encode("utf-8", "replace")


def refused(refusal: Refusal, /) -> Fields:
    """Return the error object of the dialect."""
    return {"error": refusal.message}


def cut(refusal: Refusal, _witness: Witness, /) -> bytes:
    """Return the line that ends a stream which broke off: the vendor's client raises it."""
    return streamed(refused(refusal))


OLLAMA = PromptDialect(
    name="ollama",
    read=read,
    place=chat.place,
    answer=lambda: OllamaAnswer(""),
    streamed=streamed,
    refused=refused,
    cut=cut,
    has_lines=True,
)
COMPLETION = replace(OLLAMA, read=read_completion, place=place_in_completion)
