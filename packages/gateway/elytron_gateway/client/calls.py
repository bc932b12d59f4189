"""The gateway's requests as data to send and answers to parse, shared by both clients."""

import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from elytron_core.errors import PayloadTooLarge, UnreadableFile
from elytron_core.model import Value
from elytron_gateway import limits as gateway_limits
from elytron_gateway import wire
from elytron_gateway.names import DEFAULT
from elytron_gateway.users import SignedReport

AnswerT = TypeVar("AnswerT", bound=Value)
Message = Mapping[str, Any]
File = tuple[str, bytes, str]


@dataclass(frozen=True, slots=True)
class GatewayCall(Generic[AnswerT]):
    """One request. `fields` go into the body if it has one, otherwise into the address; `is_placed` adds
    credentials."""

    method: str
    path: str
    answer: type[AnswerT]
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    files: Mapping[str, File] | None = None
    is_placed: bool = True
    idempotency_key: str | None = None
    keeps_raw: bool = False


def check_health() -> GatewayCall[wire.HealthAnswer]:
    """Check whether the gateway answers; needs no credentials."""
    return GatewayCall("GET", "/health", wire.HealthAnswer, is_placed=False)


def create_user(user_id: str, /) -> GatewayCall[wire.UserAnswer]:
    """Create a user, or return the key of an existing one; needs the provisioning credential."""
    return GatewayCall("POST", "/users", wire.UserAnswer, {"user_id": user_id}, is_placed=False)


def add_messages(
    session_id: str,
    messages: Sequence[Message],
    /,
    *,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
    external_content_used: bool = False,
    idempotency_key: str | None = None,
) -> GatewayCall[wire.AddAnswer]:
    """Add messages to a session; with a key, once however often they are sent.

    `external_content_used` says that they are based on a page or file, and marks them as from outside.
    """
    fields: dict[str, Any] = {**_place_fields(app_id, project_id), "session_id": session_id, "messages": list(messages)}
    if external_content_used:
        fields["external_content_used"] = True
    return GatewayCall("POST", "/memories/add", wire.AddAnswer, fields, idempotency_key=idempotency_key)


def add_with_files(
    session_id: str,
    messages: Sequence[Message],
    files: Mapping[str, str | Path],
    /,
    *,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
    idempotency_key: str | None = None,
) -> GatewayCall[wire.AddAnswer]:
    """Add messages with the files that their items name by `upload_id`."""
    fields = {**_place_fields(app_id, project_id), "session_id": session_id, "messages": json.dumps(list(messages))}
    file_parts = {name: _file_part(Path(path)) for name, path in files.items()}
    path = "/memories/add/multipart"
    return GatewayCall("POST", path, wire.AddAnswer, fields, files=file_parts, idempotency_key=idempotency_key)


def flush_session(
    session_id: str, /, *, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> GatewayCall[wire.FlushAnswer]:
    """Extract memories from what was added to a session."""
    return GatewayCall(
        "POST", "/memories/flush", wire.FlushAnswer, _place_fields(app_id, project_id) | {"session_id": session_id}
    )


def search_memories(
    query: str,
    /,
    *,
    scope: Sequence[wire.Scope] = (),
    conversation_id: str | None = None,
    top_k: int = gateway_limits.TOP_K_DEFAULT,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
    raw: bool = False,
) -> GatewayCall[wire.SearchAnswer]:
    """Search memories; results come without the upstream's raw answer, which is not for prompts, unless `raw`."""
    fields: dict[str, Any] = {**_place_fields(app_id, project_id), "query": query, "top_k": top_k}
    if scope:
        fields["scope"] = list(scope)
    if conversation_id is not None:
        fields["conversation_id"] = conversation_id
    return GatewayCall("POST", "/memories/search", wire.SearchAnswer, fields, keeps_raw=raw)


def override_memory(
    memory_id: str, /, *, session_id: str, text: str, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> GatewayCall[wire.EditAnswer]:
    """Override the text that search shows for a memory."""
    fields = {**_edit_fields(memory_id, session_id, app_id, project_id), "text": text}
    return GatewayCall("POST", "/memories/override", wire.EditAnswer, fields)


def delete_memory(
    memory_id: str,
    /,
    *,
    session_id: str,
    reason: str = "",
    purge: bool = False,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
) -> GatewayCall[wire.EditAnswer]:
    """Hide a memory from search; with `purge`, permanently erase it."""
    fields = {**_edit_fields(memory_id, session_id, app_id, project_id), "reason": reason, "purge": purge}
    return GatewayCall("POST", "/memories/delete", wire.EditAnswer, fields)


def undo_edit(
    memory_id: str, /, *, session_id: str, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> GatewayCall[wire.EditAnswer]:
    """Undo the edit of a memory, which is shown again as it was."""
    return GatewayCall(
        "POST", "/memories/undo", wire.EditAnswer, _edit_fields(memory_id, session_id, app_id, project_id)
    )


def list_edits(*, app_id: str = DEFAULT, project_id: str = DEFAULT) -> GatewayCall[wire.EditsAnswer]:
    """List the overrides and tombstones of an app and project."""
    return GatewayCall("POST", "/memories/edits", wire.EditsAnswer, _place_fields(app_id, project_id))


def upload_resource(
    path: str | Path,
    /,
    *,
    title: str = "",
    description: str = "",
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
) -> GatewayCall[wire.ResourceAnswer]:
    """Upload a file and make its text searchable. Raises UnreadableFile, PayloadTooLarge before anything is sent."""
    fields = {**_place_fields(app_id, project_id), "title": title, "description": description}
    return GatewayCall("POST", "/resources", wire.ResourceAnswer, fields, files={"file": _file_part(Path(path))})


def register_resource(
    uri: str,
    /,
    *,
    title: str = "",
    description: str = "",
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
) -> GatewayCall[wire.ResourceAnswer]:
    """Register a resource at an address that the server may read."""
    fields = {**_place_fields(app_id, project_id), "uri": uri, "title": title, "description": description}
    return GatewayCall("POST", "/resources/external", wire.ResourceAnswer, fields)


def list_resources(*, app_id: str = DEFAULT, project_id: str = DEFAULT) -> GatewayCall[wire.ResourcesAnswer]:
    """List the resources of an app and project."""
    return GatewayCall("GET", "/resources", wire.ResourcesAnswer, _place_fields(app_id, project_id))


def get_resource(
    resource_id: str, /, *, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> GatewayCall[wire.ResourcesAnswer]:
    """Show one resource, or none."""
    return GatewayCall("GET", _resource_path(resource_id), wire.ResourcesAnswer, _place_fields(app_id, project_id))


def delete_resource(
    resource_id: str, /, *, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> GatewayCall[wire.DeletedAnswer]:
    """Remove a resource for good."""
    return GatewayCall("DELETE", _resource_path(resource_id), wire.DeletedAnswer, _place_fields(app_id, project_id))


def list_users() -> GatewayCall[wire.UsersAnswer]:
    """List every user; for operators, as are all calls about users."""
    return GatewayCall("GET", "/users", wire.UsersAnswer, is_placed=False)


def user_usage(user_id: str, /) -> GatewayCall[wire.UsageAnswer]:
    """Return a user's usage, over all apps and projects."""
    return GatewayCall("GET", _user_path(user_id), wire.UsageAnswer, is_placed=False)


def rotate_key(user_id: str, /) -> GatewayCall[wire.UserAnswer]:
    """Give a user a new key; the old one ends, the memory stays."""
    return GatewayCall("POST", f"{_user_path(user_id)}/rotate", wire.UserAnswer, is_placed=False)


def revoke_key(user_id: str, /) -> GatewayCall[wire.UsageAnswer]:
    """End a user's key; the memory stays."""
    return GatewayCall("POST", f"{_user_path(user_id)}/revoke", wire.UsageAnswer, is_placed=False)


def erase_user(user_id: str, /) -> GatewayCall[SignedReport]:
    """Erase a user with all spaces for good; the report is signed."""
    return GatewayCall("DELETE", _user_path(user_id), SignedReport, is_placed=False)


def drain_backlog() -> GatewayCall[wire.DrainAnswer]:
    """Send an upstream that is available again what it has missed."""
    return GatewayCall("POST", "/backlog/drain", wire.DrainAnswer, is_placed=False)


def _user_path(user_id: str) -> str:
    from urllib.parse import quote

    return f"/users/{quote(user_id, safe='')}"


def _resource_path(resource_id: str) -> str:
    from urllib.parse import quote

    return f"/resources/{quote(resource_id, safe='')}"


def _place_fields(app_id: str, project_id: str) -> dict[str, Any]:
    return {"app_id": app_id, "project_id": project_id}


def _edit_fields(memory_id: str, session_id: str, app_id: str, project_id: str) -> dict[str, Any]:
    return {**_place_fields(app_id, project_id), "memory_id": memory_id, "session_id": session_id}


def _file_part(path: Path) -> File:
    try:
        if path.stat().st_size > gateway_limits.RESOURCE_BYTES:
            raise PayloadTooLarge(
                limit=gateway_limits.RESOURCE_BYTES, what=f"the file {path.name!r}", way_out="split it"
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name or str(path), error) from None
    return path.name, data, mimetypes.guess_type(path.name)[0] or "application/octet-stream"
