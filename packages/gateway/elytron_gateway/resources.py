"""Resources: files and documents that a user uploaded, with text that is searchable by chunk."""

import asyncio
import ipaddress
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from elytron.context import OperationContext
from elytron.state.change_lines import retry_lost_races
from elytron_adapter.system_documents import record_of
from elytron_core import limits
from elytron_core.errors import (
    Conflict,
    GatewayRefused,
    InvalidInput,
    LimitExceeded,
    MissingExtra,
    NotFound,
    PayloadTooLarge,
    PermissionRefused,
    Unreachable,
)
from elytron_core.evidence import EvidenceAuthority
from elytron_core.planes.servers.gateway import (
    RESOURCES,
    TWINS,
    ContentDuplicate,
    MessageItem,
    ResourceStatus,
    SpaceCounts,
    UploadedResource,
)
from elytron_core.planes.transcript import Message, Metadata
from elytron_gateway import collection, names
from elytron_gateway import limits as gateway_limits
from elytron_gateway.collection import CollectionDocument, CollectionRepository, commit_changes
from elytron_gateway.extraction.child_process import FileChunk, FileExtraction, UnreadableUpload
from elytron_gateway.extraction.file_text import MEDIA, media_type, readable_types
from elytron_gateway.names import MemoryOwner
from elytron_gateway.overrides import RESOURCE_TAG, MemoryEdits
from elytron_gateway.quotas import PlannedChange, Room, SpaceCounting
from elytron_gateway.sessions import OwnerSessions
from elytron_gateway.upstream.port import EmbeddedUpstream, UpstreamItem, UpstreamMemory, UpstreamMessage
from elytron_outbound.addresses import JudgedAddress, judged_address
from elytron_outbound.clients import ClientSettings, http_client

if TYPE_CHECKING:
    import httpx

MAX_RESOURCES: Final = 10_000
"""Resources of one space."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """An uploaded file: its bytes, and what the caller declares about them."""

    data: bytes
    file_name: str = ""
    declared: str = ""
    title: str = ""
    description: str = ""
    source: str = ""


class OwnedResources:
    """The resources of every owner. Equal content within one app and project is stored once."""

    def __init__(
        self,
        ctx: OperationContext,
        upstream: UpstreamMemory,
        embedded_upstream: EmbeddedUpstream,
        sessions: OwnerSessions,
        edits: MemoryEdits,
        /,
        *,
        counting: SpaceCounting,
        extraction: FileExtraction,
        max_bytes: int = gateway_limits.RESOURCE_BYTES,
        types: frozenset[str] = frozenset(),
    ) -> None:
        self._ctx = ctx
        self._upstream = upstream
        self._local = embedded_upstream
        self._sessions = sessions
        self._edits = edits
        self._counting = counting
        self._extraction = extraction
        self._repository = CollectionRepository(ctx, RESOURCES, UploadedResource)
        self._twins = CollectionRepository(ctx, TWINS, ContentDuplicate)
        self.max_bytes = max_bytes
        readable_media_types = readable_types(reads_media=upstream.reads_media)
        self._types = types & readable_media_types if types else readable_media_types

    async def take(self, owner: MemoryOwner, file: UploadedFile, /, *, room: Room) -> UploadedResource:
        """Store a file and make its text searchable; equal content returns the existing resource.

        An unreadable file is stored with status failed and the reason; another upload retries. Raises PayloadTooLarge,
        UnsupportedMedia, LimitExceeded, or what `room` raises, before anything is stored.
        """
        if len(file.data) > self.max_bytes:
            raise PayloadTooLarge(limit=self.max_bytes, what="the file", way_out="split it")
        file_media_type = media_type(file.data, name=file.file_name, declared=file.declared, allowed=self._types)
        document = await self._register(owner, file, file_media_type, room)
        if document.value.is_extracted:
            return document.value
        return await self._ingest(owner, document, file.data)

    async def retry(self, owner: MemoryOwner, resource_id: str, /) -> UploadedResource:
        """Read a resource's bytes again and make their text searchable. Raises NotFound."""
        document = await self._require(owner, resource_id)
        return await self._ingest(owner, document, await collection.read_blob(self._ctx, owner.space, document.key))

    async def all(self, owner: MemoryOwner, /) -> list[UploadedResource]:
        """Return the owner's resources, oldest first."""
        if await self._ctx.spaces.find(owner.space) is None:
            return []
        resources = [document.value async for document in self._repository.all(owner.space)]
        return sorted(resources, key=lambda resource: (resource.created_at, resource.resource_id))

    async def extracted(self, owner: MemoryOwner, resource_ids: Sequence[str], /) -> dict[str, UploadedResource]:
        """Return those of `resource_ids` that belong to the owner and have searchable text, by id."""
        keys = [resource_id.removeprefix("r_") for resource_id in resource_ids if names.is_resource_id(resource_id)]
        if not keys or await self._ctx.spaces.find(owner.space) is None:
            return {}
        resources = await self._repository.among(owner.space, keys)
        return {resource.resource_id: resource for resource in resources.values() if resource.is_extracted}

    async def find(self, owner: MemoryOwner, resource_id: str, /) -> UploadedResource | None:
        """Return a resource, or None if it is missing or another user's."""
        document = await self._read_resource(owner, resource_id)
        return document.value if document is not None else None

    async def delete(self, owner: MemoryOwner, resource_id: str, /) -> None:
        """Permanently remove a resource with its text and bytes. Raises NotFound."""
        # Search excludes the text from here on, even if the rest is interrupted.
        key = await self._pend(owner, resource_id)
        await self._clear(owner, resource_id)
        await collection.remove_blobs(self._ctx, owner.space, key)
        await self._remove(owner, key)
        await self._sessions.shrink(owner, names.resource_session(owner.user, resource_id), messages=None)

    @retry_lost_races
    async def _pend(self, owner: MemoryOwner, resource_id: str) -> str:
        """Hide a resource's text, and return its key. Raises NotFound."""
        resource = await self._require(owner, resource_id)
        now = self._ctx.clock.now()
        pending_resource = resource.value.model_copy(update={"status": ResourceStatus.PENDING, "updated_at": now})
        await commit_changes(
            self._ctx, owner.space, self._repository.put(resource.key, pending_resource, expects=resource.revision)
        )
        return resource.key

    async def _register(
        self, owner: MemoryOwner, file: UploadedFile, mime: str, room: Room
    ) -> CollectionDocument[UploadedResource]:
        """Return the record of a content, created if there is none."""
        content_tag = await self._duplicate_place(owner, file.data)
        new_document = self._new(file, mime, content_tag)

        async def plan(counts: SpaceCounts) -> PlannedChange[CollectionDocument[UploadedResource]]:
            twin_document = await self._twins.get(owner.space, content_tag)
            document = (
                await self._read_resource(owner, twin_document.value.resource_id) if twin_document is not None else None
            )
            if document is not None:
                return PlannedChange(document, counts)
            if counts.resources >= MAX_RESOURCES:
                raise LimitExceeded(what="resources per space", limit=MAX_RESOURCES)
            resource_bytes = counts.resource_bytes + new_document.value.size
            grown_counts = counts.model_copy(
                update={"resources": counts.resources + 1, "resource_bytes": resource_bytes}
            )
            await room(grown_counts)
            content_twin = ContentDuplicate(resource_id=new_document.value.resource_id)
            changes = (
                self._repository.put(new_document.key, new_document.value, expects=0),
                self._twins.put(
                    content_tag, content_twin, expects=twin_document.revision if twin_document is not None else 0
                ),
            )
            return PlannedChange(new_document, grown_counts, changes)

        document = await self._counting.change(owner.space, plan)
        # A newly put record has revision 1; the plan has it with 0.
        return CollectionDocument(document.key, document.value, max(document.revision, 1))

    async def _remove(self, owner: MemoryOwner, key: str) -> None:
        """Remove a resource's record, and its lookup entry."""

        async def plan(counts: SpaceCounts) -> PlannedChange[None]:
            document = await self._repository.get(owner.space, key)
            if document is None:
                return PlannedChange(None, counts)
            deletions = [self._repository.remove(document)]
            twin_document = await self._twins.get(owner.space, document.value.twin)
            # The lookup entry may refer to another resource by now.
            if twin_document is not None and twin_document.value.resource_id == document.value.resource_id:
                deletions.append(self._twins.remove(twin_document))
            resource_bytes = counts.resource_bytes - document.value.size
            reduced_counts = counts.model_copy(
                update={"resources": counts.resources - 1, "resource_bytes": resource_bytes}
            )
            return PlannedChange(None, reduced_counts, tuple(deletions))

        await self._counting.change(owner.space, plan)

    def _new(self, file: UploadedFile, mime: str, content_tag: str) -> CollectionDocument[UploadedResource]:
        key = collection.new_key(self._ctx)
        now = self._ctx.clock.now()
        resource = UploadedResource(
            resource_id=f"r_{key}",
            title=file.title,
            description=file.description,
            file_name=file.file_name[: limits.NAME_CHARS],
            mime=mime,
            size=len(file.data),
            source=file.source,
            twin=content_tag,
            created_at=now,
            updated_at=now,
        )
        return CollectionDocument(key, self._repository.admit(resource), 0)

    async def _ingest(
        self, owner: MemoryOwner, document: CollectionDocument[UploadedResource], data: bytes
    ) -> UploadedResource:
        # The bytes first: a retry needs them if a step below fails.
        await collection.keep_blob(self._ctx, owner.space, document.key, data)
        session = names.resource_session(owner.user, document.value.resource_id)
        try:
            chunk_messages = await self._read(owner, document.value, data)
            # An interrupted attempt may have left a part of the text.
            await self._clear(owner, document.value.resource_id)
            await self._upstream.add(owner, session, chunk_messages)
            await self._upstream.flush(owner, session)
        except UnreadableUpload as error:
            return await self._settle(owner, document, ResourceStatus.FAILED, problem=error.problem)
        except (GatewayRefused, MissingExtra, Unreachable) as error:
            return await self._settle(owner, document, ResourceStatus.FAILED, problem=error.message)
        return await self._settle(owner, document, ResourceStatus.EXTRACTED, chunks=len(chunk_messages))

    async def _read(self, owner: MemoryOwner, resource: UploadedResource, data: bytes) -> list[UpstreamMessage]:
        """Return what is sent upstream: the text in chunks, or the file itself if it is an image or a sound."""
        if resource.mime in MEDIA:
            return [_whole_document(resource, owner, data)]
        chunks = await self._extraction.chunks(data, resource.mime)
        return [_chunk_document(resource, owner, number, chunk) for number, chunk in enumerate(chunks)]

    async def _settle(
        self,
        owner: MemoryOwner,
        document: CollectionDocument[UploadedResource],
        status: ResourceStatus,
        *,
        problem: str = "",
        chunks: int = 0,
    ) -> UploadedResource:
        settled_resource = document.value.model_copy(
            update={
                "status": status,
                "problem": problem[: limits.REASON_CHARS],
                "chunks": chunks,
                "updated_at": self._ctx.clock.now(),
            }
        )
        try:
            await commit_changes(
                self._ctx, owner.space, self._repository.put(document.key, settled_resource, expects=document.revision)
            )
        except Conflict:
            # Another request stored the same content, or removed it; its result applies.
            now = await self._read_resource(owner, document.value.resource_id)
            if now is None:
                raise NotFound(what="resource", name=document.value.resource_id) from None
            return now.value
        return settled_resource

    async def _clear(self, owner: MemoryOwner, resource_id: str) -> None:
        """Remove the text that an earlier reading left in the resource's session."""
        session = names.resource_session(owner.user, resource_id)
        await self._edits.lift_all(owner, session)
        await self._local.erase_session(owner, session)

    async def _require(self, owner: MemoryOwner, resource_id: str) -> CollectionDocument[UploadedResource]:
        document = await self._read_resource(owner, resource_id)
        if document is None:
            raise NotFound(what="resource", name=resource_id)
        return document

    async def _read_resource(self, owner: MemoryOwner, resource_id: str) -> CollectionDocument[UploadedResource] | None:
        key = resource_id.removeprefix("r_")
        if not names.is_resource_id(resource_id) or await self._ctx.spaces.find(owner.space) is None:
            return None
        return await self._repository.get(owner.space, key)

    async def _duplicate_place(self, owner: MemoryOwner, data: bytes) -> str:
        return (await record_of(self._ctx, owner.space)).tag("gateway twin", sha256(data).hexdigest())


def _whole_document(resource: UploadedResource, owner: MemoryOwner, data: bytes) -> UpstreamMessage:
    kind = resource.mime.partition("/")[0]
    heading_text = "\n".join(text for text in (resource.title, resource.description) if text)
    document = _chunk_document(resource, owner, 0, FileChunk(heading_text or f"[{kind}: {resource.file_name}]"))
    text_items = (UpstreamItem(MessageItem(type="text", text=heading_text)),) if heading_text else ()
    file = MessageItem(type=kind, name=resource.file_name, ext=MEDIA[resource.mime])
    return replace(document, items=(*text_items, UpstreamItem(file, data)), is_file_alone=True)


def _chunk_document(
    resource: UploadedResource, owner: MemoryOwner, chunk_number: int, chunk: FileChunk
) -> UpstreamMessage:
    metadata: Metadata = {"resource_id": resource.resource_id, "chunk": chunk_number}
    if chunk.page is not None:
        metadata["page"] = chunk.page
    if chunk.heading:
        metadata["heading"] = chunk.heading
    # A document's words are its author's, not its uploader's.
    message = Message(
        text=chunk.text,
        speaker=owner.user,
        at=resource.created_at,
        authority=EvidenceAuthority.EXTERNAL_CONTENT,
    )
    return UpstreamMessage(
        message, key=f"{resource.resource_id}.{chunk_number}", tags=(RESOURCE_TAG,), metadata=metadata
    )


REDIRECTS = 3
WAIT_S = 30.0
_ENCODINGS = frozenset({"identity", "", "gzip", "x-gzip"})
_GZIP_BITS = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class AllowedSources:
    """Allowed sources of external resources. None by default."""

    hosts: frozenset[str] = frozenset()
    folders: tuple[Path, ...] = ()


async def read_source(uri: str, allowed: AllowedSources, /, *, max_bytes: int) -> UploadedFile:
    """Return the content at `uri`.

    Raises InvalidInput, PermissionRefused for an address that is not allowed, NotFound, PayloadTooLarge, Unreachable.
    """
    try:
        address = urlsplit(uri)
    except ValueError:
        raise InvalidInput(field="uri", problem="is not an address") from None
    match address.scheme.lower():
        case "file":
            return await asyncio.to_thread(_read_file, address.netloc, unquote(address.path), allowed, max_bytes)
        case "http" | "https":
            return await _read_web(uri, allowed, max_bytes)
        case _:
            raise InvalidInput(field="uri", problem="must begin with https:, http: or file:")


def _read_file(host: str, path: str, allowed: AllowedSources, max_bytes: int) -> UploadedFile:
    refusal = PermissionRefused("this address is outside the folders that the server reads resources from")
    if host not in {"", "localhost"}:
        raise refusal
    try:
        # Links are resolved before the file's folder is checked.
        real_path = Path(path).resolve(strict=True)
    except (OSError, ValueError):
        raise refusal from None
    if not any(real_path.is_relative_to(folder.resolve()) for folder in allowed.folders) or not real_path.is_file():
        raise refusal
    with real_path.open("rb") as file:
        # One byte more shows that the file is longer, and no more of it is read.
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise PayloadTooLarge(limit=max_bytes, what="the resource", way_out="register a smaller file")
    return UploadedFile(data, file_name=real_path.name, source=f"file://{path}")


async def _read_web(uri: str, allowed: AllowedSources, max_bytes: int) -> UploadedFile:
    settings = ClientSettings(extra="client", purpose="reading external resources", timeout_s=WAIT_S)
    address = uri
    async with http_client(settings) as client:
        import httpx

        # Each redirect's address is checked like the first.
        for _ in range(REDIRECTS + 1):
            url, host_header, host = await _checked_address(address, allowed)
            # Only encodings that can be unpacked within the limit.
            headers = {"Host": host_header, "Accept-Encoding": "gzip"}
            try:
                # It connects to the checked IP; the certificate is still verified by the name.
                request = client.build_request("GET", url, headers=headers, extensions={"sni_hostname": host})
                response = await client.send(request, stream=True)
                try:
                    if response.is_redirect:
                        address = str(httpx.URL(address).join(response.headers.get("location", "")))
                        continue
                    if response.status_code != 200:
                        raise NotFound(what="resource at this address", name=host)
                    return await _read_body(response, uri, max_bytes)
                finally:
                    await response.aclose()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise Unreachable(f"{host!r} does not respond: {type(error).__name__}") from None
    raise PermissionRefused(f"this address redirects more than {REDIRECTS} times")


async def _read_body(response: "httpx.Response", uri: str, max_bytes: int) -> UploadedFile:
    """Return the body, counting decompressed bytes as they come. Raises PayloadTooLarge, Unreachable."""
    content_encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if content_encoding not in _ENCODINGS:
        raise Unreachable("the content at this address may only be compressed once, with gzip")
    inflater = zlib.decompressobj(_GZIP_BITS) if "gzip" in content_encoding else None
    data = bytearray()
    try:
        async for piece in response.aiter_raw():
            data += inflater.decompress(piece, max_bytes + 1 - len(data)) if inflater is not None else piece
            if len(data) > max_bytes:
                raise PayloadTooLarge(limit=max_bytes, what="the resource", way_out="register a smaller file")
    except zlib.error:
        raise Unreachable("the content at this address is damaged: it is not compressed as declared") from None
    name = urlsplit(uri).path.rpartition("/")[2][: limits.NAME_CHARS]
    return UploadedFile(bytes(data), file_name=name, declared=response.headers.get("content-type", ""), source=uri)


async def _checked_address(uri: str, allowed: AllowedSources) -> JudgedAddress:
    """Return where to read an address. Raises PermissionRefused for one that is not allowed, Unreachable."""
    refusal = PermissionRefused("this address is on a host that the server does not read resources from")
    try:
        address = urlsplit(uri)
        has_port_0_or_user = address.port == 0 or address.username is not None
    except ValueError:  # an odd bracket or port, also after a redirect
        raise refusal from None
    host = address.hostname or ""
    if host not in allowed.hosts or address.scheme not in {"http", "https"} or has_port_0_or_user:
        raise refusal
    return await judged_address(address, may_be_private=_is_number(host))


def _is_number(host: str) -> bool:
    """Return whether a host is an IP; one that an operator allows explicitly may be private."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
