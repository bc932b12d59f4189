"""The address of a store on a Postgres server: which parts of a URL are the engine's, and which the driver's."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from elytron_core.errors import StoreUrlInvalid

POSTGRES_CONNECTIONS: Final = 16
POSTGRES_CONNECTIONS_MAX: Final = 200
"""Number of connections that a handle keeps to a Postgres server at most, unless its URL says another."""


ENGINE = "postgres"
DEFAULT_SCHEMA = "elytron"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,30}")
_OWN = frozenset({"sealed", "schema", "portable", "connections", "recycle_log", "blobs"})
_OBJECTS = re.compile(r"(?:s3|gs|az|file)://[^\s?#@]{1,200}")
_ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database, the schema of the store in it, and its options. Its representation hides users, passwords and
    settings."""

    conninfo: str = field(repr=False)
    """URL for the driver, which may contain a password."""
    place: str
    """Server and database, without a user."""
    schema: str = DEFAULT_SCHEMA
    sealed: bool = True
    portable: bool = False
    """Commits use no server-side function."""
    connections: int = POSTGRES_CONNECTIONS
    recycles_log: bool = False
    """An erasure makes the server overwrite its log."""
    blobs: str = ""
    """An object store for the blobs; without it, they are in the database."""


def parse_address(url: str, /) -> PostgresAddress:
    """Return what `url` names; nothing is opened.

    `postgresql://user@host:port/database`. Of its query `sealed=no`, `schema=NAME`, `portable=yes`, `connections=N`,
    `blobs=s3://BUCKET/PREFIX` and `recycle_log=yes` are the engine's, all else the driver's (`sslmode`, `host`,
    `target_session_attrs`, ...).
    Raises StoreUrlInvalid, which shows no part of the URL.
    """
    if not url.startswith("postgresql://"):
        raise StoreUrlInvalid(problem="names no server: the URL must begin with postgresql://")
    try:
        url_parts = urlsplit(url)
        parameters = parse_qsl(url_parts.query, keep_blank_values=True, strict_parsing=bool(url_parts.query))
    except ValueError:
        raise StoreUrlInvalid(problem="is not the URL of a Postgres server") from None
    own_parameters = {name: value for name, value in parameters if name in _OWN}
    driver_parameters = [(name, value) for name, value in parameters if name not in own_parameters]
    if len(own_parameters) + len(driver_parameters) != len(parameters) or url_parts.fragment:
        raise StoreUrlInvalid(problem="has a repeated parameter or a fragment")
    schema = own_parameters.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise StoreUrlInvalid(problem="names a schema that is not up to 31 lower-case letters, digits and underscores")
    # libpq reads %20 as a space, and a plus sign literally.
    conninfo = urlunsplit(
        ("postgresql", url_parts.netloc, url_parts.path, urlencode(driver_parameters, quote_via=quote), "")
    )
    return PostgresAddress(
        conninfo=conninfo,
        place=_named_place(url_parts.netloc, url_parts.path, dict(driver_parameters)),
        schema=schema,
        sealed=_read_answer(own_parameters.get("sealed", "yes"), name="sealed"),
        portable=_read_answer(own_parameters.get("portable", "no"), name="portable"),
        connections=_read_connections(own_parameters.get("connections", f"{POSTGRES_CONNECTIONS}")),
        recycles_log=_read_answer(own_parameters.get("recycle_log", "no"), name="recycle_log"),
        blobs=_read_objects(own_parameters.get("blobs")),
    )


def _named_place(netloc: str, path: str, driver_parameters: dict[str, str]) -> str:
    server_name = netloc.rpartition("@")[2] or driver_parameters.get("host", "")
    database = path.removeprefix("/") or driver_parameters.get("dbname", "")
    return f"{server_name}/{database}"


def _read_answer(text: str, /, *, name: str) -> bool:
    if text not in _ANSWERS:
        raise StoreUrlInvalid(problem=f"needs yes or no after {name}=")
    return _ANSWERS[text]


def _read_objects(text: str | None) -> str:
    if text is not None and not _OBJECTS.fullmatch(text):
        raise StoreUrlInvalid(
            problem="names no object store after blobs=: use s3://, gs://, az:// or file://, without a key"
        )
    return (text or "").rstrip("/")


def _read_connections(text: str) -> int:
    max_connections = POSTGRES_CONNECTIONS_MAX
    if not text.isdecimal() or not 1 <= int(text) <= max_connections:
        raise StoreUrlInvalid(problem=f"needs a number from 1 to {max_connections} after connections=")
    return int(text)
