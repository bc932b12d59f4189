"""Access keys as the console lists and changes them: the devices, users and operators that hold them."""

from pydantic import ConfigDict, Field

from elytron_adapter.access_keys import (
    AccessKeyIssued,
    AccessKeyReport,
    AccessKeyRequest,
    AccessKeys,
    AccessLabelRequest,
)
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput
from elytron_core.model import Request as OperationRequest
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.scope import Name, Space


class DeviceReport(Value):
    """An access key as listed: its fingerprint, never the key."""

    model_config = ConfigDict(serialize_by_alias=True)

    id: str
    kind: PrincipalKind
    space: str | None = None
    label: str
    state: str
    app_key_fingerprint: str = Field(serialization_alias="appKeyFingerprint")
    created_at: Instant
    rotated_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None


class DeviceIssued(Value):
    """A device with its key, which is shown this once."""

    model_config = ConfigDict(serialize_by_alias=True)

    device: DeviceReport
    app_key_once: str = Field(serialization_alias="appKeyOnce")


class DeviceList(Value):
    """A page of keys, in the order of their ids."""

    items: tuple[DeviceReport, ...]
    next_cursor: str | None = None


class DeviceDraft(OperationRequest):
    """Create a key for a device, or for another `kind` of caller."""

    label: Name
    space: Space | None = None
    kind: PrincipalKind = PrincipalKind.DEVICE


class DeviceChange(OperationRequest):
    """Update a key's label, or permanently revoke it."""

    label: Name | None = None
    state: str | None = None


def device_report(key: AccessKeyReport, /) -> DeviceReport:
    """Return a key as listed."""
    return DeviceReport(
        id=key.id,
        kind=key.kind,
        space=key.space,
        label=key.label,
        state="active" if key.revoked_at is None else "revoked",
        app_key_fingerprint=key.fingerprint,
        created_at=key.created_at,
        rotated_at=key.rotated_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


def issued_device(issued_key: AccessKeyIssued, /) -> DeviceIssued:
    """Return a new key with its secret."""
    return DeviceIssued(device=device_report(issued_key.access), app_key_once=issued_key.key)


async def change_device(keys: AccessKeys, key_id: str, change: DeviceChange, /) -> DeviceReport:
    """Set the label of a key or revoke it, and return it. Raises InvalidInput for another state, NotFound."""
    access_key = await keys.find(AccessKeyRequest(id=key_id))
    # Rejected before the label is changed.
    if change.state not in {None, "active", "revoked"}:
        raise InvalidInput(field="state", problem="must be active or revoked")
    if change.state == "active" and access_key.revoked_at is not None:
        raise InvalidInput(field="state", problem="stays revoked: create another key for this device")
    if change.label is not None:
        access_key = await keys.set_label(AccessLabelRequest(id=key_id, label=change.label))
    if change.state == "revoked":
        access_key = await keys.revoke(AccessKeyRequest(id=key_id))
    return device_report(access_key)
