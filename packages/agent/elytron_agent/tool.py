"""The tool type: what an agent offers to its model, and how the loop calls it."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_core.errors import ElytronError
from elytron_core.model import Value, invalid_input
from elytron_core.ports import chat

Arguments = Mapping[str, Any]
"""The arguments of a call as JSON values, by name."""


class CallKey(NamedTuple):
    """Key of a call. A call that is repeated after a crash has the same key, so that a tool can recognise it.

    `call` is the place of the call in its reply: ids that models give are not always distinct.
    """

    run: str
    step: int
    call: str
    agent: str = ""

    def __str__(self) -> str:
        return "/".join((*filter(None, (self.agent,)), self.run, str(self.step), self.call))


class ToolAnswer(Value):
    """A tool's answer to its model. `is_outside`: the text may have words of pages, files or other people."""

    text: str
    is_error: bool = False
    is_outside: bool = False


Act = Callable[[Arguments, CallKey], Awaitable[str | ToolAnswer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `parameters` is the JSON Schema of its arguments, `act` does the work.

    `may_repeat`: a call may be made again under the same key, with one effect. `is_outside`: all that it answers is
    text from outside. `read_only`: a call changes nothing, so it may be repeated, is made beside others, and needs
    no approval.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    act: Act
    may_repeat: bool = False
    is_outside: bool = False
    read_only: bool = False

    @property
    def declared(self) -> chat.ModelTool:
        """Return the tool in the form for a model."""
        return chat.ModelTool(
            name=self.name, description=self.description, parameters=json.dumps(dict(self.parameters))
        )

    async def call(self, arguments: Arguments, key: CallKey, /) -> ToolAnswer:
        """Return what the tool answers. What Elytron refuses is an answer too, which says so."""
        try:
            answer = await self.act(arguments, key)
        except ElytronError as error:
            answer = ToolAnswer(text=error.message, is_error=True)
        if isinstance(answer, str):
            answer = ToolAnswer(text=answer)
        return answer.model_copy(update={"is_outside": True}) if self.is_outside else answer


class ToolArguments(BaseModel):
    """Base of the arguments of typed tools. Models write numbers as text, so a text that is a number is taken."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


def typed_tool(
    name: str,
    description: str,
    arguments: type[ArgumentsT],
    act: Callable[[ArgumentsT, CallKey], Awaitable[str | ToolAnswer]],
    /,
    *,
    may_repeat: bool = False,
    is_outside: bool = False,
    read_only: bool = False,
) -> Tool:
    """Return a tool whose arguments are checked; wrong ones are answered by the name of the field and what is wrong."""

    async def checked(raw_arguments: Arguments, key: CallKey, /) -> str | ToolAnswer:
        try:
            read = arguments.model_validate(dict(raw_arguments))
        except ValidationError as error:
            raise invalid_input(error, model=arguments) from None
        return await act(read, key)

    return Tool(name, description, _schema_of(arguments), checked, may_repeat, is_outside, read_only)


@cache
def _schema_of(arguments: type[ToolArguments]) -> Mapping[str, Any]:
    # Tools are made again for each run, and a schema takes milliseconds.
    schema = cast("dict[str, Any]", _untitled_schema(arguments.model_json_schema(by_alias=False)))
    schema.pop("description", None)
    return MappingProxyType(schema)


def _untitled_schema(part: Any) -> Any:
    """Return a schema without the titles that classes and fields give it; they say nothing to a model."""
    if isinstance(part, dict):
        schema = cast("dict[str, Any]", part)
        return {
            name: _untitled_schema(inner)
            for name, inner in schema.items()
            if name != "title" or isinstance(inner, dict)
        }
    return [_untitled_schema(inner) for inner in cast("list[Any]", part)] if isinstance(part, list) else part
