"""The opening of a store: what the server must be, the tables made or found, and the manifest that must match."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elytron_core.clock import Instant
from elytron_core.errors import KeyMissing, StoreForeign, StoreMissing, StoreNewer
from elytron_core.strict_json import canonical_bytes
from elytron_store.manifest import DEFAULT_PROFILE, StoreManifest, read_manifest, require_match
from elytron_store.postgres import statements
from elytron_store.postgres.address import ENGINE, PostgresAddress
from elytron_store.postgres.connections import Connection, wide_number
from elytron_store.postgres.server import ServerFacts

_STORE, _LAYOUT = "store", "layout"


class StoreLayout(BaseModel):
    """Schema of the tables, and the number of their partitions."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = Field(default=statements.SCHEMA_VERSION, ge=1)
    partitions: int = Field(default=statements.PARTITIONS, ge=1, le=100)
    objects: str = ""
    """The object store of the blobs, if they have one."""


@dataclass(frozen=True, slots=True)
class WantedTables:
    """Tables that an opening looks for, or makes."""

    address: PostgresAddress
    at: Instant
    profile: str | None = None
    sealed: bool = False
    is_made: bool = True
    layout: StoreLayout = field(default_factory=StoreLayout)


@dataclass(frozen=True, slots=True)
class FoundTables:
    """Tables as they were found, and how the server is reached."""

    partitions: int
    is_pooled: bool


def require_sealing(address: PostgresAddress, /, *, sealed: bool) -> None:
    """Raise KeyMissing for a store without a key whose address does not say that it is to be so, or says both."""
    if address.sealed and not sealed:
        raise KeyMissing(
            "a store on a Postgres server is sealed: give a key (--key-file, ELYTRON_KEY_FILE or keys=), or say "
            "?sealed=no at the end of the URL if all who can read the server's files, replicas and backups may "
            "read what is stored"
        )
    if sealed and not address.sealed:
        raise StoreForeign("the URL says ?sealed=no, and a key was given: leave out one of them")


Step = Callable[[str, int], bytes]
"""Returns the statements that lead the tables of a schema, in a number of partitions, from one version to the next."""
STEPS: tuple[Step, ...] = ()
"""Step `n` leads from version `n + 1` to `n + 2`; a new one is added behind, none is ever changed."""


async def prepare_tables(
    connection: Connection, wanted: WantedTables, /, *, steps: Sequence[Step] = STEPS
) -> FoundTables:
    """Look at the server and make the store, unless one that matches is there; bring older tables to this version.

    Raises StoreRefused, StoreReadOnly, StoreMissing, StoreForeign, StoreNewer.
    """
    is_pooled = await _look_at_server(connection)
    schema = wanted.address.schema
    if not await _is_there(connection, statements.IS_TABLE, f"{schema}.manifest"):
        if not wanted.is_made:
            raise StoreMissing(place=wanted.address.place)
        await _make_tables(connection, wanted)
    layout = await _read_layout(connection, wanted, known=1 + len(steps))
    if layout.schema_version < 1 + len(steps):
        layout = await _take_steps(connection, wanted, steps)
    if not wanted.address.portable and not await _is_there(
        connection, statements.IS_FUNCTION, statements.function_name(schema)
    ):
        async with connection.transaction():
            await _lock_making(connection, schema)
            await connection.execute(statements.create_functions(schema, layout.partitions))
    await _require_objects(connection, wanted, layout)
    return FoundTables(layout.partitions, is_pooled)


async def note_opening(connection: Connection, schema: str, at: Instant, /) -> None:
    """Write into the manifest that the store was opened at `at`."""
    body = await _read_manifest_row(connection, schema, _STORE)
    if body is not None:
        noted = read_manifest(body).model_copy(update={"opened_at": at})
        await connection.execute(statements.keep_manifest(schema), (_STORE, noted.to_bytes()))


async def _look_at_server(connection: Connection) -> bool:
    """Look whether the server may hold a store; return whether a pooler is between."""
    facts = await ServerFacts.read(connection)
    facts.require_fit()
    # A pooler gives its clients numbers of its own.
    return facts.process != connection.info.backend_pid


async def _make_tables(connection: Connection, wanted: WantedTables) -> None:
    schema, layout = wanted.address.schema, wanted.layout
    made = StoreManifest(
        engine=ENGINE,
        profile=wanted.profile or DEFAULT_PROFILE,
        sealed=wanted.sealed,
        created_at=wanted.at,
        opened_at=wanted.at,
    )
    async with connection.transaction():
        await _lock_making(connection, schema)
        if await _is_there(connection, statements.IS_TABLE, f"{schema}.manifest"):
            return  # another process made it meanwhile
        await connection.execute(statements.create_tables(schema, layout.partitions))
        await connection.execute(statements.keep_manifest(schema), (_STORE, made.to_bytes()))
        await connection.execute(statements.keep_manifest(schema), (_LAYOUT, canonical_bytes(layout)))


async def _read_layout(connection: Connection, wanted: WantedTables, *, known: int) -> StoreLayout:
    schema = wanted.address.schema
    body, layout_body = [await _read_manifest_row(connection, schema, name) for name in (_STORE, _LAYOUT)]
    if body is None or layout_body is None:
        raise StoreForeign("this store has lost its manifest: restore it from a backup")
    try:
        layout = StoreLayout.model_validate_json(layout_body)
    except ValidationError:
        raise StoreForeign("this is not an elytron store: its layout cannot be read") from None
    if layout.schema_version > known:
        raise StoreNewer(found=layout.schema_version, known=known)
    require_match(read_manifest(body), engine=ENGINE, profile=wanted.profile, sealed=wanted.sealed)
    return layout


async def _take_steps(connection: Connection, wanted: WantedTables, steps: Sequence[Step]) -> StoreLayout:
    """Bring the tables to this version, in one transaction: all steps are taken, or none."""
    schema = wanted.address.schema
    async with connection.transaction():
        await _lock_making(connection, schema)
        layout = await _read_layout(connection, wanted, known=1 + len(steps))  # another process may have taken them
        for step in steps[layout.schema_version - 1 :]:
            await connection.execute(step(schema, layout.partitions))
        layout = layout.model_copy(update={"schema_version": 1 + len(steps)})
        await connection.execute(statements.keep_manifest(schema), (_LAYOUT, canonical_bytes(layout)))
    return layout


async def _require_objects(connection: Connection, wanted: WantedTables, layout: StoreLayout) -> None:
    """Note that the blobs are objects from now on. Raises StoreForeign if they are elsewhere than the URL says."""
    given, schema = wanted.address.blobs, wanted.address.schema
    if layout.objects == given:
        return
    if layout.objects:
        raise StoreForeign(
            f"the blobs of this store are objects at {layout.objects}: say so in the URL of every node (blobs=...)"
        )
    noted = layout.model_copy(update={"objects": given})
    await connection.execute(statements.keep_manifest(schema), (_LAYOUT, canonical_bytes(noted)))


async def _read_manifest_row(connection: Connection, schema: str, name: str) -> bytes | None:
    row = await (await connection.execute(statements.find_manifest(schema), (name,), binary=True)).fetchone()
    return None if row is None else row[0]


async def _is_there(connection: Connection, question: bytes, name: str) -> bool:
    ((answer,),) = await (await connection.execute(question, (name,))).fetchall()
    return bool(answer)


async def _lock_making(connection: Connection, schema: str) -> None:
    """Wait until no other process makes the tables of `schema`, to the end of the transaction."""
    number = int.from_bytes(blake2b(f"elytron {schema}".encode(), digest_size=8).digest(), signed=True)
    await connection.execute(statements.LOCK_MAKING, (wide_number(number),))
