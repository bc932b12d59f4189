"""Structured answers: a schema for the server, repair of near-JSON, one correction, else a failure."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from elytron_core import strict_json
from elytron_core.errors import ElytronError, InvalidJson, ModelRefused
from elytron_core.model import Value
from elytron_core.policy.extraction import structured_output as shapes
from elytron_core.ports import chat
from elytron_models.answer import ask

ValueT = TypeVar("ValueT", bound=Value)


@dataclass(frozen=True, slots=True)
class Written:
    """A model's text, and whether its end is missing."""

    text: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Correction:
    """The answer that cannot be read, and what is asked about it."""

    answer: str
    question: str


@dataclass(frozen=True, slots=True)
class StructuredAnswer(Generic[ValueT]):
    """A model's answer as a value, and what all its calls used."""

    value: ValueT
    usage: chat.Usage


async def corrected(
    asked: Callable[[Correction | None], Awaitable[Written]], shape: type[ValueT], /, *, name: str
) -> ValueT:
    """Return the answer of the model `name` as a `shape`, asked for a second time if the first cannot be read.

    What is nearly JSON is repaired; what was cut off is not, for half a sentence would pass for a whole one. Raises
    ModelRefused if there is no answer.
    """
    written = await asked(None)
    read = _read(written, shape)
    if read.value is None:
        question = shapes.correction(read.problem, shapes.schema_of(shape))
        read = _read(await asked(Correction(written.text, question)), shape)
    if read.value is None:
        raise ModelRefused(f"the model {name!r} twice gave no answer of the shape asked for")
    return read.value


async def ask_for(
    model: chat.ChatModel, request: chat.ModelRequest, shape: type[ValueT], /
) -> StructuredAnswer[ValueT]:
    """Return the answer to `request` as a `shape`; tools are not called. Raises ModelUnavailable, ModelRefused."""
    wanted = request.model_copy(
        update={"answer_schema": shapes.schema_of(shape), "tools": (), "tool_choice": chat.ToolChoice.AUTO}
    )
    usage = chat.Usage()

    async def asked(correction: Correction | None, /) -> Written:
        nonlocal usage
        more = () if correction is None else _messages(correction)
        answer = await ask(model, wanted.model_copy(update={"messages": (*wanted.messages, *more)}))
        usage = usage.plus(answer.usage)
        if answer.reason is chat.FinishReason.REFUSED:
            raise ModelRefused(f"the model {model.info.name!r} will not answer this")
        return Written(answer.text, is_cut=answer.reason is not chat.FinishReason.STOP)

    value = await corrected(asked, shape, name=model.info.name)
    return StructuredAnswer(value, usage)


def _messages(correction: Correction) -> tuple[chat.Reply, chat.InputMessage]:
    said = chat.Reply(items=(chat.TextPart(text=correction.answer),))
    return said, chat.InputMessage(role=chat.Role.USER, parts=(chat.TextPart(text=correction.question),))


@dataclass(frozen=True, slots=True)
class _Read(Generic[ValueT]):
    """An answer as a value, or what is wrong with it."""

    value: ValueT | None
    problem: str = ""


def _read(answer: Written, shape: type[ValueT]) -> _Read[ValueT]:
    text = shapes.bare(answer.text)
    if answer.is_cut or shapes.looks_cut(text):
        return _Read(None, "it was cut off before its end: answer shorter")
    try:
        plain: Any = strict_json.parse(text.encode("utf-8", "replace"))
    except ElytronError as error:
        plain = _repaired(text)
        if plain is None:
            return _Read(None, error.message if isinstance(error, InvalidJson) else "it is too long")
    try:
        return _Read(shape.model_validate(plain))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the answer"
        return _Read(None, f"{place}: {first['msg']}")


def _repaired(text: str) -> object | None:
    """Return what is left of `text` when common slips of models are corrected; None if nothing is."""
    try:
        import json_repair
    except ImportError:
        # Without the extra, what is not JSON goes back to the model at once.
        return None
    found: object = json_repair.loads(text)
    return found if isinstance(found, dict | list) else None
