"""Prompts of OpenAI's Responses and of Open Responses."""

from collections.abc import Iterator

from elytron_core.errors import InvalidInput
from elytron_models.dialects.responses import ResponsesAnswer
from elytron_models.stream_parser import Fields, fields, objects, text
from elytron_proxy.dialects.chat import POLICIES, refused
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
    with_part,
)
from elytron_proxy.dialects.prompt import Prompt, Step, StepKind, ToolUse, prompt_of
from elytron_proxy.settings import Placement

_STATUS = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


def read(body: Fields, /) -> Prompt | None:
    """Return the prompt of a request; None for one that is answered in the background."""
    if body.get("background"):
        return None
    return prompt_of(_steps(body), tools=offered(objects(body, "tools")))


def _steps(body: Fields) -> Iterator[Step]:
    told = body.get("input")
    if isinstance(told, str):
        if told.strip():
            yield Step(StepKind.USER, told.strip())
        return
    for at, item in enumerate(objects(body, "input")):
        kind, role = text(item, "type") or "message", text(item, "role")
        if kind == "message" and role == "user":
            if said := said_in(item.get("content")).strip():
                yield Step(StepKind.USER, said, at)
        elif kind == "message" and role == "assistant":
            yield Step(StepKind.ASSISTANT, said_in(item.get("content")), at)
        elif kind.endswith("_call"):
            yield Step(
                StepKind.TOOL, at=at, use=ToolUse(text(item, "call_id") or text(item, "id"), text(item, "name") or kind)
            )
        elif kind.endswith("_output"):
            yield Step(StepKind.TOOL, at=at)


def place(body: Body, prompt: Prompt, block: str, placement: Placement, /) -> Body:
    """Return the request with the block in it. Raises InvalidInput where `instructions` are no text."""
    if placement is Placement.SYSTEM:
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
    if placement is Placement.BEFORE:
        return {**body, "input": before_history(items, block, kind="input_text", roles=POLICIES)}
    return {**body, "input": with_message(items, prompt.at, block, kind="input_text", placement=placement)}


def unsealed(body: Body, /) -> Body | None:
    """Return the request without sealed reasoning; None if it has none."""
    items = items_of(body, "input")
    left = [item for item in items if not _is_sealed(fields(item))]
    return {**body, "input": left} if len(left) < len(items) else None


def _is_sealed(item: Fields) -> bool:
    return text(item, "type") == "reasoning" and bool(item.get("encrypted_content"))


def streamed(answer: Fields, /) -> bytes:
    """Return a whole answer as the stream that it could have been; one under way is none."""
    kind = _STATUS.get(text(answer, "status"))
    return events({"type": kind, "response": answer}) if kind is not None else b""


def cut(refusal: Refusal, witness: Witness, /) -> bytes:
    """Return the event that ends a stream which broke off: the response that began, failed."""
    error = {"code": "server_error", "message": refusal.message}
    begun: Fields = {"object": "response", "id": "", "model": "", "created_at": 0, **witness.begun}
    nothing: list[object] = []
    response: Fields = {**begun, "output": nothing, "tools": nothing, "status": "failed", "error": error}
    return named_event({"type": "response.failed", "sequence_number": witness.number + 1, "response": response})


RESPONSES = PromptDialect(
    name="responses",
    read=read,
    place=place,
    answer=lambda: ResponsesAnswer(""),
    streamed=streamed,
    refused=refused,
    cut=cut,
)
