"""Callers of the proxy: whose memory a request uses, and which of its headers are trusted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from starlette.datastructures import Headers

from elytron_adapter.access_keys import Principal
from elytron_adapter.dispatch import CallerAdmission
from elytron_core import limits as core_limits
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_core.ids import SpaceId, is_reserved, require_name
from elytron_core.scope import Scope
from elytron_proxy.settings import MemoryUse, ProxySettings
from elytron_proxy.wire import upstream as names
from elytron_turn.memory import NO_DEADLINE, TurnDeadline

CHANNEL: Final = "llm-proxy"
"""Channel of messages through a proxy."""


@dataclass(frozen=True, slots=True)
class ProxyCaller:
    """A caller: its space, and how the call uses memory. `call_id` is the client's own name of the call."""

    principal: Principal
    space: SpaceId
    request_id: str
    use: MemoryUse
    credential: str | None = field(default=None, repr=False)
    conversation: str | None = None
    call_id: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    deadline: TurnDeadline = NO_DEADLINE
    """When the call continues without memory; without a deadline, no call waits for memory."""

    async def current_credential(self) -> str | None:
        """Return the call's credential."""
        return self.credential

    def scope(self, conversation: str | None = None, /) -> Scope:
        """Return the scope for storing and searching in this call."""
        return Scope(
            space=self.space,
            channel=CHANNEL,
            conversation=conversation,
            agent=self.parts.get("agent"),
            app=self.parts.get("app"),
            project=self.parts.get("project"),
        )


async def caller_of(
    admission: CallerAdmission, settings: ProxySettings, headers: Headers, /, *, peer: str | None, request_id: str
) -> ProxyCaller:
    """Return the caller. Raises Unauthorized, PermissionRefused, InvalidInput."""
    credential = names.credential_of(headers.get("authorization"), headers.get("x-api-key"))
    principal = await admission.authenticate(credential)
    return ProxyCaller(
        principal=principal,
        space=_caller_space(principal, settings, headers, peer=peer),
        request_id=request_id,
        use=_memory_use(settings, headers),
        conversation=_caller_conversation(headers),
        credential=credential,
        call_id=next(
            (request_id_header for name in names.REQUEST_IDS if (request_id_header := headers.get(name))), None
        ),
        parts={part: _named_field(headers[name], name) for name, part in names.SCOPES.items() if name in headers},
    )


def _caller_space(principal: Principal, settings: ProxySettings, headers: Headers, *, peer: str | None) -> SpaceId:
    """Return the space: the credential's own, else the one that a trusted peer names, else the default one."""
    user_header = next(((name, headers[name]) for name in names.USERS if name in headers), None)
    if user_header is not None and not settings.is_trusted(peer):
        raise PermissionRefused(f"{user_header[0]} names a user, which only trusted peers may do: see --trusted-peer")
    if principal.space is not None:
        if user_header is not None and user_header[1] != principal.space:
            raise PermissionRefused(f"{user_header[0]} names a user other than the credential's")
        return principal.space
    space = _named_field(user_header[1], user_header[0]) if user_header is not None else settings.space
    if is_reserved(cast("SpaceId", space)):
        raise PermissionRefused("this space is reserved for the server")
    return SpaceId(space)


def _caller_conversation(headers: Headers) -> str | None:
    conversation_header = next(((name, headers[name]) for name in names.CONVERSATIONS if headers.get(name)), None)
    return _named_field(conversation_header[1], conversation_header[0]) if conversation_header is not None else None


def _memory_use(settings: ProxySettings, headers: Headers) -> MemoryUse:
    header = headers.get(names.MEMORY)
    if header is None:
        return settings.memory
    try:
        return MemoryUse(header.strip().lower())
    except ValueError:
        choices = ", ".join(use.value for use in MemoryUse)
        raise InvalidInput(field=names.MEMORY, problem=f"must be one of {choices}") from None


def _named_field(value: str, field: str) -> str:
    require_name(value, field=field, limit=core_limits.NAME_CHARS)
    return value
