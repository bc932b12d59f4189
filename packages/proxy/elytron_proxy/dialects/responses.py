"""Prompts of OpenAI's Responses and of Open Responses."""

from dataclasses import replace

from elytron_core.errors import InvalidInput
from elytron_models.chat_messages import message_items
from elytron_models.dialects.responses import ResponsesAnswer
from elytron_models.stream_parser import Fields, object_fields, object_list, text_field
from elytron_proxy.dialects.chat import POLICIES, refusal_body
from elytron_proxy.dialects.dialect import (
    BETWEEN,
    AnswerWitness,
    Body,
    CallRefusal,
    PromptDialect,
    before_history,
    encode_events,
    items_of,
    named_event,
    offered_tools,
    with_message,
    with_part,
)
from elytron_proxy.dialects.prompt import CallPrompt, prompt_of, steps_of
from elytron_proxy.settings import BlockPlacement

_STATUS = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


def read_prompt(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a request; None for one that is answered in the background."""
    if body.get("background"):
        return None
    tools, told = offered_tools(object_list(body, "tools")), body.get("input")
    messages = [{"role": "user", "content": told}] if isinstance(told, str) else object_list(body, "input")
    found = prompt_of(steps_of(messages, message_items), tools=tools)
    return replace(found, at=-1) if found is not None and isinstance(told, str) else found


def place_block(body: Body, prompt: CallPrompt, block: str, placement: BlockPlacement, /) -> Body:
    """Return the request with the block in it. Raises InvalidInput where `instructions` are no text."""
    if placement is BlockPlacement.SYSTEM:
        instructions = body.get("instructions")
        if instructions is None:
            return {**body, "instructions": block}
        if not isinstance(instructions, str):
            raise InvalidInput(field="instructions", problem="is no text: memory is appended to it")
        return {**body, "instructions": f"{instructions}{BETWEEN}{block}"}
    told = body.get("input")
    if isinstance(told, str):
        return {**body, "input": with_part(told, block, kind="input_text", placement=placement)}
    items = items_of(body, "input")
    if placement is BlockPlacement.BEFORE:
        return {**body, "input": before_history(items, block, kind="input_text", roles=POLICIES)}
    return {**body, "input": with_message(items, prompt.at, block, kind="input_text", placement=placement)}


def unseal_request(body: Body, /) -> Body | None:
    """Return the request without sealed reasoning; None if it has none."""
    items = items_of(body, "input")
    left = [item for item in items if not _is_sealed(object_fields(item))]
    return {**body, "input": left} if len(left) < len(items) else None


def _is_sealed(item: Fields) -> bool:
    return text_field(item, "type") == "reasoning" and bool(item.get("encrypted_content"))


def stream_whole(answer: Fields, /) -> bytes:
    """Return a whole answer as the stream that it could have been; one under way is none."""
    kind = _STATUS.get(text_field(answer, "status"))
    return encode_events({"type": kind, "response": answer}) if kind is not None else b""


def cut_event(refusal: CallRefusal, witness: AnswerWitness, /) -> bytes:
    """Return the event that ends a stream which broke off: the response that began, failed."""
    error = {"code": "server_error", "message": refusal.message}
    begun: Fields = {"object": "response", "id": "", "model": "", "created_at": 0, **witness.begun}
    nothing: list[object] = []
    response: Fields = {**begun, "output": nothing, "tools": nothing, "status": "failed", "error": error}
    return named_event({"type": "response.failed", "sequence_number": witness.number + 1, "response": response})


RESPONSES = PromptDialect(
    name="responses",
    read=read_prompt,
    place=place_block,
    answer=lambda: ResponsesAnswer(""),
    streamed=stream_whole,
    refused=refusal_body,
    cut=cut_event,
)
