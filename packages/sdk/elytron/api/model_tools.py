"""A memory's tools for a model, as the data that a framework takes, and the calls that a model makes of them."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, assert_never, cast, overload

from pydantic import ValidationError

from elytron.api.line_tools import LineTool, line_tools
from elytron_core.errors import InvalidInput, InvalidJson
from elytron_core.model import JsonSchema, OperationRequest, Value, invalid_input
from elytron_core.scope import Scope
from elytron_core.strict_json import parse_json

if TYPE_CHECKING:
    from elytron.api import MemoryFace

ReportT = TypeVar("ReportT", bound=Value)
_PREFIX: Final = "memory_"


class ToolFramework(StrEnum):
    """A framework, or a model's API, whose form of a tool is wanted."""

    OPENAI = "openai"
    """Chat completions: `{"type": "function", "function": {...}}`."""
    ANTHROPIC = "anthropic"
    """Messages: `{"name", "description", "input_schema"}`."""
    LANGCHAIN = "langchain"
    """Arguments of `StructuredTool` without its function: `{"name", "description", "args_schema"}`."""
    PYDANTIC_AI = "pydantic-ai"
    """Arguments of `Tool.from_schema` without its function: `{"name", "description", "json_schema"}`."""


class BlockingOperations(Protocol):
    """A memory that performs an operation and waits for its report."""

    @property
    def scope(self) -> Scope | None:
        """Return the scope of calls that name none."""
        ...

    def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return what it reports."""
        ...


class ToolDescriptions(Sequence[JsonSchema]):
    """Descriptions of a memory's tools, in the form of a framework."""

    def __init__(self, framework: ToolFramework | str, /) -> None:
        try:
            self.framework = ToolFramework(framework)
        except ValueError:
            problem = f"must be one of {', '.join(ToolFramework)}"
            raise InvalidInput(field="framework", problem=problem) from None
        self._tools: Mapping[str, LineTool] = {_PREFIX + tool.name: tool for tool in line_tools()}
        self._descriptions = [_describe_tool(name, tool, self.framework) for name, tool in self._tools.items()]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return tuple(self._tools)

    def __len__(self) -> int:
        return len(self._descriptions)

    @overload
    def __getitem__(self, index: int, /) -> JsonSchema: ...

    @overload
    def __getitem__(self, index: slice, /) -> Sequence[JsonSchema]: ...

    def __getitem__(self, index: int | slice, /) -> JsonSchema | Sequence[JsonSchema]:
        return self._descriptions[index]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self.framework.value}: {', '.join(self._tools)}>"

    def _tool(self, name: str) -> LineTool:
        if name not in self._tools:
            raise InvalidInput(field="name", problem=f"is no tool of this memory: use {', '.join(self._tools)}")
        return self._tools[name]


class ModelTools(ToolDescriptions):
    """Tools of a memory whose calls are awaited. Each call stays within the scope of that memory."""

    def __init__(self, memory: "MemoryFace", framework: ToolFramework | str, /) -> None:
        super().__init__(framework)
        self._memory = memory

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None, /) -> str:
        """Perform a model's call of a tool and return the text of its answer.

        `arguments` are a mapping, or JSON as model APIs send it. Raises InvalidInput for what the tool does not take.
        """
        tool = self._tool(name)
        return tool.tell(await self._memory.operate(_request_of(tool, arguments, self._memory.scope)))

    def function(self, name: str, /) -> Callable[..., Coroutine[Any, Any, str]]:
        """Return the tool as a coroutine function of keyword arguments."""
        self._tool(name)

        async def call_tool(**arguments: Any) -> str:
            return await self.call(name, arguments)

        call_tool.__name__ = name
        return call_tool


class BlockingModelTools(ToolDescriptions):
    """Tools of a memory whose calls wait for their answer. Each call stays within the scope of that memory."""

    def __init__(self, memory: "BlockingOperations", framework: ToolFramework | str, /) -> None:
        super().__init__(framework)
        self._memory = memory

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None, /) -> str:
        """Perform a model's call of a tool and return the text of its answer, as `ModelTools.call` does."""
        tool = self._tool(name)
        return tool.tell(self._memory.operate(_request_of(tool, arguments, self._memory.scope)))

    def function(self, name: str, /) -> Callable[..., str]:
        """Return the tool as a function of keyword arguments."""
        self._tool(name)

        def call_tool(**arguments: Any) -> str:
            return self.call(name, arguments)

        call_tool.__name__ = name
        return call_tool


def _request_of(
    tool: LineTool, arguments: Mapping[str, Any] | str | None, scope: Scope | None
) -> OperationRequest[Any]:
    """Return the request that a call with `arguments` makes. Raises InvalidInput."""
    fields: object = dict(arguments or {}) if not isinstance(arguments, str) else _parsed_arguments(arguments)
    try:
        tool_request = tool.request_type.model_validate(fields)
    except ValidationError as error:
        raise invalid_input(error, model=tool.request_type) from None
    return cast("OperationRequest[Any]", tool.ask(tool_request, scope))


def _parsed_arguments(text: str) -> object:
    try:
        return parse_json(text.encode()) if text.strip() else {}
    except InvalidJson as error:
        raise InvalidInput(field="arguments", problem=error.problem) from None


def _describe_tool(name: str, tool: LineTool, framework: ToolFramework) -> JsonSchema:
    schema = tool.input_schema
    tool_head: JsonSchema = {"name": name, "description": tool.description}
    match framework:
        case ToolFramework.OPENAI:
            return {"type": "function", "function": {**tool_head, "parameters": schema}}
        case ToolFramework.ANTHROPIC:
            return {**tool_head, "input_schema": schema}
        case ToolFramework.LANGCHAIN:
            return {**tool_head, "args_schema": {"title": name, "description": tool.description, **schema}}
        case ToolFramework.PYDANTIC_AI:
            return {**tool_head, "json_schema": schema}
        case _:
            assert_never(framework)
