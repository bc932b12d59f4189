"""The Memory Gateway: one method per request of its API, for every transport."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Self

from elytron.jobs.background import BackgroundTask
from elytron.runtime import MemoryRuntime
from elytron_adapter.access_keys import AccessKeys
from elytron_adapter.system_documents import record_of
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.errors import ElytronError, InvalidInput, NotFound
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.gateway import (
    GatewayUser,
    MemoryOverride,
    MessageAttachment,
    QuotaQuantity,
    UploadedResource,
)
from elytron_core.policy.admission.claimed_times import claimed_times, future_claims
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import Scope
from elytron_gateway import limits as gateway_limits
from elytron_gateway import messages, names, wire
from elytron_gateway.extraction.child_process import FileExtraction
from elytron_gateway.messages import MessageUpload
from elytron_gateway.names import MemoryOwner
from elytron_gateway.overrides import RESOURCE_TAG, MemoryEdits
from elytron_gateway.quotas import SpaceCounting, UserQuotas
from elytron_gateway.resources import AllowedSources, OwnedResources, UploadedFile, read_source
from elytron_gateway.search import MemorySearch
from elytron_gateway.sessions import OwnerSessions
from elytron_gateway.upstream.backlog import UpstreamBacklog
from elytron_gateway.upstream.port import EmbeddedUpstream, UpstreamMemory
from elytron_gateway.users import SPACE, ErasedUser, GatewayUsers, SignedReport, sign_report

CATCH_UP_S: Final = 30.0
"""Interval between two searches for additions that an upstream has not received."""


UNKNOWN = "unknown"
"""The memory of an attachment, if the upstream returns none."""


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """One user's quota; None is no bound."""

    messages: int | None = None
    resource_bytes: int | None = None

    def most(self) -> dict[QuotaQuantity, int]:
        """Return the limits that are set."""
        most_by_quantity = {QuotaQuantity.MESSAGES: self.messages, QuotaQuantity.RESOURCE_BYTES: self.resource_bytes}
        return {quantity: most for quantity, most in most_by_quantity.items() if most is not None}


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """Settings of a gateway. Users' keys are derived from `secret`, else from the runtime's secret."""

    secret: bytes | None = None
    allowed: AllowedSources = field(default_factory=AllowedSources)
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    resource_bytes: int = gateway_limits.RESOURCE_BYTES
    resource_types: frozenset[str] = frozenset()
    """The media types of accepted files; by default, all that can be read here or by the upstream."""


class MemoryGateway:
    """Users, memories, resources and searches over one runtime, which its opener closes.

    Every request but `create_user` and `health` proves its user by `user_id` and `user_key` and raises Unauthorized,
    alike for every reason. Memories are stored in the embedded runtime, or in `upstream` if one is given.
    """

    def __init__(
        self,
        runtime: MemoryRuntime,
        /,
        *,
        upstream: UpstreamMemory | None = None,
        options: GatewayOptions | None = None,
    ) -> None:
        self._runtime = runtime
        self._options = options or GatewayOptions()
        ctx = runtime.context
        local = EmbeddedUpstream(runtime)
        self._counting = SpaceCounting(ctx)
        self._upstream: UpstreamMemory = upstream or local
        self._backlog = UpstreamBacklog(ctx, upstream, self._counting) if upstream is not None else None
        self._extraction = FileExtraction()
        self._sessions = OwnerSessions(ctx, self._counting)
        self._edits = MemoryEdits(ctx, self._upstream, local, self._sessions, self._counting)
        self._resources = OwnedResources(
            ctx,
            self._upstream,
            local,
            self._sessions,
            self._edits,
            counting=self._counting,
            extraction=self._extraction,
            max_bytes=self._options.resource_bytes,
            types=self._options.resource_types,
        )
        self._searching = MemorySearch(
            ctx, self._upstream, local, self._edits, self._resources, counting=self._counting
        )
        self.users = GatewayUsers(ctx, secret=self._options.secret)
        self._quotas = UserQuotas(self.users, self._counting, self._options.quota.most())
        self.proven: GatewayUser | None = None
        """The only account whose requests count as authenticated."""

    def of(self, user: GatewayUser, /) -> Self:
        """Return this gateway for a user whose key was just verified, so that it is not verified again."""
        gateway = copy(self)
        gateway.proven = user
        return gateway

    async def health(self) -> wire.HealthAnswer:
        """Return whether the gateway and its upstream answer; needs no credentials."""
        is_healthy = await self._upstream.healthy()
        waiting_count = await self._backlog.count() if self._backlog is not None else 0
        return wire.HealthAnswer(
            status="ok" if is_healthy and not waiting_count else "degraded",
            upstream="embedded" if self._backlog is None else "remote",
            backlog=waiting_count,
        )

    async def drain(self) -> wire.DrainAnswer:
        """Send the upstream what it missed or rejected, without waiting for the next retry. Raises Unreachable."""
        if self._backlog is None:
            return wire.DrainAnswer(told=0, backlog=0)
        await self._upstream.resume()
        await self._backlog.try_again()
        sent_count = await self._backlog.drain_all()
        return wire.DrainAnswer(told=sent_count, backlog=await self._backlog.count())

    async def catch_up(self) -> int:
        """Send waiting additions to an upstream that is available again; return their number. Raises Unreachable."""
        return await self._backlog.drain_all() if self._backlog is not None else 0

    async def create_user(self, request: wire.UserRequest, /) -> wire.UserAnswer:
        """Create a user, or return an existing one's key, if the caller may. Raises AlreadyExists if it cannot be
        derived."""
        user, key = await self.users.create(request.user_id)
        return wire.UserAnswer(user_id=user.user_id, user_key=key)

    async def add(
        self,
        request: wire.GatewayAddRequest,
        /,
        *,
        uploads: Mapping[str, MessageUpload] | None = None,
        idempotency_key: str | None = None,
    ) -> wire.AddAnswer:
        """Add messages to a session, with their files; with a key, once, however often they are sent.

        Raises PermissionRefused, LimitExceeded, and TurnConflict for a key that was used with other messages.
        """
        owner = await self._owner(request, is_writing=True)
        tags = await self._tags(owner, names.owned_session(request.session_id, owner))
        if self._backlog is not None:
            messages.require_call_ids(request.messages)
        parsed = await messages.parse_messages(
            request.messages,
            uploads=uploads or {},
            allowed=self._options.allowed,
            extraction=self._extraction,
            key=idempotency_key,
        )
        check_room = self._quotas.room(owner, QuotaQuantity.MESSAGES)
        await self._sessions.grow(owner, request.session_id, messages=len(parsed), room=check_room, key=idempotency_key)
        session, ctx = request.session_id, self._runtime.context
        parsed = [messages.mark_message(one, tags=tags, is_outside=request.external_content_used) for one in parsed]
        upstream_messages = [one.message for one in parsed]
        copies: list[list[tuple[str, MessageAttachment]]] = []
        async with AsyncExitStack() as failures:
            # Counted before, so that no quota is exceeded; with a key, a repeat has the same count.
            if idempotency_key is None:
                failures.push_async_callback(self._sessions.shrink, owner, session, messages=len(parsed))
            if self._backlog is not None:
                # Stored before, too: additions that wait for an upstream find their files there.
                copies = [await messages.keep_files(ctx, owner, session, one, UNKNOWN) for one in parsed]
                upstream_messages = [messages.with_items(one, files) for one, files in zip(parsed, copies, strict=True)]
                if idempotency_key is None:
                    failures.push_async_callback(messages.drop_files, ctx, owner, [*chain.from_iterable(copies)])
            outcome = await (self._backlog or self._upstream).add(owner, session, upstream_messages)
            # Added: the count and the files stay from here on.
            failures.pop_all()
        attachments: list[wire.AttachmentAnswer] = []
        for number, one in enumerate(parsed):
            memory_id = outcome.ids[number] if number < len(outcome.ids) else UNKNOWN
            attached = copies[number] if copies else await messages.keep_files(ctx, owner, session, one, memory_id)
            attachments += [_attachment_answer(attachment_id, record) for attachment_id, record in attached]
        return wire.AddAnswer(
            session_id=request.session_id,
            message_count=len(parsed),
            status="queued" if outcome.is_queued else "accumulated",
            attachments=tuple(attachments),
            future_claims=future_claims(claimed_times(request), now=ctx.clock.now()),
        )

    async def flush(self, request: wire.FlushRequest, /) -> wire.FlushAnswer:
        """Pass the new messages of a session to extraction; a second call finds nothing new. Raises
        PermissionRefused."""
        owner = await self._owner(request, is_writing=True)
        await self._sessions.require(owner, request.session_id)
        session = await self._sessions.find(owner, request.session_id)
        if session is None:
            return wire.FlushAnswer(session_id=request.session_id, status="no_extraction")
        outcome = await (self._backlog or self._upstream).flush(owner, request.session_id)
        # Recorded afterwards, so that the next flush repeats one that an upstream could not do.
        await self._sessions.flushed(owner, request.session_id, through=session.messages)
        is_fresh = outcome.extracted if outcome.extracted is not None else session.flushed < session.messages
        # Of several concurrent flushes, one may record the turns whose facts another extracted.
        status = "extracted" if is_fresh or outcome.memories else "no_extraction"
        return wire.FlushAnswer(session_id=request.session_id, status=status, memories=outcome.memories)

    async def search(self, request: wire.GatewaySearchRequest, /) -> wire.SearchAnswer:
        """Find memories in the requested scopes, edits applied, best first."""
        return await self._searching.search(await self._owner(request), request)

    async def override(self, request: wire.OverrideRequest, /) -> wire.EditAnswer:
        """Override the text that search shows for a memory. Raises PermissionRefused, NotFound."""
        owner = await self._owner(request, is_writing=True)
        names.owned_session(request.session_id, owner)
        edit = await self._edits.override(owner, request.memory_id, request.session_id, request.text)
        return _edit_answer(edit)

    async def delete(self, request: wire.DeleteRequest, /) -> wire.EditAnswer:
        """Hide a memory from search, or permanently erase it. Raises PermissionRefused, NotFound."""
        owner = await self._owner(request, is_writing=True)
        names.owned_session(request.session_id, owner)
        if not request.purge:
            return _edit_answer(
                await self._edits.add_tombstone(owner, request.memory_id, request.session_id, request.reason or "")
            )
        if await self._edits.purge(owner, request.memory_id, request.session_id):
            await self._sessions.shrink(owner, request.session_id, messages=1)
        return wire.EditAnswer(memory_id=request.memory_id, session_id=request.session_id, kind=None, purged=True)

    async def edits(self, request: wire.PlacedRequest, /) -> wire.EditsAnswer:
        """List the overrides and tombstones of an app and project."""
        owner = await self._owner(request)
        return wire.EditsAnswer(edits=tuple(_edit_answer(edit) for edit in await self._edits.all(owner)))

    async def undo(self, request: wire.EditRequest, /) -> wire.EditAnswer:
        """Undo the edit of a memory. Raises PermissionRefused, NotFound."""
        owner = await self._owner(request, is_writing=True)
        names.owned_session(request.session_id, owner)
        return _edit_answer(await self._edits.undo(owner, request.memory_id, request.session_id))

    async def upload(self, request: wire.PlacedRequest, file: UploadedFile, /) -> wire.ResourceAnswer:
        """Store a file. Raises PayloadTooLarge, UnsupportedMedia, LimitExceeded."""
        owner = await self._owner(request, is_writing=True)
        return _resource_answer(
            owner, await self._resources.take(owner, file, room=self._quotas.room(owner, QuotaQuantity.RESOURCE_BYTES))
        )

    async def register(self, request: wire.ExternalRequest, /) -> wire.ResourceAnswer:
        """Store the content at an address that the operator allows. Raises PermissionRefused, Unreachable."""
        owner = await self._owner(request, is_writing=True)
        source = await read_source(request.uri, self._options.allowed, max_bytes=self._resources.max_bytes)
        file = UploadedFile(
            source.data,
            file_name=source.file_name,
            declared=source.declared,
            title=request.title,
            description=request.description,
            source=source.source,
        )
        return _resource_answer(
            owner, await self._resources.take(owner, file, room=self._quotas.room(owner, QuotaQuantity.RESOURCE_BYTES))
        )

    async def resources(self, request: wire.PlacedRequest, /) -> wire.ResourcesAnswer:
        """List the resources of an app and project."""
        owner = await self._owner(request)
        resources = await self._resources.all(owner)
        return wire.ResourcesAnswer(resources=tuple(_resource_answer(owner, one) for one in resources))

    async def resource(self, request: wire.PlacedRequest, resource_id: str, /) -> wire.ResourcesAnswer:
        """Return one resource, or none if it is missing or another user's."""
        owner = await self._owner(request)
        record = await self._resources.find(owner, resource_id)
        return wire.ResourcesAnswer(resources=(_resource_answer(owner, record),) if record is not None else ())

    async def retry_resource(self, request: wire.PlacedRequest, resource_id: str, /) -> wire.ResourceAnswer:
        """Read a resource's bytes again, if its text could not be extracted. Raises NotFound."""
        owner = await self._owner(request, is_writing=True)
        return _resource_answer(owner, await self._resources.retry(owner, resource_id))

    async def delete_resource(self, request: wire.PlacedRequest, resource_id: str, /) -> wire.DeletedAnswer:
        """Permanently remove a resource. Raises NotFound."""
        owner = await self._owner(request, is_writing=True)
        await self._resources.delete(owner, resource_id)
        return wire.DeletedAnswer(resource_id=resource_id)

    async def usage(self, user_id: str, /) -> wire.UsageAnswer:
        """Return a user's usage. For operators. Raises NotFound."""
        return await self._usage(await self.users.find(user_id))

    async def erase_user(self, user_id: str, /) -> SignedReport:
        """Erase a user with all of the user's spaces and keys; return a signed report. For operators. Raises NotFound.

        The keys end first, so that nothing is written while spaces are erased. Access keys for these spaces end too.
        """
        await self.users.revoke(user_id)
        user = await self.users.find(user_id)
        # Other transports write to the user's own space, which may not be among them.
        spaces = sorted({*user.spaces, user_id})
        access_keys = await AccessKeys(self._runtime.context).refs_of(spaces)
        removals: dict[str, dict[str, int]] = {}
        for space in spaces:
            result = await self._runtime.erase(MemoryEraseRequest(scope=Scope(space=SpaceId(space)), whole_space=space))
            if result.changed:
                removals[space] = result.removed
        await self.users.erase(user_id, *access_keys, *await self._marks(user))
        report = ErasedUser(user_id=user_id, at=self._runtime.context.clock.now(), removed=removals)
        return sign_report(report, await self._signing_secret())

    async def _marks(self, user: GatewayUser) -> list[DocumentRef]:
        if self._backlog is None:
            return []
        owners = [MemoryOwner(user.user_id, *(space.split("/")[1:] or ())) for space in user.spaces]
        return [await self._backlog.mark_of(owner) for owner in owners]

    async def _tags(self, owner: MemoryOwner, name: names.SessionName) -> tuple[str, ...]:
        """Return the tags of a session's messages. Raises NotFound for a missing resource."""
        if name.kind is not names.SessionKind.RESOURCE:
            return ()
        resource = await self._resources.find(owner, name.name)
        if resource is None:
            raise NotFound(what="resource", name=name.name)
        if not resource.is_extracted:
            raise InvalidInput(field="session_id", problem="names a resource that could not be read: retry it first")
        return (RESOURCE_TAG,)

    async def _signing_secret(self) -> bytes | None:
        context = self._runtime.context
        return self._options.secret or context.credential_key.find(await record_of(context, SPACE))

    async def _user(self, request: wire.PlacedRequest) -> GatewayUser:
        if self.proven is not None and self.proven.user_id == request.user_id:
            return self.proven
        return await self.users.authenticate(request.user_id, request.user_key)

    async def _owner(self, request: wire.PlacedRequest, *, is_writing: bool = False) -> MemoryOwner:
        """Return whose memory a request is about; for a write, the place is recorded."""
        user = await self._user(request)
        owner = MemoryOwner(user.user_id, request.app_id, request.project_id)
        if is_writing:
            await self.users.enters(user, owner.space)
        if is_writing or owner.space in user.spaces:
            await self._runtime.secrets.enter(SpaceId(owner.user), owner.space)
        return owner

    async def _usage(self, user: GatewayUser) -> wire.UsageAnswer:
        space_counts = [await self._counting.of(SpaceId(space)) for space in user.spaces]
        return wire.UsageAnswer(
            user_id=user.user_id,
            spaces=len(user.spaces),
            space_names=tuple(sorted({*user.spaces, user.user_id})),
            messages=sum(counts.messages for counts in space_counts),
            resources=sum(counts.resources for counts in space_counts),
            resource_bytes=sum(counts.resource_bytes for counts in space_counts),
            revoked=user.revoked_at is not None,
        )


def _attachment_answer(attachment_id: str, record: MessageAttachment) -> wire.AttachmentAnswer:
    return wire.AttachmentAnswer(
        attachment_id=attachment_id,
        memory_id=record.memory_id,
        upload_id=record.upload_id,
        type=record.kind,
        name=record.name,
        size=record.size,
    )


def _edit_answer(edit: MemoryOverride) -> wire.EditAnswer:
    return wire.EditAnswer(
        memory_id=edit.memory_id,
        session_id=edit.session_id,
        kind=edit.kind,
        text=edit.text,
        reason=edit.reason,
        updated_at=edit.at,
    )


def _resource_answer(owner: MemoryOwner, resource: UploadedResource) -> wire.ResourceAnswer:
    return wire.ResourceAnswer(
        session_id=names.resource_session(owner.user, resource.resource_id),
        uri=names.resource_uri(owner.user, resource.resource_id),
        **resource.model_dump(exclude={"twin"}),
    )


sync_logger = logging.getLogger(__name__)


class UpstreamCatchUp:
    """A task that repeatedly checks whether additions wait, from `start` to `stop`."""

    def __init__(self, gateway: MemoryGateway, /, *, pause_s: float = CATCH_UP_S) -> None:
        self._gateway = gateway
        self._pause_s = pause_s
        self._background = BackgroundTask(self._work, name="elytron-gateway-catching-up")

    def start(self) -> None:
        """Start checking."""
        self._background.start()

    async def stop(self) -> None:
        """Stop; an addition that is being sent is sent again later, under the same key."""
        await self._background.stop()

    async def _work(self) -> None:
        while True:
            try:
                if sent_count := await self._gateway.catch_up():
                    sync_logger.info("the upstream received %d queued additions", sent_count)
            except ElytronError as error:
                # It is checked again after a while; waiting additions stay stored.
                sync_logger.info("queued additions cannot be sent to the upstream: %s", error.key)
            await asyncio.sleep(self._pause_s)
