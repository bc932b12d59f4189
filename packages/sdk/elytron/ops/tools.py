"""Registries of a host's tools: register, read, delete. The tools themselves stay with the host."""

from collections.abc import Iterable

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, value_at
from elytron.intake import scrub_value
from elytron.state.tool_state import tools_of
from elytron.writes.commit import SettledChanges, settle_report
from elytron_core import limits
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteReport,
    AgentToolRegistryDeleteRequest,
    AgentToolRegistryGetReport,
    AgentToolRegistryGetRequest,
    AgentToolRegistryListReport,
    AgentToolRegistryListRequest,
    AgentToolRegistryUpsertReport,
    AgentToolRegistryUpsertRequest,
    RegistryRefusal,
)
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import REGISTRIES, AgentToolRegistrySnapshot, StoredRegistry
from elytron_core.policy import tools
from elytron_core.policy.tools import count_tools, registry_refusal
from elytron_core.ports.store import DocumentRef, JournalAction

_REASONS = {
    RegistryRefusal.FINGERPRINT_MISMATCH: "the snapshot's fingerprint does not match its content",
    RegistryRefusal.DESCRIPTOR_MISMATCH: "a tool's descriptor fingerprint does not match its content",
    RegistryRefusal.DUPLICATE_TOOL: "two tools have the same id",
    RegistryRefusal.FORBIDDEN_BY_PROFILE: "the profile of this runtime does not support tool registries",
    RegistryRefusal.TOO_MANY: f"a space is limited to {limits.TOOL_REGISTRIES} registries: delete one first",
}


async def upsert_agent_tool_registry(
    ctx: OperationContext, request: AgentToolRegistryUpsertRequest, /
) -> AgentToolRegistryUpsertReport:
    """Check a snapshot for consistency and register it, replacing the one with its id.

    The same snapshot again changes nothing. Credentials in its names and tags are redacted; the fingerprints stay those
    of the given snapshot. A rejected one leaves everything unchanged.
    """
    scope = ctx.scope_of(request)
    snapshot = request.snapshot
    fingerprint = tools.registry_fingerprint(snapshot)
    profile_refusal = RegistryRefusal.FORBIDDEN_BY_PROFILE if ctx.profile.is_esp else None
    # Checked as given, because redacted texts have another fingerprint.
    snapshot_refusal = profile_refusal or registry_refusal(snapshot)
    clean_snapshot, findings = scrub_value(tools.with_fingerprints(snapshot))

    async def plan(record: SpaceRecord) -> SettledChanges[AgentToolRegistryUpsertReport]:
        ref = DocumentRef(REGISTRIES, record.registry_tag(snapshot.registry_id))
        stored_registry, revision = await value_at(ctx.store, scope.space, ref, StoredRegistry)
        current_snapshot = stored_registry.snapshot if stored_registry is not None else None
        refusal = snapshot_refusal
        # Only for a new one, since a replacement takes no room.
        if current_snapshot is None and refusal is None and await _is_full(ctx, request):
            refusal = RegistryRefusal.TOO_MANY
        changes = ChangeSet(record)
        if refusal is None and clean_snapshot != current_snapshot:
            registry = StoredRegistry(snapshot=clean_snapshot, registered_at=ctx.clock.now())
            changes.put(ref, registry, expects=revision, action=JournalAction.OPERATOR)
        is_replacement = current_snapshot is not None and current_snapshot.fingerprint != fingerprint
        report = AgentToolRegistryUpsertReport(
            space=scope.space,
            registry_id=snapshot.registry_id,
            accepted=refusal is None,
            changed=bool(changes),
            refused=refusal,
            reason=_REASONS[refusal] if refusal is not None else "",
            fingerprint=fingerprint,
            replaced_fingerprint=current_snapshot.fingerprint
            if current_snapshot is not None and is_replacement and refusal is None
            else None,
            scrubbed=findings.counts,
        )
        return SettledChanges(report, changes)

    return await settle_report(ctx, scope.space, plan)


async def register_all(ctx: OperationContext, snapshots: Iterable[AgentToolRegistrySnapshot], /) -> None:
    """Register each snapshot in the runtime's own space. Raises InvalidInput for a rejected one."""
    for snapshot in snapshots:
        report = await upsert_agent_tool_registry(ctx, AgentToolRegistryUpsertRequest(snapshot=snapshot))
        if not report.accepted:
            name = f"agent_tool_registries, {snapshot.registry_id}"
            raise InvalidInput(field=name, problem=f"was refused: {report.reason}")


async def list_agent_tool_registries(
    ctx: OperationContext, request: AgentToolRegistryListRequest, /
) -> AgentToolRegistryListReport:
    """Return every registry of the space, by id, and the counts of known tools."""
    scope = ctx.scope_of(request)
    tools = await tools_of(ctx.store, scope.space)
    return AgentToolRegistryListReport(
        space=scope.space,
        registries=tuple(tools.registries.values()),
        report=count_tools(tools.registries, tools.experiences, forbidden=ctx.profile.is_esp),
    )


async def get_agent_tool_registry(
    ctx: OperationContext, request: AgentToolRegistryGetRequest, /
) -> AgentToolRegistryGetReport:
    """Return one registry. Raises NotFound."""
    scope = ctx.scope_of(request)
    record = await ctx.spaces.find(scope.space)
    if record is not None:
        ref = DocumentRef(REGISTRIES, record.registry_tag(request.registry_id))
        registry, _ = await value_at(ctx.store, scope.space, ref, StoredRegistry)
        if registry is not None:
            return AgentToolRegistryGetReport(
                space=scope.space, registry=registry.snapshot, registered_at=registry.registered_at
            )
    raise NotFound(what="agent tool registry", name=request.registry_id)


async def delete_agent_tool_registry(
    ctx: OperationContext, request: AgentToolRegistryDeleteRequest, /
) -> AgentToolRegistryDeleteReport:
    """Remove a registry; if there is none, nothing changes. Experiences stay but give no hints meanwhile."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[AgentToolRegistryDeleteReport]:
        ref = DocumentRef(REGISTRIES, record.registry_tag(request.registry_id))
        _, revision = await value_at(ctx.store, scope.space, ref, StoredRegistry)
        changes = ChangeSet(record)
        if revision:
            changes.delete(ref, expects=revision)
        report = AgentToolRegistryDeleteReport(
            space=scope.space, registry_id=request.registry_id, changed=bool(changes)
        )
        return SettledChanges(report, changes)

    return await settle_report(ctx, scope.space, plan)


async def _is_full(ctx: OperationContext, request: AgentToolRegistryUpsertRequest) -> bool:
    registries = await ctx.store.scan(ctx.scope_of(request).space, REGISTRIES, limit=limits.TOOL_REGISTRIES)
    return len(registries) == limits.TOOL_REGISTRIES
