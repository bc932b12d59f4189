"""Prompts of OpenAI's chat completions and Responses, and of Open Responses."""

from dataclasses import replace

from elytron_core.errors import InvalidInput
from elytron_models.chat_messages import message_items
from elytron_models.dialect import Fields, count_field, inner_object, object_fields, object_list, text_field
from elytron_models.dialects.chat import ChatAnswer
from elytron_models.dialects.responses import ResponsesAnswer
from elytron_proxy.prompts.prompt import (
    BETWEEN,
    AnswerWitness,
    Body,
    CallPrompt,
    CallRefusal,
    PromptDialect,
    before_history,
    encode_events,
    functions_of,
    in_system,
    items_of,
    named_event,
    offered_tools,
    prompt_of,
    steps_of,
    with_message,
    with_part,
)
from elytron_proxy.settings import BlockPlacement

_POLICIES = ("system", "developer")


def _read_chat(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a chat's request."""
    steps = steps_of(object_list(body, "messages"), message_items)
    return prompt_of(steps, tools=functions_of(body), is_single=count_field(body, "n") <= 1)


def place_in_chat(body: Body, prompt: CallPrompt, block: str, placement: BlockPlacement, /) -> Body:
    """Return the request with the block in it."""
    messages = items_of(body, "messages")
    match placement:
        case BlockPlacement.TAIL:
            placed_messages = with_message(messages, prompt.at, block, kind="text", placement=placement)
        case BlockPlacement.SYSTEM:
            placed_messages = in_system(messages, block, roles=_POLICIES)
        case BlockPlacement.BEFORE:
            placed_messages = before_history(messages, block, kind="text", roles=_POLICIES)
    return {**body, "messages": placed_messages}


def _stream_chat(answer: Fields, /) -> bytes:
    """Return a complete answer as an equivalent stream."""
    choices = [
        {
            "index": count_field(choice, "index"),
            "delta": inner_object(choice, "message"),
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in object_list(answer, "choices")
    ]
    return encode_events({**answer, "choices": choices}) + b"data: [DONE]\n\n"


def _refusal_body(refusal: CallRefusal, /) -> Fields:
    """Return the error object of OpenAI's APIs."""
    error_type = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": refusal.message, "type": error_type, "param": None, "code": refusal.code}}


CHAT = PromptDialect(
    name="chat",
    read=_read_chat,
    place=place_in_chat,
    answer=ChatAnswer,
    streamed=_stream_chat,
    refused=_refusal_body,
    cut=lambda refusal, _: encode_events(_refusal_body(refusal)),
)


_STATUS = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


def _read_responses(body: Fields, /) -> CallPrompt | None:
    """Return the prompt of a request; None for one that is answered in the background."""
    if body.get("background"):
        return None
    tools, input_value = offered_tools(object_list(body, "tools")), body.get("input")
    messages = (
        [{"role": "user", "content": input_value}] if isinstance(input_value, str) else object_list(body, "input")
    )
    prompt = prompt_of(steps_of(messages, message_items), tools=tools)
    return replace(prompt, at=-1) if prompt is not None and isinstance(input_value, str) else prompt


def _place_in_responses(body: Body, prompt: CallPrompt, block: str, placement: BlockPlacement, /) -> Body:
    """Return the request with the block in it. Raises InvalidInput if `instructions` are not text."""
    if placement is BlockPlacement.SYSTEM:
        instructions = body.get("instructions")
        if instructions is None:
            return {**body, "instructions": block}
        if not isinstance(instructions, str):
            raise InvalidInput(field="instructions", problem="is not a text: memory is appended to it")
        return {**body, "instructions": f"{instructions}{BETWEEN}{block}"}
    input_value = body.get("input")
    if isinstance(input_value, str):
        return {**body, "input": with_part(input_value, block, kind="input_text", placement=placement)}
    items = items_of(body, "input")
    if placement is BlockPlacement.BEFORE:
        return {**body, "input": before_history(items, block, kind="input_text", roles=_POLICIES)}
    return {**body, "input": with_message(items, prompt.at, block, kind="input_text", placement=placement)}


def unseal_request(body: Body, /) -> Body | None:
    """Return the request without sealed reasoning; None if it has none."""
    items = items_of(body, "input")
    open_items = [item for item in items if not _is_sealed(object_fields(item))]
    return {**body, "input": open_items} if len(open_items) < len(items) else None


def _is_sealed(item: Fields) -> bool:
    return text_field(item, "type") == "reasoning" and bool(item.get("encrypted_content"))


def _stream_responses(answer: Fields, /) -> bytes:
    """Return a complete answer as an equivalent stream; a running one is not complete."""
    event_type = _STATUS.get(text_field(answer, "status"))
    return encode_events({"type": event_type, "response": answer}) if event_type is not None else b""


def _cut_responses(refusal: CallRefusal, witness: AnswerWitness, /) -> bytes:
    """Return the event that ends an interrupted stream: the started response, failed."""
    error = {"code": "server_error", "message": refusal.message}
    response_head: Fields = {"object": "response", "id": "", "model": "", "created_at": 0, **witness.first_response}
    empty_list: list[object] = []
    response: Fields = {**response_head, "output": empty_list, "tools": empty_list, "status": "failed", "error": error}
    return named_event({"type": "response.failed", "sequence_number": witness.number + 1, "response": response})


RESPONSES = PromptDialect(
    name="responses",
    read=_read_responses,
    place=_place_in_responses,
    answer=lambda: ResponsesAnswer(""),
    streamed=_stream_responses,
    refused=_refusal_body,
    cut=_cut_responses,
)
