"""Prompts of OpenAI's Responses and of Open Responses."""

from collections.abc import Iterator

from elytron_core.errors import InvalidInput
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
    said_in,
    with_message,
    with_part,
)
from elytron_proxy.dialects.prompt import CallPrompt, PromptStep, StepKind, ToolUse, prompt_of
from elytron_proxy.settings import BlockPlacement

_STATUS = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


def read_prompt(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a request; None for one that is answered in the background."""
    if body.get("background"):
        return None
    return prompt_of(_body_steps(body), tools=offered_tools(object_list(body, "tools")))


def _body_steps(body: Fields) -> Iterator[PromptStep]:
    told = body.get("input")
    if isinstance(told, str):
        if told.strip():
            yield PromptStep(StepKind.USER, told.strip())
        return
    for at, item in enumerate(object_list(body, "input")):
        kind, role = text_field(item, "type") or "message", text_field(item, "role")
        if kind == "message" and role == "user":
            if said := said_in(item.get("content")).strip():
                yield PromptStep(StepKind.USER, said, at)
        elif kind == "message" and role == "assistant":
            yield PromptStep(StepKind.ASSISTANT, said_in(item.get("content")), at)
        elif kind.endswith("_call"):
            yield PromptStep(
                StepKind.TOOL,
                at=at,
                use=ToolUse(text_field(item, "call_id") or text_field(item, "id"), text_field(item, "name") or kind),
            )
        elif kind.endswith("_output"):
            yield PromptStep(StepKind.TOOL, at=at)


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
