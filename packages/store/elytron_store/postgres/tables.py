"""Opening a store: server requirements, tables created or found, and the manifest that must match."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from ipaddress import ip_address
from typing import Final, NamedTuple, Self

import psycopg
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elytron_core.clock import Instant
from elytron_core.errors import KeyMissing, StoreForeign, StoreMissing, StoreNewer, StoreReadOnly, StoreRefused
from elytron_core.strict_json import canonical_bytes
from elytron_store.manifest import StoreManifest, read_manifest, require_match
from elytron_store.postgres import statements
from elytron_store.postgres.address import ENGINE, PostgresAddress
from elytron_store.postgres.connections import Connection, connect_once, translate_error, wide_number
from elytron_store.postgres.statements import PartitionStatements

POSTGRES_TRIAL_BYTES: Final = 1024 * 1024
"""Bytes that are written, and taken back, to see whether a disk that was full has room again."""
POSTGRES_LONG_STEP_MS: Final = 60_000
"""A limit on statements that is shorter endangers long steps."""


OLDEST_SERVER = 140_000
_REPLICA = (
    "this Postgres server is a read-only replica, or its database is read-only: name the primary server "
    "in the URL, or add target_session_attrs=read-write to one that names several"
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Properties of a server that an opening reads."""

    version: int
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    encoding: str
    is_replica: bool
    is_read_only: bool
    process: int

    @classmethod
    async def read(cls, connection: Connection, /) -> Self:
        """Return the facts of the server behind `connection`."""
        cursor = await connection.execute(statements.LOOK_AT_SERVER)
        ((version, fsync_setting, commit, pages, encoding, is_replica, read_only, process),) = await cursor.fetchall()
        return cls(version, fsync_setting, commit, pages, encoding, is_replica, read_only == "on", process)

    def require_fit(self) -> None:
        """Raise StoreRefused for a server that cannot meet a store's guarantees, StoreReadOnly for a replica."""
        if self.version < OLDEST_SERVER:
            raise StoreRefused(f"this Postgres server has version {self.version // 10_000}: use version 14 or newer")
        if self.encoding != "UTF8":
            raise StoreRefused(
                f"this database has the encoding {self.encoding}: create one with UTF8 (createdb -E UTF8 -T template0)"
            )
        if self.is_replica or self.is_read_only:
            raise StoreReadOnly(_REPLICA)
        for name, value in (("fsync", self.fsync), ("synchronous_commit", self.synchronous_commit)):
            if value == "off":
                raise StoreRefused(
                    f"this Postgres server has {name} = off, so acknowledged writes may be lost: set {name} = on "
                    "for the server, the database and this user"
                )
        if self.full_page_writes == "off":
            raise StoreRefused(
                "this Postgres server has full_page_writes = off, so a power cut may tear its pages: turn it on"
            )


async def require_commits(connection: Connection, partition: PartitionStatements, /, *, is_tried: bool) -> None:
    """Raise the reason why the server takes no commits: StoreReadOnly, or the error of a trial if it `is_tried`.

    The trial writes pages to the tables of a partition, and rolls them back.
    """
    ((takes_no_commits,),) = await (await connection.execute(statements.TAKES_NO_COMMITS)).fetchall()
    if takes_no_commits:
        raise StoreReadOnly(_REPLICA)
    if is_tried:
        async with connection.transaction(force_rollback=True):
            trial_values = ("", wide_number(0), wide_number(0), b"", os.urandom(POSTGRES_TRIAL_BYTES))
            await connection.execute(partition.of(statements.TRY_TO_WRITE), trial_values, binary=True)


class ServerSetting(NamedTuple):
    """A setting or metric of a server, and how it endangers a store; empty if it does not."""

    name: str
    value: str
    danger: str = ""


async def examine_server(address: PostgresAddress, /) -> Sequence[ServerSetting]:
    """Return a server's settings and what endangers a store there; changes nothing and opens no store.

    Raises StoreUnavailable, StoreRefused, StoreCrowded.
    """
    try:
        async with await connect_once(address) as connection:
            rows = await (await connection.execute(statements.EXAMINE_SERVER)).fetchall()
            ((remaining_connections, replicas),) = await (await connection.execute(statements.SERVER_ROOM)).fetchall()
            version = await _found_schema(connection, address.schema)
            host, mode = connection.info.host, connection.info.get_parameters().get("sslmode", DEFAULT_SSL_MODE)
    except psycopg.Error as error:
        raise translate_error(error, doing="examining") from None
    settings: dict[str, str] = {str(name): str(value) for name, value in rows}
    danger_texts = dict(_setting_dangers(settings))
    return (
        *(ServerSetting(name, settings[name], danger_texts.get(name, "")) for name in sorted(settings)),
        ServerSetting(
            "connections left",
            f"{remaining_connections}",
            _room_danger(int(remaining_connections), address.connections),
        ),
        ServerSetting("replicas behind", f"{replicas}", _REPLICAS_BEHIND if replicas else ""),
        ServerSetting("sslmode", mode, transport_danger(host, mode)),
        ServerSetting("schema", version),
    )


async def _found_schema(connection: Connection, schema: str) -> str:
    """Return the version of a store's tables together with that of this build."""
    ((has_manifest,),) = await (await connection.execute(statements.IS_TABLE, (f"{schema}.manifest",))).fetchall()
    body = None
    if has_manifest:
        body = await (await connection.execute(statements.find_manifest(schema), ("layout",), binary=True)).fetchone()
    if body is None:
        return f"none; this build creates version {statements.SCHEMA_VERSION}"
    try:
        version = _FoundVersion.model_validate_json(body[0]).schema_version
    except ValidationError:
        return "unreadable"
    return f"version {version}; this build knows {statements.SCHEMA_VERSION}"


class _FoundVersion(BaseModel):
    schema_version: int


DEFAULT_SSL_MODE = "prefer"
"""The driver's default if neither the URL nor the environment sets it."""


def transport_danger(host: str, mode: str, /) -> str:
    """Return what endangers the connection to the server at `host`, with a remedy; empty for a local one."""
    if host.startswith("/") or not host or mode.startswith("verify-") or _is_loopback(host):
        return ""
    if mode == "require":
        return "the server does not have to prove its identity: set sslmode=verify-full and sslrootcert in the URL"
    return "data and password may cross the network as plain text: set sslmode=verify-full in the URL"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_REPLICAS_BEHIND = (
    "replicas lag behind the server: commits that they do not have may be lost when one of them takes over "
    "(synchronous_standby_names makes commits wait for them)"
)
_NOT_ON_REPLICAS = "commits that are not on a replica's disk may be lost when it takes over: turn it on"
_STOPS_LONG_STEPS = "it cancels long steps, such as checks and erasures: do not set it for this user"
_MUST_BE_ON = {
    "fsync": "acknowledged commits may be lost in a power cut: turn it on",
    "full_page_writes": "a power cut may tear pages: turn it on",
    "synchronous_commit": "acknowledged commits may be lost: turn it on for the server, the database and this user",
}


def _setting_dangers(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that endanger a store, with the reason."""
    for name, danger_text in _MUST_BE_ON.items():
        if settings.get(name) == "off":
            yield name, danger_text
    if settings.get("synchronous_commit") in {"local", "remote_write"} and settings.get("synchronous_standby_names"):
        yield (
            "synchronous_commit",
            _NOT_ON_REPLICAS,
        )
    for name in ("in_hot_standby", "default_transaction_read_only"):
        if settings.get(name) == "on":
            yield name, "nothing can be stored here: name the primary server in the URL"
    for name in ("statement_timeout", "transaction_timeout"):
        if 0 < int(settings.get(name, 0)) < POSTGRES_LONG_STEP_MS:
            yield name, _STOPS_LONG_STEPS


def _room_danger(room: int, limit: int) -> str:
    if room >= limit:
        return ""
    return (
        f"each process may open {limit}: raise max_connections (or the limit of the user or database), or set "
        "connections=N in the URL of every node"
    )


_STORE, _LAYOUT = "store", "layout"


class StoreLayout(BaseModel):
    """Schema of the tables, and the number of their partitions."""

    # Lenient: a newer build's layout must be readable far enough to see that it is newer.
    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = Field(default=statements.SCHEMA_VERSION, ge=1)
    partitions: int = Field(default=statements.PARTITIONS, ge=1, le=100)
    objects: str = ""
    """The object store of the blobs, if they have one."""


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """Tables that an opening looks for, or creates."""

    address: PostgresAddress
    at: Instant
    profile: str | None = None
    sealed: bool = False
    is_made: bool = True
    layout: StoreLayout = field(default_factory=StoreLayout)


@dataclass(frozen=True, slots=True)
class FoundTables:
    """Existing tables, and how the server is reached."""

    partitions: int
    is_pooled: bool


def require_sealing(address: PostgresAddress, /, *, sealed: bool) -> None:
    """Raise KeyMissing for a store without a key whose address does not allow that, or contradicts it."""
    if address.sealed and not sealed:
        raise KeyMissing(
            "a store on a Postgres server is sealed: provide a key (--key-file, ELYTRON_KEY_FILE or keys=), or add "
            "?sealed=no to the URL if everyone who can read the server's files, replicas and backups may read what "
            "is stored"
        )
    if sealed and not address.sealed:
        raise StoreForeign("the URL says ?sealed=no, but a key was given: leave out one of them")


Step = Callable[[str, int], bytes]
"""Returns the statements that migrate the tables of a schema, in a number of partitions, to the next version."""
STEPS: tuple[Step, ...] = (statements.index_queues,)
"""Step `n` leads from version `n + 1` to `n + 2`; new ones are appended, none is ever changed."""


async def prepare_tables(
    connection: Connection, target: PostgresTarget, /, *, steps: Sequence[Step] = STEPS
) -> FoundTables:
    """Check the server and create the store unless a matching one exists; migrate older tables to this version.

    Raises StoreRefused, StoreReadOnly, StoreMissing, StoreForeign, StoreNewer.
    """
    is_pooled = await _look_at_server(connection)
    schema = target.address.schema
    if not await _is_there(connection, statements.IS_TABLE, f"{schema}.manifest"):
        if not target.is_made:
            raise StoreMissing(place=target.address.place)
        await _make_tables(connection, target)
    layout = await _read_layout(connection, target, latest_version=1 + len(steps))
    if layout.schema_version < 1 + len(steps):
        layout = await _take_steps(connection, target, steps)
    if not target.address.portable and not await _is_there(
        connection, statements.IS_FUNCTION, statements.function_name(schema)
    ):
        async with connection.transaction():
            await _lock_making(connection, schema)
            await connection.execute(statements.create_functions(schema, layout.partitions))
    await _require_objects(connection, target, layout)
    return FoundTables(layout.partitions, is_pooled)


async def note_opening(connection: Connection, schema: str, at: Instant, /) -> None:
    """Record in the manifest that the store was opened at `at`."""
    body = await _read_manifest_row(connection, schema, _STORE)
    if body is not None:
        noted_manifest = read_manifest(body).model_copy(update={"opened_at": at})
        await connection.execute(statements.keep_manifest(schema), (_STORE, noted_manifest.to_bytes()))


async def _look_at_server(connection: Connection) -> bool:
    """Check whether the server can host a store; return whether a pooler is in between."""
    facts = await ServerFacts.read(connection)
    facts.require_fit()
    # A pooler gives its clients numbers of its own.
    return facts.process != connection.info.backend_pid


async def _make_tables(connection: Connection, target: PostgresTarget) -> None:
    schema, layout = target.address.schema, target.layout
    manifest = StoreManifest.fresh(ENGINE, at=target.at, profile=target.profile, sealed=target.sealed)
    async with connection.transaction():
        await _lock_making(connection, schema)
        if await _is_there(connection, statements.IS_TABLE, f"{schema}.manifest"):
            return  # another process created it meanwhile
        for step in (statements.create_tables, *STEPS):
            await connection.execute(step(schema, layout.partitions))
        await connection.execute(statements.keep_manifest(schema), (_STORE, manifest.to_bytes()))
        await connection.execute(statements.keep_manifest(schema), (_LAYOUT, canonical_bytes(layout)))


async def _read_layout(connection: Connection, target: PostgresTarget, *, latest_version: int) -> StoreLayout:
    schema = target.address.schema
    body, layout_body = [await _read_manifest_row(connection, schema, name) for name in (_STORE, _LAYOUT)]
    if body is None or layout_body is None:
        raise StoreForeign("this store has lost its manifest: restore it from a backup")
    try:
        layout = StoreLayout.model_validate_json(layout_body)
    except ValidationError:
        raise StoreForeign("this is not an elytron store: its layout cannot be read") from None
    if layout.schema_version > latest_version:
        raise StoreNewer(found=layout.schema_version, known=latest_version)
    require_match(read_manifest(body), engine=ENGINE, profile=target.profile, sealed=target.sealed)
    return layout


async def _take_steps(connection: Connection, target: PostgresTarget, steps: Sequence[Step]) -> StoreLayout:
    """Migrate the tables to this version in one transaction."""
    schema = target.address.schema
    async with connection.transaction():
        await _lock_making(connection, schema)
        layout = await _read_layout(connection, target, latest_version=1 + len(steps))  # others may have migrated them
        for step in steps[layout.schema_version - 1 :]:
            await connection.execute(step(schema, layout.partitions))
        layout = layout.model_copy(update={"schema_version": 1 + len(steps)})
        await connection.execute(statements.keep_manifest(schema), (_LAYOUT, canonical_bytes(layout)))
    return layout


async def _require_objects(connection: Connection, target: PostgresTarget, layout: StoreLayout) -> None:
    """Record that the blobs are objects from now on. Raises StoreForeign if they are elsewhere than the URL says."""
    objects, schema = target.address.blobs, target.address.schema
    if layout.objects == objects:
        return
    if layout.objects:
        raise StoreForeign(
            f"the blobs of this store are objects at {layout.objects}: name them in the URL of every node (blobs=...)"
        )
    noted_layout = layout.model_copy(update={"objects": objects})
    await connection.execute(statements.keep_manifest(schema), (_LAYOUT, canonical_bytes(noted_layout)))


async def _read_manifest_row(connection: Connection, schema: str, name: str) -> bytes | None:
    row = await (await connection.execute(statements.find_manifest(schema), (name,), binary=True)).fetchone()
    return None if row is None else row[0]


async def _is_there(connection: Connection, question: bytes, name: str) -> bool:
    ((answer,),) = await (await connection.execute(question, (name,))).fetchall()
    return bool(answer)


async def _lock_making(connection: Connection, schema: str) -> None:
    """Wait until no other process creates the tables of `schema`, to the end of the transaction."""
    # The server's locks have numbers, which all processes must derive alike.
    lock_number = int.from_bytes(blake2b(f"elytron {schema}".encode(), digest_size=8).digest(), signed=True)
    await connection.execute(statements.LOCK_MAKING, (wide_number(lock_number),))
