"""Prompts of OpenAI's chat completions."""

from collections.abc import Iterator

from elytron_models.dialects.chat import ChatAnswer
from elytron_models.stream_parser import Fields, count, inner, objects, text
from elytron_proxy.dialects.dialect import (
    Body,
    PromptDialect,
    Refusal,
    Witness,
    before_history,
    events,
    functions_of,
    in_system,
    items_of,
    said_in,
    with_message,
)
from elytron_proxy.dialects.prompt import Prompt, Step, StepKind, ToolUse, prompt_of
from elytron_proxy.settings import Placement

POLICIES = ("system", "developer")


def read(body: Fields, /) -> Prompt | None:
    """Return the prompt of a request."""
    return prompt_of(steps_of(body), tools=functions_of(body), is_single=count(body, "n") <= 1)


def steps_of(body: Fields, /) -> Iterator[Step]:
    """Yield the steps of the messages, as chat completions and Ollama write them."""
    for at, message in enumerate(objects(body, "messages")):
        match text(message, "role"):
            case "user":
                if said := said_in(message.get("content")).strip():
                    yield Step(StepKind.USER, said, at)
            case "assistant":
                if said := said_in(message.get("content")):
                    yield Step(StepKind.ASSISTANT, said, at)
                for call in objects(message, "tool_calls"):
                    named = text(inner(call, "function"), "name")
                    yield Step(StepKind.TOOL, at=at, use=ToolUse(text(call, "id"), named))
            case "tool" | "function":
                yield Step(StepKind.TOOL, at=at)
            case _:
                pass


def place(body: Body, prompt: Prompt, block: str, placement: Placement, /) -> Body:
    """Return the request with the block in it."""
    messages = items_of(body, "messages")
    match placement:
        case Placement.TAIL:
            placed = with_message(messages, prompt.at, block, kind="text", placement=placement)
        case Placement.SYSTEM:
            placed = in_system(messages, block, roles=POLICIES)
        case Placement.BEFORE:
            placed = before_history(messages, block, kind="text", roles=POLICIES)
    return {**body, "messages": placed}


def streamed(answer: Fields, /) -> bytes:
    """Return a whole answer as the stream that it could have been."""
    choices = [
        {
            "index": count(choice, "index"),
            "delta": inner(choice, "message"),
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in objects(answer, "choices")
    ]
    return events({**answer, "choices": choices}) + b"data: [DONE]\n\n"


def refused(refusal: Refusal, /) -> Fields:
    """Return the error object of OpenAI's APIs."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}


def cut(refusal: Refusal, _witness: Witness, /) -> bytes:
    """Return the event that ends a stream which broke off: the vendor's client raises it."""
    return events(refused(refusal))


CHAT = PromptDialect(
    name="chat", read=read, place=place, answer=ChatAnswer, streamed=streamed, refused=refused, cut=cut
)
