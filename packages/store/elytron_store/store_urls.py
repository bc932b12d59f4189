"""Opening of stores by a URL or a path. Only this module knows all engines."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, quote, unquote_to_bytes, urlencode, urlsplit, urlunsplit

from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.errors import (
    MissingExtra,
    SealBroken,
    StoreCorrupt,
    StoreForeign,
    StoreMissing,
    StoreUrlInvalid,
    Unsupported,
)
from elytron_core.errors.foreign_names import scheme_instead
from elytron_core.ids import IdSource, RandomIds, SpaceId
from elytron_core.ports.store import DocumentRef, KeyProvider, Store
from elytron_core.ports.store_checks import CheckReport
from elytron_store import manifest
from elytron_store.disk_reserve import DEFAULT_BOUNDS, DeviceBounds
from elytron_store.engine import WriteDurability
from elytron_store.limits import WAL_LEAST_BYTES

# One letter is a Windows drive, not a scheme.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
_PROBE_BYTES = 32
_BOUND_DIGITS = 15
MCP_PROJECT = "elytron"
"""Default project of a store on an MCP file server."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_DATABASE_SUFFIXES = frozenset({".db", ".sqlite", ".sqlite3"})


class WhenMissing(StrEnum):
    """What to do if there is no store at the place.

    MAKE: create an empty one. REFUSE: raise an error. PRETEND: use one in memory instead. Only MAKE leaves anything
    there.
    """

    MAKE = "make"
    REFUSE = "refuse"
    PRETEND = "pretend"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """An engine, and the file or folder of its bytes, or the address of its server."""

    engine: Literal["memory", "file", "sqlite", "postgres", "embedded", "gateway", "mcp"]
    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    """Address of the server, which may contain a password."""
    project: str | None = None
    """Place of the store on an MCP file server."""
    bounds: DeviceBounds = DEFAULT_BOUNDS

    @property
    def options(self) -> str:
        """Return the options in a local store's URL: `?` and its limits, or nothing."""
        own_bounds = {
            name: value for name, value in asdict(self.bounds).items() if value != getattr(DEFAULT_BOUNDS, name)
        }
        return f"?{urlencode(own_bounds)}" if own_bounds else ""

    def url_at(self, path: Path, /) -> str:
        """Return the URL of a store of this engine at `path`."""
        return f"{self.engine}:{quote(os.fspath(path.absolute()), safe='')}{self.options}"


def parse_url(url: str, /, *, is_folder: Callable[[Path], bool] = manifest.is_folder) -> StoreAddress:
    """Return what `url` names; nothing is opened, and a path alone is looked at to see whether it is a folder.

    `memory:`; `file:///folder`, `file:folder`; `sqlite:///path.db`, `sqlite:path.db`; `embedded:` in memory or
    `embedded:///folder`, each with `?reserve_bytes=N`, SQLite also with `wal_bytes=N`;
    `gateway+http://host:port`, a store that a server shares;
    `mcp+https://host/path?project=NAME`, files on an MCP file server; `postgresql://user@host:port/database`, tables of
    a Postgres server. Three slashes begin an absolute path (a fourth
    changes nothing), none a relative one, and %-escapes are decoded. A path alone is a database when it ends in .db,
    .sqlite or .sqlite3, a file store when it is a folder or ends in a slash; a ~ before it is your home, and
    nothing in it is decoded.
    Raises StoreUrlInvalid, which names no part of the URL but an unknown scheme.
    """
    if url == ":memory:":  # SQLite's own word for it
        return StoreAddress("memory")
    url_match = _SCHEME.fullmatch(url)
    if url_match is None:
        return _parse_path(url, is_folder=is_folder)
    scheme, address_text = url_match[1].lower(), url_match[2]
    match scheme:
        case "memory":
            # A name after it is allowed and ignored: each opening creates a separate store.
            return StoreAddress("memory")
        case "embedded":
            return _local_address("embedded", address_text) if address_text.strip("/") else StoreAddress("embedded")
        case "file":
            return _local_address("file", address_text)
        case "sqlite":
            return _local_address("sqlite", address_text)
        case "gateway+http" | "gateway+https":
            return StoreAddress("gateway", url=_server_address(f"{scheme.removeprefix('gateway+')}:{address_text}"))
        case "postgresql" | "postgres":
            from elytron_store.postgres.address import parse_address

            parse_address(f"postgresql:{address_text}")
            return StoreAddress("postgres", url=f"postgresql:{address_text}")
        case "mcp+http" | "mcp+https":
            return _file_server(f"{scheme.removeprefix('mcp+')}:{address_text}")
        case _:
            # Without slashes the first part may as well be a user name in front of a password.
            name = f" {scheme!r}" if address_text.startswith("//") else ""
            raise StoreUrlInvalid(problem=f"has the unknown scheme{name}{scheme_instead(scheme)}")


async def open_store(
    url: str,
    /,
    *,
    clock: Clock,
    keys: KeyProvider | None = None,
    ids: IdSource | None = None,
    profile: str | None = None,
    durability: WriteDurability = WriteDurability.FULL,
    when_missing: WhenMissing = WhenMissing.MAKE,
    api_key: str | None = None,
) -> Store:
    """Open the store that `url` names (see `parse_url`); with `keys`, sealed under them.

    If there is nothing, `when_missing` decides: an empty file or folder is nothing yet.
    `api_key` is shown to a server that shares its store. A sealed store opens with keys only, any other one without
    them only. `profile` must be the one that the store was made for, the full one if it is None (see
    `open_as_made`). A file store is always as durable as FULL. An embedded store is one in memory or in a folder; what
    bounds it is laid over it by its opener (see `CapacityStore`). A refused opening changes nothing. Raises
    StoreUrlInvalid, StoreMissing, StoreForeign, StoreNewer, StoreUnavailable,
    StoreBusy, and with `keys` SealError.
    """
    address = parse_url(url)
    is_new = address.path is not None and _is_nothing(address.path)
    if address.path is not None and is_new:
        if when_missing is WhenMissing.REFUSE:
            raise StoreMissing(place=str(address.path.absolute()))
        if when_missing is WhenMissing.PRETEND:
            address = StoreAddress("memory")
        if keys is not None:  # a store that cannot be sealed is not created
            await keys.wrap(bytes(_PROBE_BYTES), key_id=keys.current(), context=b"probe")
    found_store = await _find_store(
        address,
        _StoreExpectation(profile, keys is not None, when_missing),
        clock=clock,
        durability=durability,
        api_key=api_key,
        ids=ids or RandomIds(clock),
    )
    try:
        store = (
            await _open_unsealed(found_store)
            if keys is None
            else await _open_sealed(found_store, keys, ids=ids, clock=clock)
        )
        if address.path is not None and keys is not None:
            _require_pinned(store, keys, address.path, is_new=is_new)
        # Last, since a failed opening changes nothing.
        await found_store.note()
    except BaseException:
        await found_store.store.close()
        raise
    return store


async def open_as_made(
    url: str,
    /,
    *,
    clock: Clock,
    keys: KeyProvider | None = None,
    when_missing: WhenMissing = WhenMissing.MAKE,
) -> Store:
    """Open the store that `url` names as `open_store` does, whatever profile it was created for."""

    async def opened(profile: str | None) -> Store:
        return await open_store(url, clock=clock, keys=keys, when_missing=when_missing, profile=profile)

    try:
        return await opened(None)
    except StoreForeign as error:
        if error.profile is None:
            raise
        return await opened(error.profile)


async def rescue_store(url: str, /, *, clock: Clock, repair: bool, sealed: bool = False) -> CheckReport:
    """Return what a damaged store still contains, reading below its engine: it need not open.

    With `repair` it opens afterwards: whole parts are served, and damaged bytes are saved next to it, or in the
    folder's `quarantine`. A store said to be `sealed` that shows no sign of it is not repaired, because it would be
    recreated in plain text. Raises StoreMissing, StoreForeign if nothing there belongs to a store, StoreBusy while a
    process holds it, and Unsupported for a store that is not in a local file or folder.
    """
    address = parse_url(url)
    if address.path is None:
        raise Unsupported("a store that does not open can be repaired only if it is a local file or folder")
    if _is_nothing(address.path):
        raise StoreMissing(place=str(address.path.absolute()))
    if address.engine == "sqlite":
        from elytron_store.sqlite.salvage import examine_file, rebuild_file

        if repair:
            return await asyncio.to_thread(rebuild_file, address.path, at=clock.now(), sealed=sealed)
        return await asyncio.to_thread(examine_file, address.path, clock.now())
    from elytron_store.file.repair import rescue_folder

    return await asyncio.to_thread(rescue_folder, address.path, at=clock.now(), repair=repair, sealed=sealed)


@dataclass(frozen=True, slots=True)
class _FoundStore:
    """An existing store; `note` makes it record its opening. If others open it, it is `shared`."""

    store: Store
    note: Callable[[], Awaitable[None]]
    shared: bool = False


class _StoreExpectation(NamedTuple):
    """The profile and seal that a store is to have, and what happens if there is none."""

    profile: str | None
    sealed: bool
    when_missing: WhenMissing


async def _find_store(
    address: StoreAddress,
    expectation: _StoreExpectation,
    /,
    *,
    clock: Clock,
    durability: WriteDurability,
    api_key: str | None,
    ids: IdSource,
) -> _FoundStore:
    profile, sealed, when_missing = expectation
    match address.engine, address.path:
        case "file" | "embedded", Path() as folder:
            from elytron_store.file.store import FileStore

            files = await FileStore.open_unnoted(
                folder, clock=clock, profile=profile, sealed=sealed, bounds=address.bounds
            )
            return _FoundStore(files, files.note_opening)
        case "sqlite", Path() as file:
            from elytron_store.sqlite.setup import SqliteOptions
            from elytron_store.sqlite.store import SqliteStore

            options = SqliteOptions(file, clock.now(), profile, sealed, durability, bounds=address.bounds)
            database = await SqliteStore.open_unnoted(options, clock=clock)
            return _FoundStore(database, partial(database.note_opening, options.at))
        case "mcp", _ if address.url is not None and address.project is not None:
            from elytron_store.mcp.store import McpStore
            from elytron_store.mcp.tools import ToolFiles, http_session

            files = ToolFiles(http_session(address.url, api_key=api_key), project=address.project)
            makes_store = when_missing is WhenMissing.MAKE
            try:
                remote_store = await McpStore.open(
                    files, clock=clock, ids=ids, profile=profile, sealed=sealed, is_made=makes_store
                )
            except StoreMissing:
                if when_missing is WhenMissing.REFUSE:
                    raise
            else:
                return _FoundStore(remote_store, _note_nothing)
        case "postgres", _ if address.url is not None:
            try:
                return await _find_tables(
                    address.url, clock=clock, profile=profile, sealed=sealed, when_missing=when_missing
                )
            except StoreMissing:
                if when_missing is not WhenMissing.PRETEND:
                    raise
        case "gateway", _ if address.url is not None:
            from elytron_store.remote_store import GatewayStore

            return _FoundStore(GatewayStore(address.url, api_key=api_key), _note_nothing, shared=True)
        case _:
            pass
    from elytron_store.memory import MemoryStore

    return _FoundStore(MemoryStore(), _note_nothing)


async def _find_tables(
    url: str, /, *, clock: Clock, profile: str | None, sealed: bool, when_missing: WhenMissing
) -> _FoundStore:
    try:
        from elytron_store.postgres.store import PostgresStore
    except ImportError as error:
        raise MissingExtra(extra="postgres", purpose="a store on a Postgres server") from error
    from elytron_store.postgres.address import parse_address
    from elytron_store.postgres.tables import PostgresTarget, require_sealing

    postgres_address = parse_address(url)
    require_sealing(postgres_address, sealed=sealed)
    target = PostgresTarget(postgres_address, clock.now(), profile, sealed, is_made=when_missing is WhenMissing.MAKE)
    store = await PostgresStore.open_unnoted(target, clock=clock)
    note_opening = partial(store.note_opening, target.at)
    if not postgres_address.blobs:
        return _FoundStore(store, note_opening)
    from elytron_store.wrappers.object_blobs import ObjectBlobStore

    try:
        return _FoundStore(await ObjectBlobStore.open(store, postgres_address.blobs), note_opening)
    except BaseException:
        await store.close()
        raise


async def _open_sealed(found_store: _FoundStore, keys: KeyProvider, /, *, ids: IdSource | None, clock: Clock) -> Store:
    from elytron_store.sealed.keyring import mark_shared
    from elytron_store.sealed.records import KeyringCoverage
    from elytron_store.sealed.store import SealedStore

    keyring_coverage = KeyringCoverage.SPACES if found_store.shared else KeyringCoverage.STORE
    if found_store.shared:
        await mark_shared(found_store.store, clock)
    return await SealedStore.open(
        found_store.store, keys=keys, ids=ids or RandomIds(clock), clock=clock, covers=keyring_coverage
    )


def _require_pinned(store: Store, keys: KeyProvider, place: Path, /, *, is_new: bool) -> None:
    """Raise StoreForeign if the file of `keys` remembers another store at `place`."""
    from elytron_store.sealed.providers import FileKeys
    from elytron_store.sealed.store import SealedStore

    if isinstance(keys, FileKeys) and isinstance(store, SealedStore):
        keys.pins.require(place, store.identity, is_new=is_new)


async def _open_unsealed(found_store: _FoundStore, /) -> Store:
    """Return the store, which was not sealed as a whole, whatever its manifest says. Raises StoreForeign.

    A store that was sealed as a whole contains no plain space besides its keyring. A shared store contains sealed
    spaces next to plain ones, one of which was written with their keyring.
    """
    if not found_store.shared:
        from elytron_store.sealed.records import GUARD, INNER, KEYRING, NAMES, KeyringCoverage, NamesRecord, read_record

        keyring_coverage, has_keyring = None, True
        with suppress(SealBroken, StoreCorrupt):  # damage there matters only to those with keys
            (names_document,) = await found_store.store.get(KEYRING, [NAMES])
            has_keyring = names_document is not None or bool(await found_store.store.journal(KEYRING, after=0, limit=1))
            keyring_coverage = (
                None if names_document is None else read_record(NamesRecord, names_document.body, what="names").covers
            )
        if keyring_coverage is KeyringCoverage.STORE or (has_keyring and not await _has_plain_space(found_store.store)):
            raise StoreForeign(
                "this store is sealed, but its manifest was altered to say that it is not: restore it from a backup"
            )
        for space in () if has_keyring else await found_store.store.spaces(limit=limits.SCAN_MAX):
            if INNER.fullmatch(space) and await _is_there(found_store.store, space, GUARD):
                raise StoreForeign("this store is sealed, and its keyring was removed: restore it from a backup")
    return found_store.store


async def _has_plain_space(store: Store, /) -> bool:
    """Return whether a space of `store` is neither sealed nor the keyring."""
    from elytron_store.sealed.records import INNER, KEYRING, SHARED, SHARED_MARK

    if await _is_there(store, SHARED, SHARED_MARK):
        return True
    last_space = ""
    while page := await store.spaces(limit=limits.SCAN_MAX, after=last_space):
        if any(space != KEYRING and not INNER.fullmatch(space) for space in page):
            return True
        last_space = page[-1]
    return False


async def _is_there(store: Store, space: SpaceId, ref: DocumentRef, /) -> bool:
    """Return whether `space` has the document `ref`, damaged or not."""
    try:
        return await store.get(space, [ref]) != [None]
    except StoreCorrupt:
        return True


async def _note_nothing() -> None:
    """Do nothing: a store in memory or on a server does not record when it was opened."""


def _is_nothing(path: Path) -> bool:
    """Return whether opening would create a store at `path`; an unreadable path is left to the engine."""
    try:
        if manifest.is_folder(path):
            return not any(path.iterdir())
        return not manifest.is_there(path) or (path.is_file() and path.stat().st_size == 0)
    except OSError:
        return False


def _parse_path(text: str, /, *, is_folder: Callable[[Path], bool]) -> StoreAddress:
    if not text or "\0" in text or not _is_utf8(text):
        raise StoreUrlInvalid(problem="is empty or not a valid path")
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise StoreUrlInvalid(problem="begins with ~ but names no user's home") from None
    try:
        is_in_folder = text.endswith("/") or is_folder(path)
    except OSError as error:
        raise StoreUrlInvalid(problem=f"is a path that cannot be read: {error.strerror}") from error
    if is_in_folder:
        return StoreAddress("file", path)
    if path.suffix.lower() in _DATABASE_SUFFIXES:
        return StoreAddress("sqlite", path)
    path_text, query_mark, _ = text.partition("?")
    if query_mark and Path(path_text).suffix.lower() in _DATABASE_SUFFIXES:
        raise StoreUrlInvalid(
            problem="is a path, which takes no options: write sqlite: before it, as in sqlite:m.db?reserve_bytes=0"
        )
    raise StoreUrlInvalid(problem="is neither a URL, nor a folder, nor a path that ends in .db, .sqlite, .sqlite3 or /")


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _local_address(engine: Literal["file", "sqlite", "embedded"], address_text: str) -> StoreAddress:
    """Return the address of a local store, whose URL may limit its disk use."""
    path_text, _, query = address_text.partition("?")
    names = ("reserve_bytes", "wal_bytes") if engine == "sqlite" else ("reserve_bytes",)
    bound_values: dict[str, int] = {}
    for option in query.split("&") if query else ():
        name, _, text = option.partition("=")
        if name not in names or name in bound_values:
            raise StoreUrlInvalid(problem=f"has a query other than ?{'=N and '.join(names)}=N: write ? as %3F in names")
        if not text.isdecimal() or len(text) > _BOUND_DIGITS:
            raise StoreUrlInvalid(problem=f"needs a number of bytes after {name}=")
        bound_values[name] = int(text)
        if name == "wal_bytes" and bound_values[name] < WAL_LEAST_BYTES:
            raise StoreUrlInvalid(problem=f"needs at least {WAL_LEAST_BYTES} bytes after {name}=")
    return StoreAddress(engine, _scheme_path(path_text), bounds=DeviceBounds(**bound_values))


def _scheme_path(address_text: str) -> Path:
    """Return the path after a scheme."""
    if "#" in address_text:
        raise StoreUrlInvalid(problem="has a fragment: write # as %23 in names")
    if address_text.startswith("//"):
        host_name, slash, absolute = address_text[2:].partition("/")
        if host_name not in {"", "localhost"} or not slash:
            # Not shown: the URL may contain the user and password of another kind of store.
            raise StoreUrlInvalid(problem="names a host: use three slashes for an absolute path")
        address_text = "/" + absolute.lstrip("/")
    try:
        text = unquote_to_bytes(address_text).decode("utf-8")
    except UnicodeError:
        raise StoreUrlInvalid(problem="has %-escapes or characters that are not UTF-8") from None
    if not text.strip("/") or "\0" in text:
        raise StoreUrlInvalid(problem="names no file or folder")
    if text == ":memory:":
        raise StoreUrlInvalid(problem="names an in-memory database")
    return Path(text)


def _server_address(url: str) -> str:
    """Return the address of a server, without a user: keys are passed separately."""
    try:
        url_parts = urlsplit(url)
        is_server_address = bool(url_parts.hostname) and (url_parts.port is None or url_parts.port > 0)
    except ValueError:
        is_server_address = False
        url_parts = urlsplit("")
    if not is_server_address or url_parts.username is not None or url_parts.query or url_parts.fragment:
        raise StoreUrlInvalid(problem="names no server: gateway+http:// or gateway+https://, a host and a port")
    return url.rstrip("/")


def _file_server(url: str) -> StoreAddress:
    """Return the address of an MCP file server. Its key goes over the wire, so the connection is encrypted or local."""
    try:
        url_parts = urlsplit(url)
        query = parse_qs(url_parts.query, keep_blank_values=True, strict_parsing=bool(url_parts.query))
        server_address = _server_address(urlunsplit(url_parts._replace(query="")))
        is_local = url_parts.hostname in _LOOPBACK
    except ValueError:
        raise StoreUrlInvalid(problem="names no server: mcp+https://, a host and a path") from None
    if url_parts.scheme == "http" and not is_local:
        raise StoreUrlInvalid(problem="is not encrypted: use mcp+https://, or a server on this machine")
    project = query.pop("project", [MCP_PROJECT])
    if query or len(project) != 1:
        raise StoreUrlInvalid(problem="has a query other than ?project=NAME")
    return StoreAddress("mcp", url=server_address, project=project[0])
