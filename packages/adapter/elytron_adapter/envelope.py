"""The envelope of a call and of its answer, the same for all transports."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny, WithJsonSchema, computed_field

from elytron_adapter.identity.principals import PrincipalKind
from elytron_adapter.seed_forms import seed_key
from elytron_core import limits
from elytron_core.contracts.scope_fields import IdempotencyKey
from elytron_core.model import Request, Value
from elytron_core.scope import Name, Space


class Transport(StrEnum):
    """Transport of a call."""

    SDK = "sdk"
    CLI = "cli"
    HTTP = "http"
    WSS = "wss"
    MCP = "mcp"
    A2A = "a2a"


LOCAL = frozenset({Transport.SDK, Transport.CLI})
"""Transports whose caller runs on this machine as its own user."""


class SourceKind(StrEnum):
    """Kind of caller."""

    HOST = "host"
    AGENT = "agent"
    OPERATOR = "operator"
    PEER = "peer"


class Source(Value):
    """The caller's own name. It labels a call and grants nothing."""

    id: Name | None = None
    kind: SourceKind = SourceKind.HOST
    agent: Name | None = None
    owner: Name | None = None
    channel: Name | None = None
    chat: Name | None = None

    @property
    def label(self) -> str | None:
        """Return what the audit notes of it: its kind and the names that were said; None without a name."""
        named = (("id", self.id), ("agent", self.agent), ("owner", self.owner), ("channel", self.channel))
        said = [f"{what} {name!r}" for what, name in (*named, ("chat", self.chat)) if name is not None]
        return ", ".join((self.kind, *said)) if said else None


class AuthKind(StrEnum):
    """The kind of credential of a caller."""

    NONE = "none"
    LOCAL = "local"
    BEARER = "bearer"
    SIGNATURE = "signature"


class Auth(Value):
    """The caller as the shell knows it, from a credential alone and never from a payload.

    `role` says what the caller may do; `space` is the only space that it may use, None: any.
    """

    authenticated: bool = False
    kind: AuthKind = AuthKind.NONE
    principal: Name | None = None
    role: PrincipalKind | None = None
    space: Space | None = None


class Envelope(Request):
    """One call of one operation. `payload` is JSON from outside, or the typed request of a caller in this process."""

    request_id: Name
    transport: Transport
    operation: Annotated[str, Field(max_length=limits.NAME_CHARS)]
    source: Source = Source()
    auth: Auth = Auth()
    idempotency_key: IdempotencyKey | None = None
    audit_id: Name | None = None
    versions: tuple[str, ...] = ()
    """One of these must be the version of what is changed; "*": any. None: that is not asked."""
    may_disclose: bool = True
    """Private memories are shown if true; not to a model, unless its host wants that."""
    payload: bytes | Value = b"{}"


Report = Annotated[SerializeAsAny[Value], WithJsonSchema({"type": "object", "title": "Report"})]
"""The report of any operation."""


class Accepted(Value):
    """It was done."""

    kind: Literal["accepted"] = "accepted"
    request_id: str
    report: Report
    version: str | None = Field(default=None, exclude=True)
    """Of the one thing that was read, for shells to tell beside the report."""


class Duplicated(Value):
    """It had been done before under this idempotency key; nothing was changed, and this is the first answer again."""

    kind: Literal["duplicated"] = "duplicated"
    request_id: str
    report: Report


class Queued(Value):
    """A part is done; `job` does the rest and can be asked for."""

    kind: Literal["queued"] = "queued"
    request_id: str
    report: Report
    job: str


class Rejected(Value):
    """It was not done. `error_key` is stable; `reason` names no value that was given."""

    kind: Literal["rejected"] = "rejected"
    request_id: str
    error_key: str
    reason: str
    retryable: bool = False
    details: dict[str, str | int] = {}

    @computed_field
    @property
    def seed_key(self) -> str:
        """Return the same in the few words of the protocol's first hosts."""
        return seed_key(self.error_key)


Response = Annotated[Accepted | Duplicated | Queued | Rejected, Field(discriminator="kind")]
