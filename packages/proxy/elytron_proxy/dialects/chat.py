"""Prompts of OpenAI's chat completions."""

from elytron_models.chat_messages import message_items
from elytron_models.dialects.chat import ChatAnswer
from elytron_models.stream_parser import Fields, count_field, inner_object, object_list
from elytron_proxy.dialects.dialect import (
    AnswerWitness,
    Body,
    CallRefusal,
    PromptDialect,
    before_history,
    encode_events,
    functions_of,
    in_system,
    items_of,
    with_message,
)
from elytron_proxy.dialects.prompt import CallPrompt, prompt_of, steps_of
from elytron_proxy.settings import BlockPlacement

POLICIES = ("system", "developer")


def read_prompt(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a request."""
    steps = steps_of(object_list(body, "messages"), message_items)
    return prompt_of(steps, tools=functions_of(body), is_single=count_field(body, "n") <= 1)


def place_block(body: Body, prompt: CallPrompt, block: str, placement: BlockPlacement, /) -> Body:
    """Return the request with the block in it."""
    messages = items_of(body, "messages")
    match placement:
        case BlockPlacement.TAIL:
            placed = with_message(messages, prompt.at, block, kind="text", placement=placement)
        case BlockPlacement.SYSTEM:
            placed = in_system(messages, block, roles=POLICIES)
        case BlockPlacement.BEFORE:
            placed = before_history(messages, block, kind="text", roles=POLICIES)
    return {**body, "messages": placed}


def stream_whole(answer: Fields, /) -> bytes:
    """Return a whole answer as the stream that it could have been."""
    choices = [
        {
            "index": count_field(choice, "index"),
            "delta": inner_object(choice, "message"),
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in object_list(answer, "choices")
    ]
    return encode_events({**answer, "choices": choices}) + b"data: [DONE]\n\n"


def refusal_body(refusal: CallRefusal, /) -> Fields:
    """Return the error object of OpenAI's APIs."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}


def cut_event(refusal: CallRefusal, _witness: AnswerWitness, /) -> bytes:
    """Return the event that ends a stream which broke off: the vendor's client raises it."""
    return encode_events(refusal_body(refusal))


CHAT = PromptDialect(
    name="chat",
    read=read_prompt,
    place=place_block,
    answer=ChatAnswer,
    streamed=stream_whole,
    refused=refusal_body,
    cut=cut_event,
)
