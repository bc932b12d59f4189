"""Prompts of Anthropic's Messages."""

from collections.abc import Iterator

from elytron_core.errors import InvalidInput
from elytron_models.dialects.messages import MessagesAnswer
from elytron_models.stream_parser import Fields, objects, text
from elytron_proxy.dialects.dialect import (
    BETWEEN,
    Body,
    PromptDialect,
    Refusal,
    Witness,
    before_history,
    events,
    items_of,
    named_event,
    offered,
    said_in,
    with_message,
)
from elytron_proxy.dialects.prompt import Prompt, Step, StepKind, ToolUse, prompt_of
from elytron_proxy.settings import Placement

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def read(body: Fields, /) -> Prompt | None:
    """Return the prompt of a request."""
    return prompt_of(_steps(body), tools=offered(objects(body, "tools"), "input_schema"))


def _steps(body: Fields) -> Iterator[Step]:
    for at, message in enumerate(objects(body, "messages")):
        blocks = objects(message, "content")
        said = said_in(message.get("content"))
        if text(message, "role") == "user":
            # Text beside a tool's result is the host's as often as a person's.
            if any(text(block, "type") == "tool_result" for block in blocks):
                yield Step(StepKind.TOOL, at=at)
            elif said.strip():
                yield Step(StepKind.USER, said.strip(), at)
        elif text(message, "role") == "assistant":
            yield Step(StepKind.ASSISTANT, said, at)
            for block in blocks:
                if text(block, "type").endswith("tool_use"):
                    yield Step(StepKind.TOOL, at=at, use=ToolUse(text(block, "id"), text(block, "name")))


def place(body: Body, prompt: Prompt, block: str, placement: Placement, /) -> Body:
    """Return the request with the block in it. Raises InvalidInput where `system` is neither a text nor a list."""
    messages = items_of(body, "messages")
    match placement:
        case Placement.TAIL:
            return {**body, "messages": with_message(messages, prompt.at, block, kind="text", placement=placement)}
        case Placement.BEFORE:
            return {**body, "messages": before_history(messages, block, kind="text", roles=())}
        case Placement.SYSTEM:
            system = body.get("system")
            if system is None:
                return {**body, "system": block}
            if isinstance(system, str):
                return {**body, "system": f"{system}{BETWEEN}{block}"}
            if isinstance(system, list):
                return {**body, "system": [*items_of(body, "system"), {"type": "text", "text": block}]}
            raise InvalidInput(field="system", problem="is neither a text nor a list of blocks")


def streamed(answer: Fields, /) -> bytes:
    """Return a whole answer as the stream that it could have been."""
    if text(answer, "type") == "error":
        return events(answer)
    blocks = [
        event
        for index, block in enumerate(objects(answer, "content"))
        for event in (
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        )
    ]
    delta = {"type": "message_delta", "delta": {"stop_reason": answer.get("stop_reason")}}
    return events({"type": "message_start", "message": answer}, *blocks, delta, {"type": "message_stop"})


def refused(refusal: Refusal, /) -> Fields:
    """Return the error object of the dialect."""
    kind = _KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}}


def cut(refusal: Refusal, _witness: Witness, /) -> bytes:
    """Return the event that ends a stream which broke off: the vendor's client raises it."""
    return named_event(refused(refusal))


MESSAGES = PromptDialect(
    name="messages",
    read=read,
    place=place,
    answer=lambda: MessagesAnswer(""),
    streamed=streamed,
    refused=refused,
    cut=cut,
)
