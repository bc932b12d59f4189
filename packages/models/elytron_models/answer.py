"""A complete answer, assembled from the events of a stream."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from elytron_core import limits, strict_json
from elytron_core.errors import ElytronError, InvalidJson, ModelRefused
from elytron_core.model import Value
from elytron_core.policy.extraction.model_facts import bare_json, correction_prompt, looks_cut, schema_of
from elytron_core.ports import chat
from elytron_core.ports.models import PromptMessage, PromptRole, TextCompletion
from elytron_models.server import error_of


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer, the reason of its end, and its usage."""

    reply: chat.ModelReply
    reason: chat.FinishReason
    usage: chat.TokenUsage

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.reply.items if isinstance(item, chat.TextPart))

    @property
    def calls(self) -> tuple[chat.ToolCall, ...]:
        return tuple(item for item in self.reply.items if isinstance(item, chat.ToolCall))


def answer_of(events: Iterable[chat.ModelEvent], /, *, name: str) -> ModelAnswer:
    """Return the answer in the `events` of the model `name`. Raises ModelUnavailable, ModelRefused."""
    items: list[chat.ReplyItem] = []
    text_pieces: list[str] = []
    usage = chat.TokenUsage()
    for event in events:
        match event:
            case chat.TextDelta():
                text_pieces.append(event.text)
            case chat.ToolCall() | chat.OpaquePart():
                _add_said(items, text_pieces)
                items.append(event)
            case chat.TokenUsage():
                usage = event
            case chat.ReplyFinished():
                _add_said(items, text_pieces)
                return ModelAnswer(chat.ModelReply(items=tuple(items)), event.reason, usage)
            case chat.ReplyFailed():
                raise error_of(event, name=name)
            case _:
                pass
    raise ModelRefused(f"the model {name!r} ended its stream without an end marker or a failure: check how it streams")


async def ask(model: chat.ChatModel, request: chat.ModelRequest, /) -> ModelAnswer:
    """Return the whole answer to `request`. Raises ModelUnavailable, ModelRefused, InvalidInput."""
    stream: AsyncGenerator[chat.ModelEvent] = model.stream(request)
    # A generator that is left early is closed by its reader; otherwise its connection stays open until it is collected.
    async with aclosing(stream) as events:
        return answer_of([event async for event in events], name=model.info.name)


def _add_said(items: list[chat.ReplyItem], pieces: list[str]) -> None:
    if pieces:
        items.append(chat.TextPart(text="".join(pieces)))
        pieces.clear()


ValueT = TypeVar("ValueT", bound=Value)


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A model's text, and whether its end is missing."""

    text: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class AnswerCorrection:
    """The unreadable answer, and the follow-up question about it."""

    answer: str
    question: str


@dataclass(frozen=True, slots=True)
class StructuredAnswer(Generic[ValueT]):
    """A model's answer as a value, and the usage of all its calls."""

    value: ValueT
    usage: chat.TokenUsage


async def correct_answer(
    request_text: Callable[[AnswerCorrection | None], Awaitable[WrittenText]],
    answer_type: type[ValueT],
    /,
    *,
    name: str,
) -> ValueT:
    """Return the answer of the model `name` as an `answer_type`, asked for once more if the first is unreadable.

    What is nearly JSON is repaired; what was cut off is not, for half a sentence would pass for a whole one. Raises
    ModelRefused if there is no answer.
    """
    answer = await request_text(None)
    parsed_answer = _read_answer(answer, answer_type)
    if parsed_answer.value is None:
        question = correction_prompt(parsed_answer.problem, schema_of(answer_type))
        parsed_answer = _read_answer(await request_text(AnswerCorrection(answer.text, question)), answer_type)
    if parsed_answer.value is None:
        raise ModelRefused(f"the model {name!r} twice returned an answer that does not match the requested schema")
    return parsed_answer.value


async def ask_for(
    model: chat.ChatModel, request: chat.ModelRequest, answer_type: type[ValueT], /
) -> StructuredAnswer[ValueT]:
    """Return the answer to `request` as an `answer_type`, without tool calls. Raises ModelUnavailable, ModelRefused."""
    # With tools a model could call one instead of answering.
    schema_request = request.model_copy(
        update={"answer_schema": schema_of(answer_type), "tools": (), "tool_choice": chat.ToolChoice.AUTO}
    )
    usage = chat.TokenUsage()

    async def request_text(correction: AnswerCorrection | None, /) -> WrittenText:
        nonlocal usage
        correction_messages = () if correction is None else _correction_messages(correction)
        answer = await ask(
            model, schema_request.model_copy(update={"messages": (*schema_request.messages, *correction_messages)})
        )
        usage = usage.plus(answer.usage)
        if answer.reason is chat.FinishReason.REFUSED:
            raise ModelRefused(f"the model {model.info.name!r} refused to answer")
        return WrittenText(answer.text, is_cut=answer.reason is not chat.FinishReason.STOP)

    value = await correct_answer(request_text, answer_type, name=model.info.name)
    return StructuredAnswer(value, usage)


def _correction_messages(correction: AnswerCorrection) -> tuple[chat.ModelReply, chat.InputMessage]:
    reply = chat.ModelReply(items=(chat.TextPart(text=correction.answer),))
    return reply, chat.InputMessage(role=chat.ChatRole.USER, parts=(chat.TextPart(text=correction.question),))


@dataclass(frozen=True, slots=True)
class _ReadAnswer(Generic[ValueT]):
    """An answer as a value, or the problem with it."""

    value: ValueT | None
    problem: str = ""


def _read_answer(answer: WrittenText, answer_type: type[ValueT]) -> _ReadAnswer[ValueT]:
    text = bare_json(answer.text)
    if answer.is_cut or looks_cut(text):
        return _ReadAnswer(None, "it was cut off before its end: answer shorter")
    try:
        # A lone surrogate is replaced, because the rest of the answer can still be read.
        parsed_json: Any = strict_json.parse_json(text.encode("utf-8", "replace"))
    except ElytronError as error:
        parsed_json = _repair_json(text)
        if parsed_json is None:
            return _ReadAnswer(None, error.message if isinstance(error, InvalidJson) else "it is too long")
    try:
        return _ReadAnswer(answer_type.model_validate(parsed_json))
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False, include_context=False)[0]
        error_place = ".".join(str(part) for part in first_error["loc"]) or "the answer"
        return _ReadAnswer(None, f"{error_place}: {first_error['msg']}")


def _repair_json(text: str) -> object | None:
    """Return `text` with common mistakes of models corrected as JSON; None if that fails."""
    try:
        import json_repair
    except ImportError:
        # Without the extra, invalid JSON goes back to the model at once.
        return None
    value: object = json_repair.loads(text)
    return value if isinstance(value, dict | list) else None


_ROLES = {PromptRole.SYSTEM: chat.ChatRole.SYSTEM, PromptRole.USER: chat.ChatRole.USER}


class TextModel:
    """Writes text through `model`, which its caller closes.

    `prompt_price` and `completion_price` are what a million tokens cost, for the reports.
    """

    def __init__(self, model: chat.ChatModel, /, *, prompt_price: float = 0.0, completion_price: float = 0.0) -> None:
        self._model = model
        self._prices = (prompt_price, completion_price)

    def __repr__(self) -> str:
        return f"TextModel({self.name!r})"

    @property
    def name(self) -> str:
        return self._model.info.name

    async def complete(
        self, prompt: Sequence[PromptMessage], /, *, schema: str | None = None, max_tokens: int
    ) -> TextCompletion:
        """Return the model's text. Raises ModelUnavailable, ModelRefused."""
        messages = tuple(_input_message(prompt_message) for prompt_message in prompt)
        request = chat.ModelRequest(messages=messages, answer_schema=schema, max_tokens=max_tokens)
        answer = await ask(self._model, request)
        text, usage = answer.text, answer.usage
        if not text or answer.reason is chat.FinishReason.REFUSED:
            raise ModelRefused(f"the model {self.name!r} returned no text")
        return TextCompletion(
            text=text[: limits.MODEL_ANSWER_CHARS],
            model=self.name,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cost=round(usage.input_tokens * self._prices[0] + usage.output_tokens * self._prices[1]),
            is_cut=answer.reason is not chat.FinishReason.STOP or len(text) > limits.MODEL_ANSWER_CHARS,
        )


def _input_message(message: PromptMessage) -> chat.Message:
    text_part = chat.TextPart(text=message.text)
    if message.speaker is PromptRole.ASSISTANT:
        return chat.ModelReply(items=(text_part,))
    return chat.InputMessage(role=_ROLES[message.speaker], parts=(text_part,))
