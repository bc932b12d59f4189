"""The server of a store: whether it is fit for one, which settings endanger promises, and whether it takes commits."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import psycopg
from pydantic import BaseModel, ValidationError

from elytron_core.errors import StoreReadOnly, StoreRefused
from elytron_store import limits as store_limits
from elytron_store.postgres import statements
from elytron_store.postgres.address import PostgresAddress
from elytron_store.postgres.connections import Connection, connect_once, translate_error, wide_number
from elytron_store.postgres.statements import PartitionStatements

OLDEST_SERVER = 140_000
_REPLICA = (
    "this Postgres server is a read-only replica, or its database is read-only: name the primary server "
    "in the URL, or add target_session_attrs=read-write to one that names several"
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts of a server that an opening reads."""

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
        found = await connection.execute(statements.LOOK_AT_SERVER)
        ((version, fsync, commit, pages, encoding, replica, read_only, process),) = await found.fetchall()
        return cls(version, fsync, commit, pages, encoding, replica, read_only == "on", process)

    def require_fit(self) -> None:
        """Raise StoreRefused for a server that cannot keep the promises of a store, StoreReadOnly for a replica."""
        if self.version < OLDEST_SERVER:
            raise StoreRefused(
                f"this Postgres server is of version {self.version // 10_000}: use one of version 14 or newer"
            )
        if self.encoding != "UTF8":
            raise StoreRefused(
                f"this database has the encoding {self.encoding}: make one with UTF8 (createdb -E UTF8 -T template0)"
            )
        if self.is_replica or self.is_read_only:
            raise StoreReadOnly(_REPLICA)
        for name, value in (("fsync", self.fsync), ("synchronous_commit", self.synchronous_commit)):
            if value == "off":
                raise StoreRefused(
                    f"this Postgres server has {name} = off, so what it acknowledges may be lost: set {name} = on "
                    "for the server, the database and this user"
                )
        if self.full_page_writes == "off":
            raise StoreRefused(
                "this Postgres server has full_page_writes = off, so a power cut may tear its pages: set it on"
            )


async def require_commits(connection: Connection, own: PartitionStatements, /, *, is_tried: bool) -> None:
    """Raise what keeps the server from taking commits: StoreReadOnly, and the error of a trial if it `is_tried`.

    The trial writes pages to the tables of a partition, and takes them back.
    """
    ((is_closed,),) = await (await connection.execute(statements.TAKES_NO_COMMITS)).fetchall()
    if is_closed:
        raise StoreReadOnly(_REPLICA)
    if is_tried:
        async with connection.transaction(force_rollback=True):
            trial = ("", wide_number(0), wide_number(0), b"", os.urandom(store_limits.POSTGRES_TRIAL_BYTES))
            await connection.execute(own.of(statements.TRY_TO_WRITE), trial, binary=True)


class ServerSetting(NamedTuple):
    """A setting or figure of a server, and the danger that it is for a store; empty if it is none."""

    name: str
    value: str
    danger: str = ""


async def examine_server(address: PostgresAddress, /) -> Sequence[ServerSetting]:
    """Return what a server says of itself, with what endangers a store there; nothing is changed, and no store opened.

    Raises StoreUnavailable, StoreRefused, StoreCrowded.
    """
    try:
        async with await connect_once(address) as connection:
            found = await (await connection.execute(statements.EXAMINE_SERVER)).fetchall()
            ((room, replicas),) = await (await connection.execute(statements.SERVER_ROOM)).fetchall()
            version = await _found_schema(connection, address.schema)
    except psycopg.Error as error:
        raise translate_error(error, doing="examining") from None
    settings: dict[str, str] = {str(name): str(value) for name, value in found}
    dangers = dict(_setting_dangers(settings))
    return (
        *(ServerSetting(name, settings[name], dangers.get(name, "")) for name in sorted(settings)),
        ServerSetting("connections left", f"{room}", _room_danger(int(room), address.connections)),
        ServerSetting("replicas behind", f"{replicas}", _REPLICAS_BEHIND if replicas else ""),
        ServerSetting("schema", version),
    )


async def _found_schema(connection: Connection, schema: str) -> str:
    """Return the version of a store's tables beside the one of this build."""
    ((is_there,),) = await (await connection.execute(statements.IS_TABLE, (f"{schema}.manifest",))).fetchall()
    body = None
    if is_there:
        body = await (await connection.execute(statements.find_manifest(schema), ("layout",), binary=True)).fetchone()
    if body is None:
        return f"none; this build makes version {statements.SCHEMA_VERSION}"
    try:
        found = _FoundVersion.model_validate_json(body[0]).schema_version
    except ValidationError:
        return "unreadable"
    return f"version {found}; this build knows {statements.SCHEMA_VERSION}"


class _FoundVersion(BaseModel):
    schema_version: int


_REPLICAS_BEHIND = (
    "replicas follow behind the server: commits that they have not may be lost when one of them takes over "
    "(synchronous_standby_names has commits wait for them)"
)
_NOT_ON_REPLICAS = "commits that a replica has not on its disk may be lost when it takes over: set it on"
_STOPS_LONG_STEPS = "it breaks off steps that take long, such as checks and erasures: leave it out for this user"
_MUST_BE_ON = {
    "fsync": "acknowledged commits may be lost in a power cut: set it on",
    "full_page_writes": "a power cut may tear pages: set it on",
    "synchronous_commit": "acknowledged commits may be lost: set it on for the server, the database and this user",
}


def _setting_dangers(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that endanger a store, with the reason."""
    for name, danger in _MUST_BE_ON.items():
        if settings.get(name) == "off":
            yield name, danger
    if settings.get("synchronous_commit") in {"local", "remote_write"} and settings.get("synchronous_standby_names"):
        yield (
            "synchronous_commit",
            _NOT_ON_REPLICAS,
        )
    for name in ("in_hot_standby", "default_transaction_read_only"):
        if settings.get(name) == "on":
            yield name, "nothing can be stored here: name the primary server in the URL"
    for name in ("statement_timeout", "transaction_timeout"):
        if 0 < int(settings.get(name, 0)) < store_limits.POSTGRES_LONG_STEP_MS:
            yield name, _STOPS_LONG_STEPS


def _room_danger(room: int, wanted: int) -> str:
    if room >= wanted:
        return ""
    return (
        f"each process may take {wanted}: raise max_connections (or the limit of the user or database), or say "
        "connections=N in the URL of every node"
    )
