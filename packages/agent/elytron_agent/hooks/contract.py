"""Contract of the turn hooks: sessions and messages, the input before and after a turn, and the reports.

Each session of a project has its own memory space, so no turn sees what another session said.
"""

import asyncio
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, TypeVar, cast

from pydantic import BaseModel, Field, SecretStr, model_validator

import elytron
from elytron.api import MemoryFace
from elytron.runtime import MemoryRuntime
from elytron_agent import limits
from elytron_core.clock import Clock
from elytron_core.contracts.maintenance import ExtractionMethod
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.contracts.transcript import WriteDecision
from elytron_core.errors import InvalidInput, LimitExceeded, StoreUrlInvalid
from elytron_core.ids import IdSource
from elytron_core.limits import PAGE_MAX, SPACE_CHARS, URI_CHARS
from elytron_core.model import Request, Value
from elytron_core.scope import Scope
from elytron_models.chat_messages import (
    CALL,
    RESULT,
    ItemPart,
    Json,
    TurnItem,
    chat_of,
    list_mappings,
    message_items,
    responses_of,
)
from elytron_store import parse_url
from elytron_turn.assembler import PartCut
from elytron_turn.memory import TurnMemory
from elytron_turn.sizes import cut_middle, share_room, text_bytes

PREFIX: Final = "ak-"
_DIGEST_BYTES: Final = 16
_PROJECT: Final = re.compile(r"[A-Za-z0-9_.-]+")


class SessionHash(StrEnum):
    """Derivation of a session's id from a credential."""

    HMAC_SHA256 = "hmac-sha256"
    """Under a secret of the installation: without it, a credential cannot be guessed and compared."""
    SHA256 = "sha256"
    """Without a secret, as go-ramjet makes it."""


class TurnCode(StrEnum):
    """Errors of a hook's input."""

    PROJECT_REQUIRED = "PROJECT_REQUIRED"
    PROJECT_INVALID = "PROJECT_INVALID"
    SESSION_ID_REQUIRED = "SESSION_ID_REQUIRED"
    SESSION_ID_INVALID = "SESSION_ID_INVALID"
    TURN_ID_REQUIRED = "TURN_ID_REQUIRED"
    CREDENTIAL_REQUIRED = "CREDENTIAL_REQUIRED"
    CURRENT_INPUT_REQUIRED = "CURRENT_INPUT_REQUIRED"


class TurnInvalid(InvalidInput):
    """A hook was given what it cannot work with: `code` is a word of the seed, `field` the field's name."""

    detail_fields = ("field", "problem", "code")

    def __init__(self, *, code: TurnCode, field: str, problem: str) -> None:
        super().__init__(field=field, problem=problem)
        self.code = code


def session_of(credential: str, /, *, secret: bytes, by: SessionHash = SessionHash.HMAC_SHA256) -> str:
    """Return the session's id of a credential: the same for the same one, and not reversible.

    Raises InvalidInput for an empty credential, and for a missing secret if the hash needs one.
    """
    if not credential or len(credential) > limits.CREDENTIAL_CHARS:
        raise InvalidInput(field="credential", problem="is empty or too long")
    data = credential.encode("utf-8", "surrogatepass")
    if by is SessionHash.SHA256:
        return f"{PREFIX}{hashlib.sha256(data).digest()[:_DIGEST_BYTES].hex()}"
    if not secret:
        problem = "is missing: set session_secret, or set session_hash to sha256"
        raise InvalidInput(field="session_secret", problem=problem)
    return f"{PREFIX}{hmac.digest(secret, data, 'sha256')[:_DIGEST_BYTES].hex()}"


def checked_project(project: str, /) -> str:
    """Return a project's name. Raises TurnInvalid."""
    if not project.strip():
        raise TurnInvalid(code=TurnCode.PROJECT_REQUIRED, field="project", problem="is required")
    if len(project) > limits.PROJECT_CHARS or _PROJECT.fullmatch(project) is None:
        problem = f"has characters other than letters, digits, _ . -, or more than {limits.PROJECT_CHARS}"
        raise TurnInvalid(code=TurnCode.PROJECT_INVALID, field="project", problem=problem)
    return project


def checked_session(session: str, /) -> str:
    """Return a session's id. Raises TurnInvalid."""
    if not session.strip():
        raise TurnInvalid(code=TurnCode.SESSION_ID_REQUIRED, field="session_id", problem="is required")
    is_path = session in {".", ".."} or "/" in session or "\\" in session
    if is_path or len(session) > limits.SESSION_CHARS or not session.isprintable() or session != session.strip():
        problem = f"has slashes, control characters or more than {limits.SESSION_CHARS} characters, or is . or .."
        raise TurnInvalid(code=TurnCode.SESSION_ID_INVALID, field="session_id", problem=problem)
    return session


def checked_turn(turn: str, /) -> str:
    """Return a turn's id. Raises TurnInvalid."""
    if not turn.strip():
        raise TurnInvalid(code=TurnCode.TURN_ID_REQUIRED, field="turn_id", problem="is required")
    if len(turn) > limits.TURN_ID_CHARS or not turn.isprintable() or turn != turn.strip():
        problem = f"has control characters, surrounding white space, or more than {limits.TURN_ID_CHARS} characters"
        raise TurnInvalid(code=TurnCode.TURN_ID_REQUIRED, field="turn_id", problem=problem)
    return turn


def space_of(project: str, session: str, /) -> str:
    """Return the memory space of a session; neither part can contain the separator."""
    name = f"{project}/{session}"
    if len(name) <= SPACE_CHARS:
        return name
    # A double slash is in no shorter name, so that none of them meets a digest.
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{project[: SPACE_CHARS - len(digest) - 2]}//{digest}"


_SECRET_BYTES = 32


@dataclass(slots=True)
class _OpenMemory:
    """The memory of a credential, once it is open, and how many turns use it now."""

    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    memory: MemoryRuntime | None = None
    users: int = 0
    used_at: int = 0


class CredentialMemories:
    """Opens the memory at `url` with each request's own credential.

    Two credentials never share one: an HMAC under a secret of this process distinguishes them, and no credential is
    kept but in the client that it opened. Of those that no turn uses, the ones used last stay open.
    """

    def __init__(self, url: str, /, *, clock: Clock, ids: IdSource) -> None:
        self._url = url
        self._clock = clock
        self._ids = ids
        self._secret = ids.secret(_SECRET_BYTES)
        self._entries: OrderedDict[bytes, _OpenMemory] = OrderedDict()

    @asynccontextmanager
    async def of(self, credential: str | None, /) -> AsyncGenerator[MemoryFace]:
        """Yield the memory of a credential. Raises TurnInvalid without one, StoreError, Unreachable, Unauthorized."""
        if not credential:
            problem = "is required to open memory on an MCP file server"
            raise TurnInvalid(code=TurnCode.CREDENTIAL_REQUIRED, field="credential", problem=problem)
        key = hmac.digest(self._secret, credential.encode("utf-8", "surrogatepass"), "sha256")
        entry = self._entries.setdefault(key, _OpenMemory())
        self._entries.move_to_end(key)
        # Counted before it waits, so that no other turn closes the memory meanwhile.
        entry.users += 1
        try:
            async with entry.opening:
                # Only by its single user, since others may be in the middle of a call.
                if entry.memory is not None and entry.users == 1 and self._is_stale(entry):
                    memory, entry.memory = entry.memory, None
                    await memory.close()
                if entry.memory is None:
                    opening = elytron.open(self._url, space=None, clock=self._clock, ids=self._ids, api_key=credential)
                    entry.memory = await opening
            yield entry.memory
        finally:
            entry.users -= 1
            entry.used_at = self._clock.now()
            # The opening failed: nothing is held for a credential that opens nothing.
            if entry.memory is None and not entry.users:
                self._entries.pop(key, None)
            await self._let_go()

    async def close(self) -> None:
        """Close every memory."""
        while self._entries:
            _, entry = self._entries.popitem()
            if entry.memory is not None:
                await entry.memory.close()

    def _is_stale(self, entry: _OpenMemory) -> bool:
        return self._clock.now() - entry.used_at >= limits.CREDENTIAL_IDLE_MS

    async def _let_go(self) -> None:
        idle = [(key, entry) for key, entry in self._entries.items() if not entry.users]
        for key, entry in idle[: max(len(self._entries) - limits.CREDENTIALS_HELD, 0)]:
            # It stays in its place while it is closed, so that a turn that begins meanwhile waits and opens it again.
            async with entry.opening:
                if entry.users:
                    continue
                memory, entry.memory = entry.memory, None
                if memory is not None:
                    await memory.close()
            if not entry.users and self._entries.get(key) is entry:
                del self._entries[key]


SECTION: Final = "openai"
"""The section of GPTChat's configuration that has these settings beside others."""
MCP_SCHEMES: Final = ("mcp+https:", "mcp+http:")
_OURS: Final = ("enable_memory", "memory_")


class FailurePolicy(StrEnum):
    """Effect on a turn if its memory fails."""

    CONTINUE = "continue"
    """It goes on without memory; the failure is counted and logged."""
    RAISE = "raise"


class StorageKind(StrEnum):
    """Storage of memory."""

    ELYTRON = "elytron"
    """In the memory that the hooks were made with."""
    MCP = "mcp"
    """On an MCP file server, under each request's own credential."""


class HookSettings(Request):
    """Settings of hooks' recall and storage. Raises InvalidInput, which names the field."""

    enable_memory: bool = True
    memory_project: Annotated[str, Field(max_length=limits.PROJECT_CHARS)] = "gptchat"
    memory_storage: StorageKind = StorageKind.ELYTRON
    memory_storage_mcp_url: Annotated[str, Field(max_length=URI_CHARS)] = ""
    memory_model: str = ""
    """The model that draws facts, as `dialect:name[@url]`; without one, rules do."""
    memory_llm_timeout_seconds: Annotated[float, Field(gt=0)] = 12
    memory_llm_max_output_tokens: Annotated[int, Field(gt=0)] = 800
    recent_items: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 30
    recall_facts: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 20
    search_hits: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 5
    recall_insights: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 5
    compact_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.8
    l1_days: Annotated[int, Field(gt=0)] = 1
    l2_days: Annotated[int, Field(gt=0)] = 7
    recall_timeout_seconds: Annotated[float, Field(gt=0)] = 10
    policy_role: Literal["developer", "system"] = "developer"
    reference_role: Literal["user", "developer"] = "user"
    session_hash: SessionHash = SessionHash.HMAC_SHA256
    on_failure: FailurePolicy = FailurePolicy.CONTINUE

    @model_validator(mode="after")
    def _has_storage(self) -> Self:
        checked_project(self.memory_project)
        if self.enable_memory and self.memory_storage is StorageKind.MCP:
            if not self.memory_storage_mcp_url.strip():
                raise ValueError("memory_storage_mcp_url is required for memory_storage mcp")
            try:
                parse_url(self.storage_url)
            except StoreUrlInvalid as error:
                raise ValueError(f"memory_storage_mcp_url: {error}") from None
        return self

    @property
    def storage_url(self) -> str:
        """Return the URL of the store on the MCP file server: its files are those of the project."""
        server = self.memory_storage_mcp_url.strip()
        scheme = "" if server.startswith(MCP_SCHEMES) else "mcp+"
        return f"{scheme}{server}" if "?" in server else f"{scheme}{server}?project={self.memory_project}"

    @classmethod
    def read(cls, config: Mapping[str, Any], /) -> Self:
        """Return the settings of a configuration: of its section `openai` if it has one, else of all of it.

        In that section other names than ours are left alone. Raises InvalidInput, which names the field.
        """
        if SECTION not in config:
            return cls(**config)
        section = config[SECTION]
        if not isinstance(section, Mapping):
            raise InvalidInput(field=SECTION, problem="is not a section")
        settings = cast("Mapping[str, Any]", section)
        return cls(**{name: value for name, value in settings.items() if name.startswith(_OURS)})


def is_wanted(body: Mapping[str, Any] | None, /) -> bool:
    """Return whether a request wants memory: `laisky_extra.chat_switch.enable_memory` is not false, or says nothing."""
    switch: Any = body
    for name in ("laisky_extra", "chat_switch", "enable_memory"):
        if not isinstance(switch, Mapping):
            return True
        switch = cast("Mapping[str, Any]", switch).get(name)
    return switch is not False


class HookSession(NamedTuple):
    """A session of hooks: its memory, its scope in it, its settings and its clock."""

    memory: MemoryFace
    scope: Scope
    settings: HookSettings
    clock: Clock

    @property
    def turn_memory(self) -> TurnMemory:
        """Return the memory around its turns. Hooks have facts of their own, and draw them themselves."""
        filters = RecallFilters(planes=(RecallPlane.TRANSCRIPT,))
        return TurnMemory(self.memory.operate, self.scope, filters=filters, extraction=ExtractionMethod.OFF)


class HookState(StrEnum):
    """Outcome of a hook's work."""

    APPLIED = "applied"
    """Before: the turn is reminded of something. After: the turn is kept."""
    EMPTY = "empty"
    """Before: there is nothing to be reminded of. After: there was nothing to keep."""
    DUPLICATE = "duplicate"
    """The turn was kept before; nothing changed."""
    OFF = "off"
    """By the settings or by the request."""
    BLOCKED = "blocked"
    """The turn's user gets no memory."""
    FAILED = "failed"


class BeforeTurn(Request):
    """A turn that is about to be answered.

    `current_input` is the messages of the request; those before the user's latest message are history. Without
    `project` it is that of the settings; without `session_id` the session is the memory's own space.
    """

    turn_id: str
    current_input: Any
    project: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    conversation: str | None = None
    """A conversation of the session; its recent turns alone are in the context."""
    instructions: str = ""
    """Instructions that a request carries beside its messages: counted, and not read."""
    max_input_tokens: int | None = Field(default=None, ge=1)
    body: Any = None
    """The whole request as it came: its switch says whether memory is wanted."""
    credential: SecretStr | None = None
    """With what memory on an MCP file server is opened."""


class BeforeTurnReport(Value):
    """The messages to send, in the form in which they came, and an account of what was put among them."""

    state: HookState
    messages: Any
    recalled_fact_ids: tuple[str, ...] = ()
    recalled_insight_ids: tuple[str, ...] = ()
    recalled_message_ids: tuple[str, ...] = ()
    recent_items: int = 0
    """Items of earlier turns that were added."""
    context_tokens: int = 0
    compacted: int = 0
    """Items that are in the summary instead, because the context was almost full."""
    cuts: tuple[PartCut, ...] = ()
    """Parts of the context for which `max_input_tokens` has no room."""
    failure: str = ""
    """The key of the error, if it failed."""


class AfterTurn(Request):
    """A turn that was answered: the items that were sent, those of its tools among them, and the answer."""

    turn_id: str
    input_items: Any
    output_items: Any
    project: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    conversation: str | None = None
    body: Any = None
    credential: SecretStr | None = None


class FactSource(StrEnum):
    """Source of the facts of a turn."""

    RULES = "rules"
    MODEL = "model"
    """A model, and rules beside it."""


class AfterTurnReport(Value):
    """Result of keeping a turn."""

    state: HookState
    turn: str | None = None
    """The id of the evidence."""
    messages: int = 0
    source: FactSource = FactSource.RULES
    facts: tuple[WriteDecision, ...] = ()
    recovered: bool = False
    """The turn was too large, and was kept after maintenance."""
    failure: str = ""


HostMessages = str | Mapping[str, Any] | BaseModel | Sequence[Mapping[str, Any] | BaseModel]
"""A text of the user, or the messages of a request: mappings, or the objects of a vendor's library."""


class MessageForm(StrEnum):
    """Form of a host's messages."""

    RESPONSES = "responses"
    CHAT = "chat"


class HostMessage(Value):
    """A message as its host wrote it, and the items that it is read as."""

    raw: Any
    items: tuple[TurnItem, ...]

    @property
    def role(self) -> str:
        return self.items[0].role if self.items else ""

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)


def read_messages(messages: HostMessages, /) -> tuple[HostMessage, ...]:
    """Return the messages with the items that they hold. Raises InvalidInput for what is none, LimitExceeded."""
    if isinstance(messages, str):
        messages = {"role": "user", "content": messages}
    each = [messages] if isinstance(messages, Mapping | BaseModel) else list(messages)
    if len(each) > limits.HOST_MESSAGES:
        raise LimitExceeded(what="messages per turn", limit=limits.HOST_MESSAGES, found=len(each))
    return tuple(
        HostMessage(raw=raw, items=tuple(message_items(_message_mapping(raw, number))))
        for number, raw in enumerate(each)
    )


def cut_host_messages(messages: Sequence[HostMessage], max_bytes: int, /) -> tuple[HostMessage, ...]:
    """Return the messages with their texts cut in the middle to `max_bytes` together, short ones whole."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    raws = [_message_mapping(message.raw, 0) for message in messages]
    for raw in raws:
        _map_texts(raw, note)
    shares = iter(share_room([text_bytes(text) for text in texts], max_bytes))
    return read_messages([_map_texts(raw, lambda text: cut_middle(text, next(shares))) for raw in raws])


_TEXT_FIELDS: Final = frozenset({"content", "text", "output"})
ValueT = TypeVar("ValueT")


def _map_texts(value: ValueT, change: Callable[[str], str], *, field: str = "content") -> ValueT:
    """Return a message with each text in it changed; names, arguments and addresses are no texts."""
    changed: object = value
    if isinstance(value, str):
        changed = change(value) if field in _TEXT_FIELDS else value
    elif isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        changed = {name: _map_texts(each, change, field=name) for name, each in fields.items()}
    elif isinstance(value, list):
        changed = [_map_texts(each, change, field=field) for each in cast("list[object]", value)]
    return cast("ValueT", changed)


def items_of(messages: HostMessages, /) -> tuple[TurnItem, ...]:
    """Return the items of messages in either form, in their order."""
    return tuple(item for message in read_messages(messages) for item in message.items)


def form_of(messages: Iterable[HostMessage], /) -> MessageForm:
    """Return how the host writes: as the Responses API does where anything shows that, else as chat completions do."""
    for message in messages:
        raw = _message_mapping(message.raw, 0)
        kinds = {part.get("type") for part in list_mappings(raw.get("content"))}
        if raw.get("type") is not None or kinds & {"input_text", "output_text", "input_image", "input_file"}:
            return MessageForm.RESPONSES
    return MessageForm.CHAT


def write_items(items: Iterable[TurnItem], form: MessageForm, /) -> list[Json]:
    """Return the items as a host of that form sends them."""
    return responses_of(items) if form is MessageForm.RESPONSES else chat_of(items)


def paired_items(items: Iterable[TurnItem], /) -> tuple[TurnItem, ...]:
    """Return the items without calls that have no result and results that have no call: model APIs refuse these."""
    listed = tuple(items)
    calls = {item.call_id for item in listed if item.type == CALL}
    results = {item.call_id for item in listed if item.type == RESULT}
    whole = calls & results
    return tuple(item for item in listed if item.type not in {CALL, RESULT} or item.call_id in whole)


def latest_user(messages: Sequence[HostMessage], /) -> int | None:
    """Return the place of the user's latest message, None where the user said nothing."""
    return next((place for place in reversed(range(len(messages))) if messages[place].role == "user"), None)


def reply_of(reply: HostMessages, /) -> tuple[TurnItem, ...]:
    """Return the items of an answer: a text, messages or items, or the whole answer of either API."""
    if isinstance(reply, str):
        part = ItemPart(type="output_text", text=reply)
        return (TurnItem(role="assistant", content=(part,)),)
    if isinstance(reply, Mapping | BaseModel):
        whole = _message_mapping(reply, 0)
        for choice in list_mappings(whole.get("choices")):
            return items_of(list_mappings([choice.get("message")]))
        if isinstance(whole.get("output"), list) and "type" not in whole:
            return items_of(list_mappings(whole["output"]))
        return items_of(whole)
    return items_of(reply)


def _message_mapping(raw: object, number: int) -> Json:
    if isinstance(raw, BaseModel):
        return raw.model_dump(exclude_none=True)
    if not isinstance(raw, Mapping):
        raise InvalidInput(field=f"messages.{number}", problem="must be a mapping or a message of a known library")
    return dict(cast("Mapping[str, Any]", raw))
