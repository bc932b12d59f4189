"""The port to chat models: messages and tools go in, a stream of typed events comes out."""

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field

from elytron_core import limits
from elytron_core.model import Request, Value


class ChatRole(StrEnum):
    """Role of a message to a model."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"


class ToolChoice(StrEnum):
    """Choice of tools."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class FinishReason(StrEnum):
    """Why a model ended its answer."""

    STOP = "stop"
    LENGTH = "length"
    TOOLS = "tools"
    REFUSED = "refused"
    INCOMPLETE = "incomplete"


class FailureReason(StrEnum):
    """Why there is no complete answer."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    CUT = "cut"
    """The stream ended before the provider's own end marker."""
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    UNAUTHORIZED = "unauthorized"
    KEY_MISSING = "key_missing"
    """The vendor's server requires a key and none is set: nothing was sent."""
    CONTEXT_TOO_LONG = "context_too_long"
    OPAQUE_REFUSED = "opaque_refused"
    """The provider rejects an opaque item, because another key or model made it."""
    REFUSED = "refused"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"


PASSING = frozenset(
    {
        FailureReason.UNREACHABLE,
        FailureReason.TIMEOUT,
        FailureReason.CUT,
        FailureReason.RATE_LIMITED,
        FailureReason.UNAVAILABLE,
    }
)
"""Failures after which the same request may succeed."""


class TextPart(Value):
    """Text of a message."""

    kind: Literal["text"] = "text"
    text: str


class ImagePart(Value):
    """An image of a message: an `https:` address, or a `data:` URL in base64."""

    kind: Literal["image"] = "image"
    url: str


class ToolCall(Value):
    """A complete tool call. `arguments` is JSON text as the model wrote it, possibly invalid."""

    kind: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    arguments: str


class OpaquePart(Value):
    """An item of the provider's own, such as encrypted reasoning. `body` is its JSON text, unchanged.

    It is given back only to its `issuer`: the model and server that made it.
    """

    kind: Literal["opaque"] = "opaque"
    type: str
    body: str
    issuer: str = ""


Part = Annotated[TextPart | ImagePart, Field(discriminator="kind")]
ReplyItem = Annotated[TextPart | ToolCall | OpaquePart, Field(discriminator="kind")]


class InputMessage(Value):
    """Text of the host or a person, or reference data, which no dialect merges with text into one message."""

    kind: Literal["input"] = "input"
    role: ChatRole
    parts: tuple[Part, ...]
    is_reference: bool = False
    is_outside: bool = False
    """True for reference data from outside, such as a file. A model sees it in a fence."""


class ModelReply(Value):
    """A model's answer, its items in order."""

    kind: Literal["reply"] = "reply"
    items: tuple[ReplyItem, ...]


class ToolResult(Value):
    """A tool's result for the call `call_id`."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    tool: str
    text: str
    is_error: bool = False


Message = Annotated[InputMessage | ModelReply | ToolResult, Field(discriminator="kind")]


class ModelTool(Value):
    """A tool that a model may call. `parameters` is a JSON Schema, as JSON text."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ModelRequest(Request):
    """A request to a model. `answer_schema` is the JSON Schema, as JSON text, that its answer must match."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    tools: Annotated[tuple[ModelTool, ...], Field(max_length=limits.MODEL_TOOL_CALLS)] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    answer_schema: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    reasoning_effort: ReasoningEffort | None = None
    parallel_calls: bool | None = None
    """False: at most one tool call at a time."""


class TextDelta(Value):
    """Next piece of the answer's text."""

    kind: Literal["text_delta"] = "text_delta"
    text: str


class ReasoningDelta(Value):
    """Next piece of the model's reasoning: for display, never evidence."""

    kind: Literal["reasoning_delta"] = "reasoning_delta"
    text: str


class ToolCallDelta(Value):
    """Next piece of a tool call. `index` distinguishes calls; `id` and `name` are empty if not sent."""

    kind: Literal["tool_call_delta"] = "tool_call_delta"
    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class TokenUsage(Value):
    """Tokens of the whole call. Cached tokens are included in the input's, reasoning in the output's."""

    kind: Literal["usage"] = "usage"
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other_usage: "TokenUsage", /) -> "TokenUsage":
        """Return the sum of both calls."""
        return TokenUsage(**{name: count + getattr(other_usage, name) for name, count in self if name != "kind"})


class ReplyFinished(Value):
    """End of a complete answer: the provider's own end marker was received. Nothing follows it."""

    kind: Literal["finished"] = "finished"
    reason: FinishReason


class ReplyFailed(Value):
    """End of an incomplete answer. Nothing follows it, and it repeats nothing that was sent."""

    kind: Literal["failed"] = "failed"
    reason: FailureReason
    status: int | None = None
    retry_after_s: int = 0

    @property
    def is_passing(self) -> bool:
        return self.reason in PASSING


ModelEvent = Annotated[
    TextDelta | ReasoningDelta | ToolCallDelta | ToolCall | OpaquePart | TokenUsage | ReplyFinished | ReplyFailed,
    Field(discriminator="kind"),
]


class ModelInfo(Value):
    """Properties of a model. `name` is its address as reports show it; not secret."""

    name: str
    context_tokens: int | None = None
    holds_schema: bool = False
    """True if the server itself enforces a request's schema."""


class ChatModel(Protocol):
    """Answers a request as a stream."""

    @property
    def info(self) -> ModelInfo:
        """Return what is known of the model."""
        ...

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        """Yield the events of the answer; only the last one is a ReplyFinished or a ReplyFailed.

        Close it if it is left early. Raises InvalidInput for a request that the dialect cannot express.
        """
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """A chat model that counts tokens before a request. For other models they are estimated."""

    async def count(self, request: ModelRequest, /) -> int | None:
        """Return the number of tokens in `request`, None if the model does not report it."""
        ...
