"""The agent file: a JSON document of agents, blocks, messages and tools in Letta's current format.

The older format with a single agent can also be read. Credentials are redacted when a file is read.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, Final, cast

from pydantic import Field, ValidationError

from elytron.runtime_records import RuntimeRecords
from elytron_agent import limits
from elytron_agent.runs.thread_notes import AGENTS
from elytron_core import limits as elytron_core_limits
from elytron_core import strict_json
from elytron_core.clock import Instant, instant
from elytron_core.errors import InvalidInput, InvalidJson, LimitExceeded, PayloadTooLarge
from elytron_core.evidence import EvidenceRole
from elytron_core.model import Value, invalid_input
from elytron_core.policy.redaction import scrub_secrets

FILE_ELEMENTS: Final = 2_000
FILE_MESSAGES: Final = 20_000
"""Maximum number of elements in each list of a file, and of messages per agent."""
FILE_DEPTH: Final = 28
"""Maximum nesting depth of a file, chosen so that each of its parts fits into a record."""


LISTS: Final = ("agents", "groups", "blocks", "files", "sources", "tools", "mcp_servers", "skills")
"""The lists of a document in order. Files from before skills existed have no `skills` list."""
_CREDENTIALS: Final = frozenset({"tool_exec_environment_variables", "secrets"})
_SERVER_CREDENTIALS: Final = ("token", "custom_headers")
Json = dict[str, Any]


class _FileMessage(Value, extra="allow"):
    role: str


class _FileAgent(Value, extra="allow"):
    id: str
    name: str | None = None
    system: str | None = None
    block_ids: list[str] = []
    messages: Annotated[list[_FileMessage], Field(max_length=FILE_MESSAGES)] = []


class _FileBlock(Value, extra="allow"):
    id: str
    label: str
    value: str
    limit: int | None = None
    description: str | None = None
    read_only: bool | None = None


class _FileShape(Value, extra="allow"):
    agents: Annotated[list[_FileAgent], Field(min_length=1, max_length=limits.FILE_AGENTS)]
    blocks: Annotated[list[_FileBlock], Field(max_length=FILE_ELEMENTS)]
    groups: Annotated[list[Json], Field(max_length=FILE_ELEMENTS)] = []
    files: Annotated[list[Json], Field(max_length=FILE_ELEMENTS)] = []
    sources: Annotated[list[Json], Field(max_length=FILE_ELEMENTS)] = []
    tools: Annotated[list[Json], Field(max_length=FILE_ELEMENTS)] = []
    mcp_servers: Annotated[list[Json], Field(max_length=FILE_ELEMENTS)] = []
    skills: Annotated[list[Json], Field(max_length=FILE_ELEMENTS)] = []
    metadata: Json | None = None


class AgentFile(Value):
    """An agent file without credentials. `redacted` counts the redacted ones by kind."""

    document: Json
    redacted: dict[str, int] = {}

    @property
    def agents(self) -> list[Json]:
        return cast("list[Json]", self.document["agents"])

    @property
    def blocks(self) -> list[Json]:
        return cast("list[Json]", self.document["blocks"])

    def text(self) -> str:
        """Return the file as JSON text."""
        return json.dumps(self.document, ensure_ascii=False, indent=2) + "\n"


def read_agent_file(content: bytes | str | Mapping[str, Any], /) -> AgentFile:
    """Parse the content of an agent file. Raises InvalidInput, LimitExceeded."""
    document = _parse_document(content) if isinstance(content, bytes | str) else dict(content)
    if "core_memory" in document and "agents" not in document:
        document = _of_one_agent(document)
    try:
        shape = _FileShape.model_validate(document)
    except ValidationError as error:
        raise invalid_input(error) from None
    block_ids = {block.id for block in shape.blocks}
    for agent in shape.agents:
        if not block_ids.issuperset(agent.block_ids):
            raise InvalidInput(field="agents", problem="name blocks that are not in the file")
    redactions: Counter[str] = Counter()
    # Redact by field name first, because the form of a value does not reveal every credential.
    clean_document = cast(
        "Json",
        _clean_part({name: _strip_credentials(name, part, redactions) for name, part in document.items()}, redactions),
    )
    return AgentFile(
        document=clean_document, redacted={kind: count for kind, count in sorted(redactions.items()) if count}
    )


def _parse_document(content: bytes | str) -> Json:
    raw_bytes = content.encode() if isinstance(content, str) else content
    if len(raw_bytes) > limits.FILE_BYTES:
        raise LimitExceeded(what="bytes in an agent file", limit=limits.FILE_BYTES, found=len(raw_bytes))
    try:
        document = _parse_json(raw_bytes)
        if isinstance(document, str):  # some files wrap their JSON in a string
            document = _parse_json(document.encode())
    except (InvalidJson, PayloadTooLarge):
        raise InvalidInput(field="file", problem="is not JSON: use a file exported by Letta") from None
    if not isinstance(document, dict):
        raise InvalidInput(field="file", problem="is not a JSON object: use a file exported by Letta")
    return cast("Json", document)


def _parse_json(raw: bytes) -> Any:
    return strict_json.parse_json(raw, limit=limits.FILE_BYTES, depth=FILE_DEPTH)


def _of_one_agent(old: Json) -> Json:
    """Convert a document of the older single-agent format to the current format."""
    own_fields = {
        "core_memory",
        "messages",
        "tools",
        "in_context_message_indices",
        "metadata_",
        "created_at",
        "version",
    }
    blocks = [
        {"id": f"block-{index}", **_object_part(block)} for index, block in enumerate(_list_part(old["core_memory"]))
    ]
    messages = [
        {"id": f"message-{index}", **_object_part(raw_message)}
        for index, raw_message in enumerate(_list_part(old.get("messages")))
    ]
    tools = [{"id": f"tool-{index}", **_object_part(tool)} for index, tool in enumerate(_list_part(old.get("tools")))]
    message_indices = [
        message_index
        for message_index in _list_part(old.get("in_context_message_indices"))
        if isinstance(message_index, int)
    ]
    variables = {
        str(_object_part(variable).get("key")): ""
        for variable in _list_part(old.get("tool_exec_environment_variables"))
    }
    agent = {
        **{name: part for name, part in old.items() if name not in own_fields},
        "id": "agent-0",
        "metadata": old.get("metadata_"),
        "block_ids": [block["id"] for block in blocks],
        "tool_ids": [tool["id"] for tool in tools],
        "in_context_message_ids": [f"message-{message_index}" for message_index in message_indices],
        "tool_exec_environment_variables": variables,
        "messages": messages,
    }
    document: Json = {name: [] for name in LISTS if name != "skills"}
    document |= {"agents": [agent], "blocks": blocks, "tools": tools, "metadata": {}}
    return document | {"created_at": old.get("created_at")}


def _strip_credentials(name: str, part: Any, redactions: Counter[str]) -> Any:
    """Return a part of the document without values that are credentials by their field name."""
    if name == "agents":
        return [_agent_without(_object_part(agent), redactions) for agent in _list_part(part)]
    return (
        [_server_without(_object_part(server), redactions) for server in _list_part(part)]
        if name == "mcp_servers"
        else part
    )


def _agent_without(agent: Json, redactions: Counter[str]) -> Json:
    clean_agent = dict(agent)
    for name in _CREDENTIALS & agent.keys():
        values = agent[name]
        if isinstance(values, dict):
            variables = cast("Json", values)
            redactions["environment"] += sum(bool(value) for value in variables.values())
            clean_agent[name] = dict.fromkeys(variables, "")
        elif values:
            redactions["environment"] += 1
            clean_agent[name] = None
    return clean_agent


def _server_without(server: Json, redactions: Counter[str]) -> Json:
    clean_server = dict(server)
    for name in _SERVER_CREDENTIALS:
        if clean_server.get(name):
            redactions["environment"] += 1
            clean_server[name] = None
    stdio = clean_server.get("stdio_config")
    if isinstance(stdio, dict) and "env" in stdio:
        redactions["environment"] += 1
        clean_server["stdio_config"] = {key: value for key, value in cast("Json", stdio).items() if key != "env"}
    return clean_server


def _clean_part(part: Any, redactions: Counter[str]) -> Any:
    if isinstance(part, str):
        scrubbed_text = scrub_secrets(part)
        redactions.update(scrubbed_text.counts)
        return scrubbed_text.text
    if isinstance(part, list):
        return [_clean_part(inner_part, redactions) for inner_part in cast("list[Any]", part)]
    if isinstance(part, dict):
        return {name: _clean_part(inner_part, redactions) for name, inner_part in cast("Json", part).items()}
    return part


def _list_part(part: Any) -> list[Any]:
    return cast("list[Any]", part) if isinstance(part, list) else []


def _object_part(part: Any) -> Json:
    return cast("Json", part) if isinstance(part, dict) else {}


_ROLES: Final = {
    "user": EvidenceRole.USER,
    "assistant": EvidenceRole.ASSISTANT,
    "tool": EvidenceRole.TOOL,
    "function": EvidenceRole.TOOL,
}
_SAID_BY_TOOL: Final = "send_message"
"""The tool through which agents of the oldest kind address the user."""


def role_of(message: Json, /) -> EvidenceRole | None:
    """Return the role of a message, or None if it is not part of the conversation, such as an instruction."""
    return _ROLES.get(str(message.get("role")))


def words_of(message: Json, /) -> str:
    """Return the text of a message without reasoning and calls, or "" if it has none."""
    text = _content_text(message.get("content"))
    if role_of(message) is EvidenceRole.USER:
        return _unpack_message(text, "user_message")
    if not text.strip() and role_of(message) is EvidenceRole.ASSISTANT:
        return "\n".join(filter(None, map(_spoken_call, _part_list(message.get("tool_calls")))))
    return text


def moment_of(message: Json, /) -> Instant | None:
    """Return when a message was sent, or None if it carries no valid time."""
    created_at = message.get("created_at")
    if not isinstance(created_at, str):
        return None
    try:
        return instant(created_at, field="created_at")
    except InvalidInput:
        return None


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [cast("Json", part) for part in _part_list(content) if isinstance(part, dict)]
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _unpack_message(text: str, kind: str) -> str:
    """Return the message inside a text that packs it with its time, or "" for a packed event, which nobody wrote."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        parsed_message = json.loads(text)
    except ValueError:
        return text
    # Any other JSON was written by a person.
    if not isinstance(parsed_message, dict) or not {"type", "time"} <= cast("Json", parsed_message).keys():
        return text
    fields = cast("Json", parsed_message)
    message = fields.get("message")
    return message if fields.get("type") == kind and isinstance(message, str) else ""


def _spoken_call(call: Any) -> str:
    function = cast("Json", call).get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or cast("Json", function).get("name") != _SAID_BY_TOOL:
        return ""
    try:
        arguments = json.loads(str(cast("Json", function).get("arguments")))
    except ValueError:
        return ""
    message = cast("Json", arguments).get("message") if isinstance(arguments, dict) else None
    return message if isinstance(message, str) else ""


def _part_list(part: Any) -> list[Any]:
    return cast("list[Any]", part) if isinstance(part, list) else []


HEAD: Final = "head"
"""Key of the record with the order of the file's lists.

It is stored last, so its absence means an incomplete import.
"""
IMPORT_BEGUN: Final = "begun"
ISSUER: Final = "letta"
MESSAGE: Final = "agent_file.message"
"""Kind of the opaque items, issued by ISSUER, in which a turn stores the JSON of a file's message in pieces."""
SOURCE: Final = "agent file"
"""Value of `source` in the metadata of these turns; `place` is the message's position in the file."""
_LABEL: Final = "a part of an agent file"


class ImportedShell:
    """The records of an imported file. None of them is shown to a model."""

    def __init__(self, records: RuntimeRecords, name: str, /) -> None:
        self._records = records
        self._namespace = (AGENTS, name, "file")

    async def put(self, key: str, value: Json, /) -> bool:
        """Store a part and return True, or return False if it is too large for a record."""
        if len(strict_json.canonical_bytes(value)) > elytron_core_limits.RECORD_VALUE_BYTES:
            return False
        await self._records.put(self._namespace, key, value, text=_LABEL)
        return True

    async def get(self, key: str, /) -> Json | None:
        """Return a part, or None if it does not exist."""
        record = await self._records.get(self._namespace, key)
        if record is None:
            return None
        assert isinstance(record.value, dict)
        return record.value

    async def parts(self) -> AsyncIterator[tuple[str, Json]]:
        """Yield each part with its key, in key order."""
        records = [record async for record in self._records.below(self._namespace)]
        for record in sorted(records, key=attrgetter("key")):
            assert isinstance(record.value, dict)
            yield record.key, record.value
