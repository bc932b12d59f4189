"""The backlog of an unavailable upstream: additions are stored durably, and sent once and in order when it recovers.

Each waiting addition is a document of its owner's space. A mark in the gateway's space says that a space has a backlog,
and which server sends it: only one of the servers over a store holds the mark at a time.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from elytron.context import OperationContext
from elytron.state.change_lines import RACES
from elytron_adapter.system_documents import record_of
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, GatewayRefused, NotFound, SpaceIncomplete, SpaceLocked, Unreachable
from elytron_core.planes.servers.gateway import (
    BACKLOG,
    BEHIND,
    MessageItem,
    SpaceCounts,
    UpstreamLag,
    WaitingAddition,
    WaitingMessage,
)
from elytron_core.ports.store import DocumentRef
from elytron_gateway import collection
from elytron_gateway.collection import CollectionDocument, CollectionRepository, commit_changes
from elytron_gateway.names import MemoryOwner
from elytron_gateway.quotas import PlannedChange, SpaceCounting
from elytron_gateway.upstream.port import AddedMessages, FlushedSession, UpstreamItem, UpstreamMemory, UpstreamMessage
from elytron_gateway.users import SPACE

TELL_MESSAGES: Final = 500
"""Messages sent to an upstream at once."""
TELL_BYTES: Final = 1024 * 1024
"""Bytes of text of them; one message alone may have more."""
TELL_S: Final = 150.0
"""Time limit for sending one waiting addition upstream; the lease of a sender is longer."""
HOLD_MS: Final = 180_000


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainedAdditions:
    """Number of additions sent upstream, and whether no earlier one waits."""

    sent_count: int = 0
    is_clear: bool = True


class UpstreamBacklog:
    """Additions to an upstream, none of which is lost: one that it cannot take now is sent before later ones."""

    def __init__(self, ctx: OperationContext, upstream: UpstreamMemory, space_counting: SpaceCounting, /) -> None:
        self._ctx = ctx
        self._upstream = upstream
        self._counting = space_counting
        self._waiting = CollectionRepository(ctx, BACKLOG, WaitingAddition)
        self._behind = CollectionRepository(ctx, BEHIND, UpstreamLag)

    async def add(self, owner: MemoryOwner, session: str, messages: Sequence[UpstreamMessage], /) -> AddedMessages:
        """Send the messages upstream, or store them until it answers; the result says which. Raises GatewayRefused."""
        # Each message has a key before it is first sent: one that is sent again after a lost answer is the same.
        batches = list(_message_parts([replace(one, key=one.key or collection.new_key(self._ctx)) for one in messages]))
        try:
            if (await self.drain(owner)).is_clear:
                while batches:
                    # Removed only once it was sent, so that a failure keeps exactly the rest.
                    await self._upstream.add(owner, session, batches[0])
                    batches.pop(0)
                return AddedMessages()
        except Unreachable as error:
            logger.info("messages are queued for the upstream: %s", error.message)
        await self._keep(owner, session, batches)
        return AddedMessages(is_queued=True)

    async def flush(self, owner: MemoryOwner, session: str, /) -> FlushedSession:
        """Let the upstream extract from everything added. Raises Unreachable, also while additions are being sent."""
        if not (await self.drain(owner)).is_clear:
            raise Unreachable("earlier additions are being sent to the upstream: flush again")
        return await self._upstream.flush(owner, session)

    async def drain(self, owner: MemoryOwner, /) -> DrainedAdditions:
        """Send the upstream what it has missed, oldest first, unless another server is doing so. Raises Unreachable.

        What it permanently rejects is set aside, so that it delays nothing else.
        """
        sent_count = 0
        waiting_count, count_before = (await self._counting.of(owner.space)).waiting, 0
        # Without progress it ends: another server may have taken over.
        while waiting_count and waiting_count != count_before:
            lag = await self._hold(owner)
            if lag is None:
                return DrainedAdditions(sent_count, is_clear=False)
            try:
                sent_count += await self._tell_all(owner, lag)
            finally:
                await self._let_go(owner, lag.value.holder)
            waiting_count, count_before = (await self._counting.of(owner.space)).waiting, waiting_count
        return DrainedAdditions(sent_count, is_clear=not waiting_count)

    async def drain_all(self) -> int:
        """Send the upstream all users' waiting additions; return how many. Raises Unreachable."""
        sent_count = 0
        async for owner in self._owners():
            async with self._opened(owner):
                sent_count += (await self.drain(owner)).sent_count
                # A mark whose space has caught up meanwhile is removed too.
                await self._let_go(owner, "")
        return sent_count

    async def try_again(self) -> None:
        """Queue again what the upstream rejected."""
        async for owner in self._owners():
            async with self._opened(owner):
                await self._counting.change(owner.space, partial(self._waiting_again, owner))

    async def count(self) -> int:
        """Return how many additions of all users wait or were refused."""
        count = 0
        async for owner in self._owners():
            async with self._opened(owner):
                counts = await self._counting.of(owner.space)
                count += counts.waiting + counts.refused
        return count

    @asynccontextmanager
    async def _opened(self, owner: MemoryOwner) -> AsyncGenerator[None]:
        """Run the block in the owner's space; one that its user has locked waits, without delaying others."""
        with suppress(SpaceLocked, SpaceIncomplete):
            async with self._ctx.secrets.background(owner.space):
                yield

    async def _owners(self) -> AsyncIterator[MemoryOwner]:
        async for document in self._behind.all(SPACE):
            yield MemoryOwner(document.value.user, document.value.app, document.value.project)

    async def mark_of(self, owner: MemoryOwner, /) -> DocumentRef:
        """Return the reference of the mark that an owner's space is behind."""
        return DocumentRef(BEHIND, await self._place(owner))

    async def _keep(self, owner: MemoryOwner, session: str, parts: Sequence[Sequence[UpstreamMessage]]) -> None:
        await record_of(self._ctx, owner.space)
        # Marked before, so that it is not overlooked, and afterwards, in case it was just found clear.
        await self._mark(owner)
        queued_at = self._ctx.clock.now()
        addition_puts = [
            self._waiting.put(
                collection.new_key(self._ctx), _waiting_addition(owner, session, part, queued_at), expects=0
            )
            for part in parts
        ]

        async def plan(counts: SpaceCounts) -> PlannedChange[None]:
            return PlannedChange(
                None, counts.model_copy(update={"waiting": counts.waiting + len(addition_puts)}), tuple(addition_puts)
            )

        await self._counting.change(owner.space, plan)
        await self._mark(owner)

    async def _tell_all(self, owner: MemoryOwner, lag: CollectionDocument[UpstreamLag]) -> int:
        sent_count = 0
        async for addition in self._waiting.all(owner.space):
            if addition.value.problem:
                continue
            # Read again before each addition, because another server may take an expired mark.
            if not await self._still_held(owner, lag.value.holder):
                return sent_count
            try:
                await self._tell(addition.value)
            except GatewayRefused as error:
                logger.warning("the upstream refused a queued addition: %s", error.message)
                await self._settle(owner, addition, problem=error.message[: limits.REASON_CHARS])
                continue
            # Only once it was sent: after a crash it is resent, under the same keys.
            await self._settle(owner, addition)
            sent_count += 1
        return sent_count

    async def _tell(self, value: WaitingAddition) -> None:
        owner = MemoryOwner(value.user, value.app, value.project)
        messages = [
            UpstreamMessage(one.message, await self._items(owner, one.items), one.key, one.tags, one.metadata)
            for one in value.messages
        ]
        try:
            async with asyncio.timeout(TELL_S):
                await self._upstream.add(owner, value.session_id, messages)
        except TimeoutError:
            raise Unreachable("the upstream takes too long to accept an addition") from None

    async def _items(self, owner: MemoryOwner, items: Sequence[MessageItem]) -> tuple[UpstreamItem, ...]:
        """Return a message's items; none if a file of it is gone, so that only its text is sent."""
        try:
            return tuple(
                [
                    UpstreamItem(
                        item,
                        await collection.read_blob(self._ctx, owner.space, item.attachment) if item.attachment else b"",
                    )
                    for item in items
                ]
            )
        except NotFound:
            return ()

    async def _settle(
        self, owner: MemoryOwner, addition: CollectionDocument[WaitingAddition], *, problem: str = ""
    ) -> None:
        """Remove a sent addition, or set it aside for its `problem`."""

        async def plan(counts: SpaceCounts) -> PlannedChange[None]:
            document = await self._waiting.get(owner.space, addition.key)
            # Another server may have settled it since.
            if document is None or document.value.problem:
                return PlannedChange(None, counts)
            new_counts = {"waiting": counts.waiting - 1, "refused": counts.refused + bool(problem)}
            set_aside_addition = document.value.model_copy(update={"problem": problem})
            change = (
                self._waiting.put(document.key, set_aside_addition, expects=document.revision)
                if problem
                else self._waiting.remove(document)
            )
            return PlannedChange(None, counts.model_copy(update=new_counts), (change,))

        await self._counting.change(owner.space, plan)

    async def _waiting_again(self, owner: MemoryOwner, counts: SpaceCounts) -> PlannedChange[None]:
        """Return the changes that queue set-aside additions again, as many as fit in a batch."""
        if not counts.refused:
            return PlannedChange(None, counts)
        set_aside_additions = [addition async for addition in self._waiting.all(owner.space) if addition.value.problem]
        set_aside_additions = set_aside_additions[: limits.BATCH_CHANGES // 2]
        new_counts = {
            "waiting": counts.waiting + len(set_aside_additions),
            "refused": counts.refused - len(set_aside_additions),
        }
        addition_puts = [
            self._waiting.put(
                addition.key, addition.value.model_copy(update={"problem": ""}), expects=addition.revision
            )
            for addition in set_aside_additions
        ]
        return PlannedChange(None, counts.model_copy(update=new_counts), tuple(addition_puts))

    async def _mark(self, owner: MemoryOwner) -> None:
        """Mark the owner's space as behind, unless it is marked."""
        upstream_lag = UpstreamLag(user=owner.user, app=owner.app, project=owner.project)
        key = await self._place(owner)
        if await self._behind.get(SPACE, key) is None:
            try:
                await commit_changes(self._ctx, SPACE, self._behind.put(key, upstream_lag, expects=0))
            except Conflict:
                return

    async def _hold(self, owner: MemoryOwner) -> CollectionDocument[UpstreamLag] | None:
        """Take the mark of a space for a while; None if another server has it."""
        await self._mark(owner)
        lag_document = await self._behind.get(SPACE, await self._place(owner))
        now = self._ctx.clock.now()
        if lag_document is None or (lag_document.value.holder and lag_document.value.held_until > now):
            return None
        return await self._put(lag_document, holder=self._ctx.ids.new(), until=Instant(now + HOLD_MS))

    async def _still_held(self, owner: MemoryOwner, holder: str) -> bool:
        """Return whether the mark is still held long enough to send one addition; extend it if necessary."""
        lag_document = await self._behind.get(SPACE, await self._place(owner))
        if lag_document is None or lag_document.value.holder != holder:
            return False
        now = self._ctx.clock.now()
        if lag_document.value.held_until - now > TELL_S * 1_000:
            return True
        return await self._put(lag_document, holder=holder, until=Instant(now + HOLD_MS)) is not None

    async def _put(
        self, lag: CollectionDocument[UpstreamLag], *, holder: str, until: Instant
    ) -> CollectionDocument[UpstreamLag] | None:
        held_lag = lag.value.model_copy(update={"holder": holder, "held_until": until})
        try:
            await commit_changes(self._ctx, SPACE, self._behind.put(lag.key, held_lag, expects=lag.revision))
        except Conflict:
            return None
        return CollectionDocument(lag.key, held_lag, lag.revision + 1)

    async def _let_go(self, owner: MemoryOwner, holder: str) -> None:
        """Release the mark; remove it if nothing waits."""
        for _ in range(RACES):
            lag_document = await self._behind.get(SPACE, await self._place(owner))
            if lag_document is None or lag_document.value.holder != holder:
                return
            counts = await self._counting.of(owner.space)
            if not counts.waiting and not counts.refused:
                try:
                    await commit_changes(self._ctx, SPACE, self._behind.remove(lag_document))
                except Conflict:
                    continue
                return
            if not holder or await self._put(lag_document, holder="", until=Instant(0)) is not None:
                return

    async def _place(self, owner: MemoryOwner) -> str:
        return (await record_of(self._ctx, SPACE)).tag("gateway behind", owner.space)


def _message_parts(messages: Sequence[UpstreamMessage], /) -> Iterator[list[UpstreamMessage]]:
    """Yield the messages in parts that an upstream, and a document, can take at once."""
    part_messages: list[UpstreamMessage] = []
    part_bytes = 0
    for message in messages:
        length = len(message.message.text.encode()) + sum(len(item.data) for item in message.items)
        # A message beyond the limit is a part by itself.
        if part_messages and (len(part_messages) == TELL_MESSAGES or part_bytes + length > TELL_BYTES):
            yield part_messages
            part_messages, part_bytes = [], 0
        part_messages.append(message)
        part_bytes += length
    if part_messages:
        yield part_messages


def _waiting_addition(
    owner: MemoryOwner, session: str, messages: Sequence[UpstreamMessage], at: Instant
) -> WaitingAddition:
    return WaitingAddition(
        user=owner.user,
        app=owner.app,
        project=owner.project,
        session_id=session,
        messages=tuple(
            WaitingMessage(
                message=message.message,
                items=tuple(item.item for item in message.items),
                key=message.key,
                tags=message.tags,
                metadata=message.metadata,
            )
            for message in messages
        ),
        at=at,
    )
