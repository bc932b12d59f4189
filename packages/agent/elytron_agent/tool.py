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

    `call` is the position of the call in its reply, because call ids from models are not always unique.
    """

    run: str
    step: int
    call: str
    agent: str = ""

    def __str__(self) -> str:
        return "/".join((*filter(None, (self.agent,)), self.run, str(self.step), self.call))


class ToolAnswer(Value):
    """A tool's answer to its model. `is_outside` means that it may contain text from pages, files or other people."""

    text: str
    is_error: bool = False
    is_outside: bool = False


Act = Callable[[Arguments, CallKey], Awaitable[str | ToolAnswer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `parameters` is the JSON Schema of its arguments, and `act` does the work.

    With `may_repeat`, repeating a call under the same key has only one effect. With `is_outside`, all of its answers
    are text from outside. With `read_only`, a call changes nothing, so it may be repeated, can run concurrently with
    others, and needs no approval.
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
        """Return the declaration of the tool for a model."""
        return chat.ModelTool(
            name=self.name, description=self.description, parameters=json.dumps(dict(self.parameters))
        )

    async def call(self, arguments: Arguments, key: CallKey, /) -> ToolAnswer:
        """Call the tool and return its answer. An error of Elytron becomes an error answer."""
        try:
            answer = await self.act(arguments, key)
        except ElytronError as error:
            answer = ToolAnswer(text=error.message, is_error=True)
        if isinstance(answer, str):
            answer = ToolAnswer(text=answer)
        return answer.model_copy(update={"is_outside": True}) if self.is_outside else answer


class ToolArguments(BaseModel):
    """Base class for arguments of typed tools.

    Models write numbers as text, so numeric text is accepted as a number.
    """

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
    """Return a tool that validates its arguments. For invalid ones, the answer names the field and the problem."""

    async def checked(raw_arguments: Arguments, key: CallKey, /) -> str | ToolAnswer:
        try:
            parsed_arguments = arguments.model_validate(dict(raw_arguments))
        except ValidationError as error:
            raise invalid_input(error, model=arguments) from None
        return await act(parsed_arguments, key)

    return Tool(name, description, _schema_of(arguments), checked, may_repeat, is_outside, read_only)


@cache
def _schema_of(arguments: type[ToolArguments]) -> Mapping[str, Any]:
    # Tools are recreated for each run, and generating a schema takes milliseconds.
    schema = cast("dict[str, Any]", _untitled_schema(arguments.model_json_schema(by_alias=False)))
    schema.pop("description", None)
    return MappingProxyType(schema)


def _untitled_schema(part: Any) -> Any:
    """Return a schema without the titles of classes and fields, which tell a model nothing."""
    if isinstance(part, dict):
        schema = cast("dict[str, Any]", part)
        return {
            name: _untitled_schema(inner)
            for name, inner in schema.items()
            if name != "title" or isinstance(inner, dict)
        }
    return [_untitled_schema(inner) for inner in cast("list[Any]", part)] if isinstance(part, list) else part
