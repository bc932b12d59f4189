"""Prompts of Anthropic's Messages."""

from elytron_core.errors import InvalidInput
from elytron_models.chat_messages import anthropic_items
from elytron_models.dialect import Fields, object_list, text_field
from elytron_models.dialects.messages import MessagesAnswer
from elytron_proxy.prompts.prompt import (
    BETWEEN,
    Body,
    CallPrompt,
    CallRefusal,
    PromptDialect,
    before_history,
    encode_events,
    items_of,
    named_event,
    offered_tools,
    prompt_of,
    steps_of,
    with_message,
)
from elytron_proxy.settings import BlockPlacement

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def read_prompt(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a request."""
    steps = steps_of(object_list(body, "messages"), anthropic_items)
    return prompt_of(steps, tools=offered_tools(object_list(body, "tools"), "input_schema"))


def place_block(body: Body, prompt: CallPrompt, block: str, placement: BlockPlacement, /) -> Body:
    """Return the request with the block in it. Raises InvalidInput if `system` is neither a text nor a list."""
    messages = items_of(body, "messages")
    match placement:
        case BlockPlacement.TAIL:
            return {**body, "messages": with_message(messages, prompt.at, block, kind="text", placement=placement)}
        case BlockPlacement.BEFORE:
            return {**body, "messages": before_history(messages, block, kind="text", roles=())}
        case BlockPlacement.SYSTEM:
            system = body.get("system")
            if system is None:
                return {**body, "system": block}
            if isinstance(system, str):
                return {**body, "system": f"{system}{BETWEEN}{block}"}
            if isinstance(system, list):
                return {**body, "system": [*items_of(body, "system"), {"type": "text", "text": block}]}
            raise InvalidInput(field="system", problem="must be a text or a list of blocks")


def stream_whole(answer: Fields, /) -> bytes:
    """Return a complete answer as an equivalent stream."""
    if text_field(answer, "type") == "error":
        return encode_events(answer)
    blocks = [
        event
        for index, block in enumerate(object_list(answer, "content"))
        for event in (
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        )
    ]
    delta = {"type": "message_delta", "delta": {"stop_reason": answer.get("stop_reason")}}
    return encode_events({"type": "message_start", "message": answer}, *blocks, delta, {"type": "message_stop"})


def refusal_body(refusal: CallRefusal, /) -> Fields:
    """Return the error object of the dialect."""
    error_type = _KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
    return {"type": "error", "error": {"type": error_type, "message": refusal.message}}


MESSAGES = PromptDialect(
    name="messages",
    read=read_prompt,
    place=place_block,
    answer=lambda: MessagesAnswer(""),
    streamed=stream_whole,
    refused=refusal_body,
    cut=lambda refusal, _: named_event(refusal_body(refusal)),
)
