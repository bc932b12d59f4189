"""Search over several scopes, merged into one order, with overrides and tombstones applied."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from elytron.context import OperationContext
from elytron_core.planes.servers.gateway import EditKind, MemoryOverride, UploadedResource
from elytron_gateway import names
from elytron_gateway.names import MemoryOwner
from elytron_gateway.overrides import EDIT_OF, EDIT_SESSION, RESOURCE_TAG, MemoryEdits, edit_tag
from elytron_gateway.quotas import SpaceCounting
from elytron_gateway.resources import OwnedResources
from elytron_gateway.upstream.port import EmbeddedUpstream, FoundMemory, SearchWhere, UpstreamMemory
from elytron_gateway.wire import GatewaySearchRequest, Scope, SearchAnswer, SearchResult

EXTRA = 16
"""Memories requested beyond `top_k`, so that hidden ones leave no hole."""


class MemorySearch:
    """Finds memories of one owner in the scopes that a request names."""

    def __init__(
        self,
        ctx: OperationContext,
        upstream: UpstreamMemory,
        embedded_upstream: EmbeddedUpstream,
        edits: MemoryEdits,
        resources: OwnedResources,
        /,
        *,
        counting: SpaceCounting,
    ) -> None:
        self._ctx = ctx
        self._upstream = upstream
        self._local = embedded_upstream
        self._edits = edits
        self._resources = resources
        self._counting = counting

    async def search(self, owner: MemoryOwner, request: GatewaySearchRequest, /) -> SearchAnswer:
        """Return the best `top_k` of all scopes; a memory found in several scopes is listed once, under the first."""
        merged: dict[str, SearchResult] = {}
        scope_searches = [self._in_scope(owner, request, scope) for scope in request.scopes]
        # Concurrently, so that a slow upstream takes no longer than for one scope.
        lists = await asyncio.gather(*scope_searches) if len(scope_searches) > 1 else [await scope_searches[0]]
        for scope_results in lists:
            for result in scope_results:
                merged.setdefault(result.id, result)
        results: Iterable[SearchResult] = merged.values()
        # Scores of a single list are already comparable.
        if sum(map(bool, lists)) > 1 and self._upstream is self._local:
            common_scores = await self._common_scores(owner, request, count=len(merged))
            results = [_at_common_score(result, common_scores) for result in results]
        ranked_results = sorted(results, key=lambda result: (-result.score, result.id))
        return SearchAnswer(results=tuple(ranked_results[: request.top_k]))

    async def _common_scores(
        self, owner: MemoryOwner, request: GatewaySearchRequest, *, count: int
    ) -> dict[str, float]:
        """Return the scores of one recall over all of the owner's memory, by id: only scores of one recall are
        comparable."""
        scored_results, _ = await self._best_results(
            owner, request, "all_user_memory", SearchWhere(), limit=count + EXTRA
        )
        return {result.id: result.score for result in scored_results}

    async def _in_scope(self, owner: MemoryOwner, request: GatewaySearchRequest, scope: Scope) -> list[SearchResult]:
        search_where = await self._where(owner, request, scope)
        if search_where is None:
            return []
        # The runtime here hides edited memories itself, so its results seldom have holes.
        if self._upstream is self._local:
            results, has_all = await self._best_results(owner, request, scope, search_where, limit=request.top_k)
            if has_all or len(results) >= request.top_k:
                return results
        results, _ = await self._best_results(owner, request, scope, search_where, limit=request.top_k + EXTRA)
        return results

    async def _best_results(
        self, owner: MemoryOwner, request: GatewaySearchRequest, scope: Scope, search_where: SearchWhere, *, limit: int
    ) -> tuple[list[SearchResult], bool]:
        """Return what is shown of the best `limit` memories, and whether there are no more than these."""
        memories = list(await self._upstream.search(owner, request.query, search_where, limit=limit))
        has_edits = (await self._counting.of(owner.space)).edits > 0
        # The text of an override is in a separate session, which a search of one chat excludes.
        if has_edits and (scope == "current_chat" or self._upstream is not self._local):
            edit_filter = edit_tag(search_where.session) if search_where.session is not None else search_where.tag
            texts = await self._local.search(owner, request.query, SearchWhere(tag=edit_filter), limit=limit)
            # Tags of sessions whose names differ only in case are equal.
            memories += [one for one in texts if search_where.session in {None, one.metadata.get(EDIT_SESSION)}]
        has_all = len(memories) < limit
        if has_edits and self._upstream is self._local:
            memories += await self._edits.beneath(owner, request.query, search_where, limit=limit)
        edits = await self._edits.of(owner, [_hit_target(item) for item in memories]) if has_edits else {}
        resources = await self._resources.extracted(owner, [_resource_of(item) for item in memories])
        results: dict[str, SearchResult] = {}
        for item in memories:
            visible_hit = _shown_hit(item, edits.get(_hit_target(item)))
            if visible_hit is None or not _is_live(visible_hit, resources, scope, owner):
                continue
            result = _search_result(visible_hit, scope, resources, owner, edit=edits.get(_hit_target(item)))
            if EDIT_OF in item.metadata:
                result = result.model_copy(update={"raw": await self._raw_beneath(owner, result.id, memories)})
            # An override is found by its own words and by those beneath it: it gets the better score.
            if result.id not in results or result.score > results[result.id].score:
                results[result.id] = result
        return list(results.values()), has_all

    async def _raw_beneath(self, owner: MemoryOwner, memory_id: str, memories: list[FoundMemory]) -> dict[str, Any]:
        """Return the upstream's answer for a memory with an override, if any."""
        original_memory = next((item for item in memories if item.id == memory_id), None)
        if original_memory is None and self._upstream is self._local:
            original_memory = await self._local.find_memory(owner, memory_id, score=0.0)
        return original_memory.raw if original_memory is not None else {}

    async def _where(self, owner: MemoryOwner, request: GatewaySearchRequest, scope: Scope) -> SearchWhere | None:
        """Return what to search; None if there is nothing."""
        match scope:
            case "current_chat":
                assert request.conversation_id
                return SearchWhere(session=names.chat_session(request.conversation_id))
            case "resources" if not (await self._counting.of(owner.space)).resources:
                return None
            case "resources" if self._upstream is self._local:
                # The tag is searched for, with any number of resources.
                return SearchWhere(tag=RESOURCE_TAG)
            case "resources":
                resource_ids = [one.resource_id for one in await self._resources.all(owner) if one.is_extracted]
                sessions = tuple(names.resource_session(owner.user, resource_id) for resource_id in resource_ids)
                return SearchWhere(tag=RESOURCE_TAG, sessions=sessions) if sessions else None
            case "all_user_memory":
                return SearchWhere()


def _at_common_score(result: SearchResult, common_scores: dict[str, float]) -> SearchResult:
    """Return the result with its score in the common recall; behind all of that recall if it is not among its best."""
    lowest_score = min(common_scores.values(), default=0.0)
    return result.model_copy(update={"score": common_scores.get(result.id, min(result.score, lowest_score))})


def _hit_target(item: FoundMemory) -> str:
    """Return the memory that a hit represents: another one, if the hit is an override's text."""
    target = item.metadata.get(EDIT_OF)
    return target if isinstance(target, str) else item.id


def _resource_of(item: FoundMemory) -> str:
    """Return the id of a memory's resource, empty if it has none."""
    session = item.metadata.get(EDIT_SESSION) or item.session
    text = session if isinstance(session, str) else ""
    return text.rpartition(":")[2] if text.startswith("resource:") else ""


def _shown_hit(item: FoundMemory, edit: MemoryOverride | None) -> FoundMemory | None:
    """Return what search shows for a memory: itself, its override, or nothing."""
    is_override = EDIT_OF in item.metadata
    if edit is None:
        # The text of an override that was undone or replaced may not be removed yet.
        return None if is_override else item
    match edit.kind:
        case EditKind.TOMBSTONE:
            return None
        case EditKind.OVERRIDE:
            if is_override and edit.told_by != item.id:
                return None
            session = item.metadata.get(EDIT_SESSION) if is_override else item.session
            return replace(item, id=edit.memory_id, text=edit.text, session=str(session or edit.session_id))


def _is_live(item: FoundMemory, resources: dict[str, UploadedResource], scope: Scope, owner: MemoryOwner) -> bool:
    """Return whether a memory's resource is extracted and not deleted; true for memories without one."""
    if item.session is None or not item.session.startswith("resource:"):
        return scope != "resources"
    return item.session.rpartition(":")[2] in resources and names.parse_session(item.session).user == owner.user


def _search_result(
    item: FoundMemory,
    scope: Scope,
    resources: dict[str, UploadedResource],
    owner: MemoryOwner,
    *,
    edit: MemoryOverride | None,
) -> SearchResult:
    resource_id = item.session.rpartition(":")[2] if item.session and item.session.startswith("resource:") else None
    resource = resources.get(resource_id) if resource_id is not None else None
    page, heading = item.metadata.get("page"), item.metadata.get("heading")
    return SearchResult(
        id=item.id,
        session_id=item.session,
        text=item.text,
        score=round(item.score, 6),
        source_scope=scope,
        resource_id=resource_id,
        resource_uri=names.resource_uri(owner.user, resource_id) if resource_id is not None else None,
        title=resource.title or None if resource is not None else None,
        page=page if isinstance(page, int) else None,
        heading=heading if isinstance(heading, str) else None,
        overridden=edit is not None,
        raw=item.raw,
    )
