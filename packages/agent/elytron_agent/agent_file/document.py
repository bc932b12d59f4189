"""The agent file: a JSON document of agents, blocks, messages and tools, in the form that Letta writes today.

The earlier form, of one agent alone, is read too. Credentials are blacked out when a file is read.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from pydantic import Field, ValidationError

from elytron_agent import limits
from elytron_core import strict_json
from elytron_core.errors import InvalidInput, InvalidJson, LimitExceeded, PayloadTooLarge
from elytron_core.model import Value, invalid
from elytron_core.policy.privacy.secrets import scrub

LISTS: Final = ("agents", "groups", "blocks", "files", "sources", "tools", "mcp_servers", "skills")
"""The lists of a document, in its order. Files of before skills have no list of them."""
_CREDENTIALS: Final = frozenset({"tool_exec_environment_variables", "secrets"})
_SERVER_CREDENTIALS: Final = ("token", "custom_headers")
Json = dict[str, Any]


class _Message(Value, extra="allow"):
    role: str


class _Agent(Value, extra="allow"):
    id: str
    name: str | None = None
    system: str | None = None
    block_ids: list[str] = []
    messages: Annotated[list[_Message], Field(max_length=limits.FILE_MESSAGES)] = []


class _Block(Value, extra="allow"):
    id: str
    label: str
    value: str
    limit: int | None = None
    description: str | None = None
    read_only: bool | None = None


class _Shape(Value, extra="allow"):
    agents: Annotated[list[_Agent], Field(min_length=1, max_length=limits.FILE_AGENTS)]
    blocks: Annotated[list[_Block], Field(max_length=limits.FILE_ELEMENTS)]
    groups: Annotated[list[Json], Field(max_length=limits.FILE_ELEMENTS)] = []
    files: Annotated[list[Json], Field(max_length=limits.FILE_ELEMENTS)] = []
    sources: Annotated[list[Json], Field(max_length=limits.FILE_ELEMENTS)] = []
    tools: Annotated[list[Json], Field(max_length=limits.FILE_ELEMENTS)] = []
    mcp_servers: Annotated[list[Json], Field(max_length=limits.FILE_ELEMENTS)] = []
    skills: Annotated[list[Json], Field(max_length=limits.FILE_ELEMENTS)] = []
    metadata: Json | None = None


class AgentFile(Value):
    """An agent file without credentials; `redacted` counts those that were blacked out, by kind."""

    document: Json
    redacted: dict[str, int] = {}

    @property
    def agents(self) -> list[Json]:
        return cast("list[Json]", self.document["agents"])

    @property
    def blocks(self) -> list[Json]:
        return cast("list[Json]", self.document["blocks"])

    def text(self) -> str:
        """Return the file as it is written."""
        return json.dumps(self.document, ensure_ascii=False, indent=2) + "\n"


def read_agent_file(content: bytes | str | Mapping[str, Any], /) -> AgentFile:
    """Return the agent file of a file's content. Raises InvalidInput, LimitExceeded."""
    document = _parsed(content) if isinstance(content, bytes | str) else dict(content)
    if "core_memory" in document and "agents" not in document:
        document = _of_one_agent(document)
    try:
        shape = _Shape.model_validate(document)
    except ValidationError as error:
        raise invalid(error) from None
    known = {block.id for block in shape.blocks}
    for agent in shape.agents:
        if not known.issuperset(agent.block_ids):
            raise InvalidInput(field="agents", problem="name blocks that are not in the file")
    found: Counter[str] = Counter()
    clean = cast("Json", _clean({name: _bare(name, part, found) for name, part in document.items()}, found))
    return AgentFile(document=clean, redacted={kind: count for kind, count in sorted(found.items()) if count})


def _parsed(content: bytes | str) -> Json:
    raw = content.encode() if isinstance(content, str) else content
    if len(raw) > limits.FILE_BYTES:
        raise LimitExceeded(what="bytes of an agent file", limit=limits.FILE_BYTES, found=len(raw))
    try:
        document = _json(raw)
        if isinstance(document, str):  # some files hold their JSON as a text
            document = _json(document.encode())
    except (InvalidJson, PayloadTooLarge):
        raise InvalidInput(field="file", problem="is no JSON: give a file that Letta exported") from None
    if not isinstance(document, dict):
        raise InvalidInput(field="file", problem="is no JSON object: give a file that Letta exported")
    return cast("Json", document)


def _json(raw: bytes) -> Any:
    return strict_json.parse(raw, limit=limits.FILE_BYTES, depth=limits.FILE_DEPTH)


def _of_one_agent(old: Json) -> Json:
    """Return a document of today's form for one of the form that held one agent."""
    named = {"core_memory", "messages", "tools", "in_context_message_indices", "metadata_", "created_at", "version"}
    blocks = [{"id": f"block-{place}", **_object(block)} for place, block in enumerate(_list(old["core_memory"]))]
    messages = [{"id": f"message-{place}", **_object(each)} for place, each in enumerate(_list(old.get("messages")))]
    tools = [{"id": f"tool-{place}", **_object(tool)} for place, tool in enumerate(_list(old.get("tools")))]
    indices = [index for index in _list(old.get("in_context_message_indices")) if isinstance(index, int)]
    variables = {str(_object(each).get("key")): "" for each in _list(old.get("tool_exec_environment_variables"))}
    agent = {
        **{name: part for name, part in old.items() if name not in named},
        "id": "agent-0",
        "metadata": old.get("metadata_"),
        "block_ids": [block["id"] for block in blocks],
        "tool_ids": [tool["id"] for tool in tools],
        "in_context_message_ids": [f"message-{index}" for index in indices],
        "tool_exec_environment_variables": variables,
        "messages": messages,
    }
    document: Json = {name: [] for name in LISTS if name != "skills"}
    document |= {"agents": [agent], "blocks": blocks, "tools": tools, "metadata": {}}
    return document | {"created_at": old.get("created_at")}


def _bare(name: str, part: Any, found: Counter[str]) -> Any:
    """Return a part of the document without what is a credential by its place."""
    if name == "agents":
        return [_without(_object(agent), found) for agent in _list(part)]
    return [_server(_object(server), found) for server in _list(part)] if name == "mcp_servers" else part


def _without(agent: Json, found: Counter[str]) -> Json:
    made = dict(agent)
    for name in _CREDENTIALS & agent.keys():
        values = agent[name]
        if isinstance(values, dict):
            held = cast("Json", values)
            found["environment"] += sum(bool(value) for value in held.values())
            made[name] = dict.fromkeys(held, "")
        elif values:
            found["environment"] += 1
            made[name] = None
    return made


def _server(server: Json, found: Counter[str]) -> Json:
    made = dict(server)
    for name in _SERVER_CREDENTIALS:
        if made.get(name):
            found["environment"] += 1
            made[name] = None
    stdio = made.get("stdio_config")
    if isinstance(stdio, dict) and "env" in stdio:
        found["environment"] += 1
        made["stdio_config"] = {key: value for key, value in cast("Json", stdio).items() if key != "env"}
    return made


def _clean(part: Any, found: Counter[str]) -> Any:
    if isinstance(part, str):
        scrubbed = scrub(part)
        found.update(scrubbed.found)
        return scrubbed.text
    if isinstance(part, list):
        return [_clean(inner, found) for inner in cast("list[Any]", part)]
    if isinstance(part, dict):
        return {name: _clean(inner, found) for name, inner in cast("Json", part).items()}
    return part


def _list(part: Any) -> list[Any]:
    return cast("list[Any]", part) if isinstance(part, list) else []


def _object(part: Any) -> Json:
    return cast("Json", part) if isinstance(part, dict) else {}
