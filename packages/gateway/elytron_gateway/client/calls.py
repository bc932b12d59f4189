"""The gateway's requests, as what is sent and what comes back; who sends them waits or awaits."""

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
from elytron_gateway.accounts.users import SignedReport
from elytron_gateway.names import DEFAULT

AnswerT = TypeVar("AnswerT", bound=Value)
Message = Mapping[str, Any]
File = tuple[str, bytes, str]


@dataclass(frozen=True, slots=True)
class Call(Generic[AnswerT]):
    """One request. `fields` go into the body if it has one, else into the address; `is_placed` adds credentials."""

    method: str
    path: str
    answer: type[AnswerT]
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    files: Mapping[str, File] | None = None
    is_placed: bool = True
    idempotency_key: str | None = None
    keeps_raw: bool = False


def health() -> Call[wire.HealthAnswer]:
    """Say whether the gateway answers; needs no credentials."""
    return Call("GET", "/health", wire.HealthAnswer, is_placed=False)


def create_user(user_id: str, /) -> Call[wire.UserAnswer]:
    """Make a user, or get the key of one who is there; needs the provisioning credential."""
    return Call("POST", "/users", wire.UserAnswer, {"user_id": user_id}, is_placed=False)


def add(
    session_id: str,
    messages: Sequence[Message],
    /,
    *,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
    external_content_used: bool = False,
    idempotency_key: str | None = None,
) -> Call[wire.AddAnswer]:
    """Add messages to a session; under a key, once however often they are sent.

    `external_content_used` says that they rest on a page or file, and marks them as from outside.
    """
    fields: dict[str, Any] = {**_place(app_id, project_id), "session_id": session_id, "messages": list(messages)}
    if external_content_used:
        fields["external_content_used"] = True
    return Call("POST", "/memories/add", wire.AddAnswer, fields, idempotency_key=idempotency_key)


def add_with_files(
    session_id: str,
    messages: Sequence[Message],
    files: Mapping[str, str | Path],
    /,
    *,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
    idempotency_key: str | None = None,
) -> Call[wire.AddAnswer]:
    """Add messages with the files that their items name by `upload_id`."""
    fields = {**_place(app_id, project_id), "session_id": session_id, "messages": json.dumps(list(messages))}
    read = {name: _file(Path(path)) for name, path in files.items()}
    path = "/memories/add/multipart"
    return Call("POST", path, wire.AddAnswer, fields, files=read, idempotency_key=idempotency_key)


def flush(session_id: str, /, *, app_id: str = DEFAULT, project_id: str = DEFAULT) -> Call[wire.FlushAnswer]:
    """Hand what was added to a session to extraction."""
    return Call("POST", "/memories/flush", wire.FlushAnswer, _place(app_id, project_id) | {"session_id": session_id})


def search(
    query: str,
    /,
    *,
    scope: Sequence[wire.Scope] = (),
    conversation_id: str | None = None,
    top_k: int = gateway_limits.TOP_K_DEFAULT,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
    raw: bool = False,
) -> Call[wire.SearchAnswer]:
    """Search memories; results come without the upstream's raw answer, which is not for prompts, unless `raw`."""
    fields: dict[str, Any] = {**_place(app_id, project_id), "query": query, "top_k": top_k}
    if scope:
        fields["scope"] = list(scope)
    if conversation_id is not None:
        fields["conversation_id"] = conversation_id
    return Call("POST", "/memories/search", wire.SearchAnswer, fields, keeps_raw=raw)


def override(
    memory_id: str, /, *, session_id: str, text: str, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> Call[wire.EditAnswer]:
    """Let search show another text for a memory."""
    fields = {**_edit(memory_id, session_id, app_id, project_id), "text": text}
    return Call("POST", "/memories/override", wire.EditAnswer, fields)


def delete(
    memory_id: str,
    /,
    *,
    session_id: str,
    reason: str = "",
    purge: bool = False,
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
) -> Call[wire.EditAnswer]:
    """Let search no longer show a memory; with `purge`, erase it for good."""
    fields = {**_edit(memory_id, session_id, app_id, project_id), "reason": reason, "purge": purge}
    return Call("POST", "/memories/delete", wire.EditAnswer, fields)


def undo(
    memory_id: str, /, *, session_id: str, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> Call[wire.EditAnswer]:
    """Take the edit off a memory, which shows again as it was."""
    return Call("POST", "/memories/undo", wire.EditAnswer, _edit(memory_id, session_id, app_id, project_id))


def edits(*, app_id: str = DEFAULT, project_id: str = DEFAULT) -> Call[wire.EditsAnswer]:
    """List the overrides and tombstones of an app and project."""
    return Call("POST", "/memories/edits", wire.EditsAnswer, _place(app_id, project_id))


def upload_resource(
    path: str | Path,
    /,
    *,
    title: str = "",
    description: str = "",
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
) -> Call[wire.ResourceAnswer]:
    """Take a file in and make its text searchable. Raises UnreadableFile, PayloadTooLarge before anything is sent."""
    fields = {**_place(app_id, project_id), "title": title, "description": description}
    return Call("POST", "/resources", wire.ResourceAnswer, fields, files={"file": _file(Path(path))})


def register_resource(
    uri: str,
    /,
    *,
    title: str = "",
    description: str = "",
    app_id: str = DEFAULT,
    project_id: str = DEFAULT,
) -> Call[wire.ResourceAnswer]:
    """Take in a resource from an address that the server may read."""
    fields = {**_place(app_id, project_id), "uri": uri, "title": title, "description": description}
    return Call("POST", "/resources/external", wire.ResourceAnswer, fields)


def list_resources(*, app_id: str = DEFAULT, project_id: str = DEFAULT) -> Call[wire.ResourcesAnswer]:
    """List the resources of an app and project."""
    return Call("GET", "/resources", wire.ResourcesAnswer, _place(app_id, project_id))


def get_resource(
    resource_id: str, /, *, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> Call[wire.ResourcesAnswer]:
    """Show one resource, or none."""
    return Call("GET", _resource(resource_id), wire.ResourcesAnswer, _place(app_id, project_id))


def delete_resource(
    resource_id: str, /, *, app_id: str = DEFAULT, project_id: str = DEFAULT
) -> Call[wire.DeletedAnswer]:
    """Remove a resource for good."""
    return Call("DELETE", _resource(resource_id), wire.DeletedAnswer, _place(app_id, project_id))


def list_users() -> Call[wire.UsersAnswer]:
    """List every user; an operator's, as all calls about users."""
    return Call("GET", "/users", wire.UsersAnswer, is_placed=False)


def usage(user_id: str, /) -> Call[wire.UsageAnswer]:
    """Return a user's usage, over all apps and projects."""
    return Call("GET", _user(user_id), wire.UsageAnswer, is_placed=False)


def rotate_key(user_id: str, /) -> Call[wire.UserAnswer]:
    """Give a user a new key; the old one ends, the memory stays."""
    return Call("POST", f"{_user(user_id)}/rotate", wire.UserAnswer, is_placed=False)


def revoke_key(user_id: str, /) -> Call[wire.UsageAnswer]:
    """End a user's key; the memory stays."""
    return Call("POST", f"{_user(user_id)}/revoke", wire.UsageAnswer, is_placed=False)


def erase_user(user_id: str, /) -> Call[SignedReport]:
    """Erase a user with all spaces for good; the report is signed."""
    return Call("DELETE", _user(user_id), SignedReport, is_placed=False)


def drain_backlog() -> Call[wire.DrainAnswer]:
    """Send an upstream that answers again what it has missed."""
    return Call("POST", "/backlog/drain", wire.DrainAnswer, is_placed=False)


def _user(user_id: str) -> str:
    from urllib.parse import quote

    return f"/users/{quote(user_id, safe='')}"


def _resource(resource_id: str) -> str:
    from urllib.parse import quote

    return f"/resources/{quote(resource_id, safe='')}"


def _place(app_id: str, project_id: str) -> dict[str, Any]:
    return {"app_id": app_id, "project_id": project_id}


def _edit(memory_id: str, session_id: str, app_id: str, project_id: str) -> dict[str, Any]:
    return {**_place(app_id, project_id), "memory_id": memory_id, "session_id": session_id}


def _file(path: Path) -> File:
    try:
        if path.stat().st_size > gateway_limits.RESOURCE_BYTES:
            raise PayloadTooLarge(
                limit=gateway_limits.RESOURCE_BYTES, what=f"the file {path.name!r}", way_out="split it"
            )
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableFile(name=path.name or str(path), problem=f"cannot be read: {error.strerror}") from None
    return path.name, data, mimetypes.guess_type(path.name)[0] or "application/octet-stream"
