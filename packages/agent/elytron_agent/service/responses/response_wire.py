"""Requests and responses for responses and conversations, in the format of Open Responses."""

import hashlib
import re
from binascii import a2b_base64
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from elytron_agent import limits
from elytron_agent.service.wire import DataUrl, ImageUrl
from elytron_core.evidence import FLAGS
from elytron_core.model import Request, Value

RESPONSE_ITEMS: Final = 2_000
"""Maximum number of input items of one response."""
RESPONSE_FILE_CHARS: Final = limits.RESPONSE_FILE_BYTES // 3 * 4 + 64
"""Maximum length of a file in a `data:` URL."""
RESPONSE_TOOLS: Final = 128
"""Maximum number of a client's tools in one response."""
CONVERSATION_ITEMS: Final = 20
"""Maximum number of items added to a conversation in one request."""
CONVERSATIONS_AT_ONCE: Final = 100


RESPONSE_PREFIX: Final = "resp_"
THREAD_PREFIX: Final = "conv_"


def _without_flags(metadata: dict[str, str]) -> dict[str, str]:
    if any(name.strip().casefold() in FLAGS for name in metadata):
        raise ValueError(
            f"has {' or '.join(map(repr, FLAGS))}, which cannot be set as text and would have no effect: leave it out,"
            " and do not send what must not be stored"
        )
    return metadata


Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]
GivenMetadata = Annotated[Metadata, AfterValidator(_without_flags)]
"""Metadata as accepted in a request."""
Id = Annotated[str, Field(min_length=1, max_length=limits.RESPONSE_ID_CHARS)]
Text = Annotated[str, Field(max_length=limits.INPUT_CHARS * 4)]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_FILE: Final = re.compile(
    r"data:(?:text/plain|text/markdown|application/json)(?:; ?charset=(?:utf-?8|\"utf-?8\"))?;base64", re.IGNORECASE
)
ItemRoleName = Literal["user", "assistant", "system", "developer"]


def _text_file(url: str) -> str:
    """Return `url` if it contains text. Nothing is fetched."""
    url_head, _, encoded_data = url.partition(",")
    if _FILE.fullmatch(url_head) is None:
        raise ValueError("is not text: send data:text/plain;base64,... or text/markdown or application/json")
    try:
        a2b_base64(encoded_data.encode("ascii"), strict_mode=True).decode("utf-8")
    except ValueError:
        raise ValueError("is not text: its base64 is damaged, or its content is not UTF-8") from None
    return url


class ContentPart(Value):
    """A part of a message's content: text, or an image or a text file in a `data:` URL.

    Fields that belong to other parts are ignored.
    """

    model_config = ConfigDict(extra="ignore")
    type: Literal[
        "input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text", "input_image", "input_file"
    ]
    text: Text | None = None
    refusal: Text | None = None
    image_url: ImageUrl | DataUrl | None = None
    filename: Annotated[str, Field(max_length=256)] | None = None
    file_data: Annotated[str, Field(max_length=RESPONSE_FILE_CHARS), AfterValidator(_text_file)] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type == "input_file":
            if self.file_data is None:
                raise ValueError("is an input_file without file_data: file_id and file_url are not supported")
            return self
        if self.type == "input_image":
            is_whole = self.image_url is not None
        else:
            is_whole = (self.refusal if self.type == "refusal" else self.text) is not None
        if not is_whole:
            raise ValueError("must have a text, or an image_url with a data: URL, matching its type")
        return self

    @property
    def words(self) -> str:
        """Return the text of the part, or "" for an image."""
        return self.text or self.refusal or ""

    @property
    def file(self) -> str | None:
        """Return the text of a file with its name, or None for another part."""
        return f"File {self.filename or 'without a name'}:\n{self.file_text}" if self.type == "input_file" else None

    @property
    def file_text(self) -> str:
        """Return the content of a file, or "" for another part."""
        if self.type != "input_file" or self.file_data is None:
            return ""
        return a2b_base64(self.file_data.partition(",")[2].encode("ascii")).decode("utf-8")

    @property
    def image(self) -> str | None:
        """Return the image's URL, or None for a text."""
        return self.image_url.url if isinstance(self.image_url, ImageUrl) else self.image_url


def _form_of(value: object) -> str:
    """Return which form a union value has, so that errors are reported for that form only."""
    return "as_text" if isinstance(value, str) else "as_list"


_FORMS: Final = Discriminator(_form_of)
TextForm = Annotated[Text, Tag("as_text")]
Content = Annotated[
    TextForm | Annotated[tuple[ContentPart, ...], Field(max_length=limits.CHAT_PARTS), Tag("as_list")], _FORMS
]


class InputItem(Value):
    """An item of an input: a message, a call of a client's tool, or its result. Output items may be sent back."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["message", "function_call", "function_call_output", "reasoning", "compaction"] = "message"
    id: Id | None = None
    role: ItemRoleName | None = None
    content: Content | None = None
    call_id: Id | None = None
    name: ToolName | None = None
    arguments: Text | None = None
    output: Content | None = None
    encrypted_content: Annotated[str, Field(max_length=limits.INPUT_CHARS * 4)] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        fields = _ITEM_FIELDS[self.type]
        missing_fields = [name for name in fields if getattr(self, name) is None]
        if missing_fields:
            raise ValueError(f"is a {self.type} without {' and '.join(missing_fields)}")
        content = () if self.type == "message" and self.role != "assistant" else (self.content, self.output)
        if any(part.type == "input_file" for parts in content if isinstance(parts, tuple) for part in parts):
            raise ValueError("has an input_file, which assistant messages cannot contain")
        return self


_ITEM_FIELDS: Final = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "reasoning": (),
    "compaction": ("encrypted_content",),
}
InputItems = Annotated[tuple[InputItem, ...], Field(max_length=RESPONSE_ITEMS)]
ResponseInput = Annotated[TextForm | Annotated[InputItems, Tag("as_list")], _FORMS]


class FunctionTool(Value):
    """A tool that the client calls itself."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["function"]
    name: ToolName
    description: Annotated[str, Field(max_length=limits.DESCRIPTION_CHARS)] | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class FunctionChoice(Value):
    """Selection of one of the client's tools."""

    type: Literal["function"]
    name: ToolName


class AnswerFormat(Value):
    """Format of the answer: text, JSON, or JSON that matches a schema."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: ToolName | None = None
    description: Annotated[str, Field(max_length=limits.DESCRIPTION_CHARS)] | None = None
    schema_: Annotated[dict[str, JsonValue] | None, Field(alias="schema", serialization_alias="schema")] = None
    strict: bool | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.type == "json_schema") is (self.schema_ is None):
            raise ValueError("must have a schema if its type is json_schema")
        return self


class TextOptions(Value):
    """Options for the text of the answer."""

    model_config = ConfigDict(extra="ignore")
    format: AnswerFormat = AnswerFormat()
    verbosity: Literal["low", "medium", "high"] | None = None


class ConversationRef(Value):
    """A conversation by its id."""

    id: Id


class ResponseForm(Request):
    """Every field of a request except its input. `require_options` rejects unsupported values."""

    model: Annotated[str, Field(max_length=200)] | None = None
    instructions: Text | None = None
    previous_response_id: Id | None = None
    conversation: Id | ConversationRef | None = None
    store: bool | None = None
    background: bool | None = None
    tools: Annotated[tuple[FunctionTool, ...], Field(max_length=RESPONSE_TOOLS)] | None = None
    tool_choice: Literal["auto", "none", "required"] | FunctionChoice | None = None
    text: TextOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tool_calls: Annotated[int, Field(ge=0)] | None = None
    parallel_tool_calls: bool | None = None
    metadata: GivenMetadata | None = None
    truncation: Literal["auto", "disabled"] | None = None
    include: tuple[Annotated[str, Field(max_length=100)], ...] | None = None
    reasoning: dict[str, JsonValue] | None = None
    stream_options: dict[str, JsonValue] | None = None
    context_management: JsonValue = None
    service_tier: Annotated[str, Field(max_length=64)] | None = None
    user: Id | None = None
    safety_identifier: Id | None = None
    prompt_cache_key: Id | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None

    @property
    def conversation_id(self) -> str | None:
        return self.conversation.id if isinstance(self.conversation, ConversationRef) else self.conversation

    @property
    def is_stored(self) -> bool:
        return self.store is not False


class ResponseRequest(ResponseForm):
    """Create a response by the agent."""

    input: ResponseInput = ()
    stream: bool | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.previous_response_id and self.conversation:
            raise ValueError("must name only one of `previous_response_id` and `conversation`")
        if self.background and not self.is_stored:
            raise ValueError("cannot run in the background without `store`")
        return self

    @property
    def items(self) -> tuple[InputItem, ...]:
        """Return the input as items."""
        if isinstance(self.input, str):
            return (InputItem(role="user", content=self.input),) if self.input.strip() else ()
        return self.input

    @property
    def digest(self) -> str:
        """Return a digest of the input."""
        lines = [item.model_dump_json(exclude_defaults=True) for item in self.items]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def form(self) -> ResponseForm:
        """Return the request without its input."""
        return ResponseForm(**{name: value for name, value in self if name not in {"input", "stream"}})


class CompactRequest(Request):
    """Compact an input or the history of a response."""

    model: Annotated[str, Field(max_length=200)] | None = None
    input: ResponseInput | None = None
    instructions: Text | None = None
    previous_response_id: Id | None = None
    prompt_cache_key: Id | None = None
    service_tier: Annotated[str, Field(max_length=64)] | None = None


class OutputText(Value):
    """Text of an answer."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: tuple[str, ...] = ()
    logprobs: tuple[str, ...] = ()


class AnswerItem(Value):
    """A message of the agent."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] = "completed"
    content: tuple[OutputText, ...]


class CallItem(Value):
    """A call of one of the client's tools."""

    id: str
    type: Literal["function_call"] = "function_call"
    call_id: str
    name: str
    arguments: str
    status: Literal["in_progress", "completed", "incomplete"] = "completed"


OutputItem = AnswerItem | CallItem


_WITH_NULL: Final = ConfigDict(json_schema_extra={"x-with-null": True})
"""For bodies in which fields without a value are sent as null; used by the API description."""


class UsageDetails(Value):
    """Details of token counts; none are counted separately."""

    model_config = _WITH_NULL
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class ResponseUsage(Value):
    """Token usage of a response."""

    input_tokens: int = 0
    input_tokens_details: UsageDetails = UsageDetails(cached_tokens=0)
    output_tokens: int = 0
    output_tokens_details: UsageDetails = UsageDetails(reasoning_tokens=0)
    total_tokens: int = 0


class ResponseProblem(Value):
    """Why a response failed."""

    code: str
    message: str


class IncompleteReason(Value):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class ResponseBody(Value):
    """A response."""

    model_config = _WITH_NULL
    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status
    background: bool = False
    error: ResponseProblem | None = None
    incomplete_details: IncompleteReason | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    model: str
    output: tuple[OutputItem, ...] = ()
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    conversation: ConversationRef | None = None
    store: bool = True
    temperature: float = limits.TEMPERATURE
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    text: TextOptions = TextOptions()
    tool_choice: Literal["auto", "none", "required"] | FunctionChoice = "auto"
    tools: tuple[FunctionTool, ...] = ()
    truncation: Literal["auto", "disabled"] = "auto"
    usage: ResponseUsage | None = None
    metadata: Metadata = {}
    reasoning: dict[str, JsonValue] | None = None
    service_tier: str = "default"
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class ResponseDeleted(Value):
    """A deleted response."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


class CompactionItem(Value):
    """A summary for the client to send back. Only this server can read it."""

    id: str
    type: Literal["compaction"] = "compaction"
    encrypted_content: str


class CompactedBody(Value):
    """A compacted input."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: tuple[CompactionItem, ...]
    usage: ResponseUsage = ResponseUsage()


class ItemPage(Value):
    """A page of items; `after` with `last_id` gives the next one."""

    object: Literal["list"] = "list"
    data: tuple[JsonValue, ...] = ()
    first_id: str = ""
    last_id: str = ""
    has_more: bool = False


class ConversationRequest(Request):
    """Create a conversation."""

    metadata: GivenMetadata | None = None
    items: Annotated[tuple[InputItem, ...], Field(max_length=CONVERSATION_ITEMS)] | None = None


class MetadataChange(Request):
    """Update a conversation's metadata."""

    metadata: GivenMetadata | None = None


class ItemsRequest(Request):
    """Add items to a conversation."""

    items: Annotated[tuple[InputItem, ...], Field(min_length=1, max_length=CONVERSATION_ITEMS)]


class ConversationBody(Value):
    """A conversation."""

    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: Metadata = {}


class ConversationList(Value):
    """A page of conversations, the latest first."""

    model_config = _WITH_NULL
    object: Literal["list"] = "list"
    data: tuple[ConversationBody, ...] = ()
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


class ConversationDeleted(Value):
    """A deleted conversation."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool = True


class ConversationsDeleted(Value):
    """Confirmation that all conversations were deleted."""

    object: Literal["list.deleted"] = "list.deleted"
    deleted: bool = True
    count: int


class BatchDeletion(Request):
    """Delete several conversations."""

    ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=CONVERSATIONS_AT_ONCE)]


class BatchOutcome(Value):
    """Outcome for one of several conversations."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool
    error: Literal["not_found"] | None = None


class BatchDeleted(Value):
    """Outcomes in the order of the ids."""

    object: Literal["list"] = "list"
    data: tuple[BatchOutcome, ...]
