"""All SQL of the engine: its tables in partitions, the function that commits, and the statements of one partition.

A partition is a number that the name of a space gives by its hash. Each table is that number of plain tables, which
statements name themselves: the server plans no partition, and the remains of one space are rewritten with few others'.
A view of each table's name shows all of them. No statement but those of a whole store looks into two spaces.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Final

from elytron_core.ports.store import QUEUE

SCHEMA_VERSION = 2
"""The number of the steps in `tables`, plus one."""
PARTITIONS = 32
"""For a new store; the number is stored in it and never changes."""

# Keys sort by their bytes on every server, independent of its locale.
_TEXT = 'text COLLATE "C" NOT NULL'
TABLES: Final = {
    "heads": f"space {_TEXT}, sequence bigint NOT NULL, PRIMARY KEY (space)",
    "documents": (
        f"space {_TEXT}, collection {_TEXT}, key {_TEXT}, revision bigint NOT NULL, body bytea NOT NULL, "
        "checksum bytea NOT NULL, PRIMARY KEY (space, collection, key)"
    ),
    "journal": (
        f"space {_TEXT}, sequence bigint NOT NULL, at bigint NOT NULL, action {_TEXT}, collection {_TEXT}, "
        f"key {_TEXT}, digest bytea NOT NULL, covers bigint NOT NULL, checksum bytea NOT NULL, "
        "PRIMARY KEY (space, sequence)"
    ),
    "idempotency": (
        f"space {_TEXT}, key {_TEXT}, digest bytea NOT NULL, answer bytea NOT NULL, first bigint NOT NULL, "
        "last bigint NOT NULL, at bigint NOT NULL, checksum bytea NOT NULL, PRIMARY KEY (space, key)"
    ),
    "blobs": (
        f"space {_TEXT}, key {_TEXT}, upload bigint NOT NULL, parts bigint NOT NULL, size bigint NOT NULL, "
        "checksum bytea NOT NULL, PRIMARY KEY (space, key)"
    ),
    "uploads": f"space {_TEXT}, upload bigint NOT NULL, key {_TEXT}, at bigint NOT NULL, PRIMARY KEY (space, upload)",
    "blob_parts": (
        f"space {_TEXT}, upload bigint NOT NULL, part bigint NOT NULL, checksum bytea NOT NULL, "
        "bytes bytea NOT NULL, PRIMARY KEY (space, upload, part)"
    ),
    "quarantine": (
        f"space {_TEXT}, number bigint NOT NULL, at bigint NOT NULL, damage {_TEXT}, collection {_TEXT}, key {_TEXT}, "
        "revision bigint NOT NULL, upload bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (space, number)"
    ),
}
"""Columns of the tables that hold rows of spaces; every key begins with the space."""
_FILL = {"heads": 50, "documents": 90}
"""Fill factor: the rest of a page is for later states of the same rows, which then need no index entry."""
_RAW = {"documents": "body", "blob_parts": "bytes", "quarantine": "body"}
"""Columns that the server does not compress: sealed data is incompressible."""

BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED"
ONE_STATE = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
ONE_STATE_TO_WRITE = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""First in a transaction of several statements, which then see one state."""
COMMIT = b"COMMIT"
ROLLBACK = b"ROLLBACK"

LOOK_AT_SERVER = b"""
SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('synchronous_commit'),
  current_setting('full_page_writes'), current_setting('server_encoding'), pg_is_in_recovery(),
  current_setting('transaction_read_only'), pg_backend_pid()
"""
"""Facts that an opening reads: the version, settings required by guarantees, and whether it may write."""
TAKES_NO_COMMITS = b"SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
EXAMINE_SERVER = b"""
SELECT name, setting FROM pg_settings WHERE name IN (
  'server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'in_hot_standby',
  'default_transaction_read_only', 'statement_timeout', 'transaction_timeout', 'max_connections', 'data_checksums')
"""
SERVER_ROOM = b"""
SELECT least(
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') + 1,
  (SELECT CASE WHEN rolconnlimit < 0 THEN 1000000 ELSE rolconnlimit END FROM pg_roles WHERE rolname = session_user)
    - (SELECT count(*) FROM pg_stat_activity WHERE usename = session_user) + 1,
  (SELECT CASE WHEN datconnlimit < 0 THEN 1000000 ELSE datconnlimit END FROM pg_database
    WHERE datname = current_database())
    - (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) + 1
), (SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'async')
"""
"""Connections that may still be made, including this one, and replicas that no commit waits for."""


def partition_of(space: str, partitions: int, /) -> int:
    """Return the partition that holds the rows of `space`."""
    return int.from_bytes(blake2b(space.encode(), digest_size=8).digest()) % partitions


def table_name(schema: str, table: str, partition: int, /) -> str:
    """Return the name of the table of a partition."""
    return f"{schema}.{table}_p{partition:02}"


@lru_cache(maxsize=4_096)
def _partition_statement(text: str, schema: str, partition: int) -> bytes:
    for table in TABLES:
        text = text.replace(f"<{table}>", table_name(schema, table, partition))
    return text.replace("<commit>", f"{schema}.commit_1_p{partition:02}").encode()


class PartitionStatements:
    """The statements for the tables of one partition."""

    def __init__(self, schema: str, partition: int, /) -> None:
        self._schema = schema
        self._partition = partition

    def tables(self) -> Iterator[str]:
        """Yield the names of its tables."""
        for table in TABLES:
            yield table_name(self._schema, table, self._partition)

    def of(self, text: str, /) -> bytes:
        """Return the statement `text` of this module with its table names."""
        return _partition_statement(text, self._schema, self._partition)


@cache
def partition_statements(schema: str, partition: int, /) -> PartitionStatements:
    """Return the statements of a partition."""
    return PartitionStatements(schema, partition)


# Reads. Each is one statement, so each sees one state.
_DOCUMENT = "SELECT d.collection, d.key, d.revision, d.body, d.checksum FROM <documents> AS d WHERE d.space = %s AND "
GET_ONE = _DOCUMENT + "d.collection = %s AND d.key = %s"
# Without the OFFSET the planner may read a whole space to join it with the keys.
GET_SEVERAL = """
SELECT f.* FROM unnest(%s, %s) AS t (collection, key) CROSS JOIN LATERAL (
  SELECT d.collection, d.key, d.revision, d.body, d.checksum FROM <documents> AS d
  WHERE d.space = %s AND d.collection = t.collection AND d.key = t.key OFFSET 0
) AS f
"""
SCAN_UP = _DOCUMENT + "d.collection = %s AND d.key >= %s AND d.key < %s AND d.key > %s ORDER BY d.key LIMIT %s"
SCAN_DOWN = _DOCUMENT + "d.collection = %s AND d.key >= %s AND d.key < %s AND d.key < %s ORDER BY d.key DESC LIMIT %s"
COUNT = "SELECT count(*) FROM <documents> WHERE space = %s AND collection = %s"
_ENTRY = "sequence, at, action, collection, key, digest, covers, checksum"
JOURNAL_PAGE = f"SELECT {_ENTRY} FROM <journal> WHERE space = %s AND sequence > %s ORDER BY sequence LIMIT %s"  # noqa: S608 - ours
JOURNAL_RUN = f"SELECT {_ENTRY} FROM <journal> WHERE space = %s AND sequence BETWEEN %s AND %s ORDER BY sequence"  # noqa: S608 - ours
JOURNAL_IS_CUT = """
SELECT h.sequence FROM <heads> AS h WHERE h.space = %s AND h.sequence > %s
  AND NOT EXISTS (SELECT 1 FROM <journal> AS j WHERE j.space = h.space AND j.sequence > %s)
"""
HEAD = "SELECT sequence FROM <heads> WHERE space = %s"

# Commits. The row of the head is locked first, so one transaction at a time writes to a space. An update to the same
# value locks the row; a missing row is created.
LOCK_HEAD = """
INSERT INTO <heads> AS h (space, sequence) VALUES (%s, 0)
ON CONFLICT (space) DO UPDATE SET sequence = h.sequence RETURNING h.sequence
"""
HOLD_HEAD = "SELECT 1 FROM <heads> WHERE space = %s FOR UPDATE"
MOVE_HEAD = "UPDATE <heads> SET sequence = %s WHERE space = %s"
REVISIONS = """
SELECT t.collection, t.key, f.revision FROM unnest(%s, %s) AS t (collection, key) CROSS JOIN LATERAL (
  SELECT d.revision FROM <documents> AS d
  WHERE d.space = %s AND d.collection = t.collection AND d.key = t.key OFFSET 0
) AS f
"""
ANSWERED = """
SELECT key, digest, answer, first, last, at, checksum FROM <idempotency> WHERE space = %s AND key = ANY(%s)
"""
PUT_SEVERAL = """
INSERT INTO <documents> AS d (space, collection, key, revision, body, checksum)
SELECT %s, t.* FROM unnest(%s, %s, %s, %s, %s) AS t
ON CONFLICT (space, collection, key) DO UPDATE
SET revision = excluded.revision, body = excluded.body, checksum = excluded.checksum
"""
DELETE_ONE = "DELETE FROM <documents> WHERE space = %s AND collection = %s AND key = %s"
APPEND = f"INSERT INTO <journal> (space, {_ENTRY}) SELECT %s, t.* FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s) AS t"  # noqa: S608 - ours
REMEMBER = """
INSERT INTO <idempotency> (space, key, digest, answer, first, last, at, checksum)
SELECT %s, t.* FROM unnest(%s, %s, %s, %s, %s, %s, %s) AS t
"""
FORGET_ANSWERS = "DELETE FROM <idempotency> WHERE at < %s"

# Compaction and erasure.
CUT_RUN = "DELETE FROM <journal> WHERE space = %s AND sequence BETWEEN %s AND %s"
NAMED_ENTRIES = """
SELECT j.sequence, j.at, j.action, j.collection, j.key, j.digest, j.covers FROM <journal> AS j
WHERE j.space = %s AND j.digest <> '' AND (j.collection, j.key) IN (SELECT * FROM unnest(%s, %s))
"""
SCRUB = """
UPDATE <journal> AS j SET digest = '', checksum = t.checksum FROM unnest(%s, %s) AS t (sequence, checksum)
WHERE j.space = %s AND j.sequence = t.sequence
"""
ERASE_DOCUMENTS = """
DELETE FROM <documents> AS d USING unnest(%s, %s) AS t (collection, key)
WHERE d.space = %s AND d.collection = t.collection AND d.key = t.key
"""
ERASE_QUARANTINED = """
DELETE FROM <quarantine> AS d USING unnest(%s, %s) AS t (collection, key)
WHERE d.space = %s AND d.collection = t.collection AND d.key = t.key
"""
ERASE_SPACE = {table: f"DELETE FROM <{table}> WHERE space = %s" for table in TABLES}  # noqa: S608 - our own names

# Blobs.
BEGIN_UPLOAD = "INSERT INTO <uploads> (space, upload, key, at) VALUES (%s, %s, %s, %s)"
FIND_UPLOAD = "SELECT 1 FROM <uploads> WHERE space = %s AND upload = %s FOR UPDATE"
END_UPLOAD = "DELETE FROM <uploads> WHERE space = %s AND upload = %s"
STALE_UPLOADS = "SELECT space, upload FROM <uploads> WHERE at < %s"
STAGE_PARTS = """
INSERT INTO <blob_parts> (space, upload, part, checksum, bytes) SELECT %s, %s, t.* FROM unnest(%s, %s, %s) AS t
"""
TRY_TO_WRITE = "INSERT INTO <blob_parts> (space, upload, part, checksum, bytes) VALUES (%s, %s, %s, %s, %s)"
DROP_PARTS = "DELETE FROM <blob_parts> WHERE space = %s AND upload = %s"
DROP_PARTS_BEHIND = "DELETE FROM <blob_parts> WHERE space = %s AND upload = %s AND part >= %s"
FIND_BLOB = "SELECT upload, parts, size, checksum FROM <blobs> WHERE space = %s AND key = %s"
SET_BLOB = """
INSERT INTO <blobs> (space, key, upload, parts, size, checksum) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (space, key) DO UPDATE
SET upload = excluded.upload, parts = excluded.parts, size = excluded.size, checksum = excluded.checksum
"""
DROP_BLOB = "DELETE FROM <blobs> WHERE space = %s AND key = %s"
BLOB_WINDOW = """
SELECT b.upload, b.parts, b.size, b.checksum, p.part, p.bytes, p.checksum FROM <blobs> AS b
LEFT JOIN <blob_parts> AS p ON p.space = b.space AND p.upload = b.upload AND p.part >= %s AND p.part < %s
WHERE b.space = %s AND b.key = %s ORDER BY p.part
"""
UPLOADS_OF = {
    "blobs": "SELECT upload FROM <blobs> WHERE space = %s AND key = %s",
    "uploads": "SELECT upload FROM <uploads> WHERE space = %s AND key = %s",
    "quarantine": "SELECT upload FROM <quarantine> WHERE space = %s AND collection = '' AND key = %s",
}
DROP_UPLOADS_OF = {
    "blobs": DROP_BLOB,
    "uploads": "DELETE FROM <uploads> WHERE space = %s AND key = %s",
    "quarantine": "DELETE FROM <quarantine> WHERE space = %s AND collection = '' AND key = %s",
}

# Check and repair: pages of whole partitions, in the order of their keys.
CHECK_HEADS = "SELECT space, sequence FROM <heads> WHERE space > %s ORDER BY space LIMIT %s"
CHECK_DOCUMENTS = """
SELECT space, collection, key, revision, body, checksum FROM <documents>
WHERE (space, collection, key) > (%s, %s, %s) ORDER BY space, collection, key LIMIT %s
"""
CHECK_JOURNAL = f"""
SELECT space, {_ENTRY} FROM <journal> WHERE (space, sequence) > (%s, %s) ORDER BY space, sequence LIMIT %s
"""  # noqa: S608 - our own names
CHECK_BLOBS = """
SELECT space, key, upload, parts, size, checksum FROM <blobs>
WHERE (space, key) > (%s, %s) ORDER BY space, key LIMIT %s
"""
SET_ASIDE = """
WITH gone AS (DELETE FROM <documents> WHERE space = %s AND collection = %s AND key = %s RETURNING *)
INSERT INTO <quarantine> (space, number, at, damage, collection, key, revision, upload, body)
SELECT space, (SELECT coalesce(max(number), 0) + 1 FROM <quarantine> AS q WHERE q.space = gone.space),
  %s, %s, collection, key, revision, 0, body FROM gone
"""
SET_BLOB_ASIDE = """
WITH gone AS (DELETE FROM <blobs> WHERE space = %s AND key = %s RETURNING *)
INSERT INTO <quarantine> (space, number, at, damage, collection, key, revision, upload, body)
SELECT space, (SELECT coalesce(max(number), 0) + 1 FROM <quarantine> AS q WHERE q.space = gone.space),
  %s, %s, '', key, 0, upload, '' FROM gone
"""
# Number 0 of a space's quarantine is the record of its losses; those of no known space have the empty name.
FIND_LOSS = "SELECT body FROM <quarantine> WHERE space = %s AND number = 0"
FORGET_LOSS = "DELETE FROM <quarantine> WHERE space = %s AND number = 0"
RECORD_LOSS = """
INSERT INTO <quarantine> (space, number, at, damage, collection, key, revision, upload, body)
VALUES (%s, 0, %s, 'loss', 'lost', '0', 0, 0, %s)
ON CONFLICT (space, number) DO UPDATE SET at = excluded.at, body = excluded.body
"""


OWN_TRANSACTION = b"SELECT pg_current_xact_id()::text"
OLDER_READERS = b"""
SELECT (pg_snapshot_xmin(pg_current_snapshot()) <= %(own)s::xid8)::int + (
  SELECT count(*) FROM pg_stat_activity
  WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
    AND age(backend_xmin) >= age((%(own)s::xid8)::xid)
) + (SELECT count(*) FROM pg_replication_slots WHERE age(xmin) >= age((%(own)s::xid8)::xid))
"""
"""Number of visible sessions and other readers that may still see what the transaction removed."""
SWITCH_LOG = b"SELECT pg_switch_wal()"
CHECKPOINT = b"CHECKPOINT"
LOG_SEGMENTS = b"""
SELECT pg_walfile_name(pg_current_wal_lsn()), min(name), max(name) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'
"""
COPIES = b"SELECT (SELECT count(*) FROM pg_stat_replication), current_setting('archive_mode')"
FILE_NUMBERS = b"SELECT array_agg(pg_relation_filenode(t.name::regclass)::bigint) FROM unnest(%s) AS t (name)"


def rewrite_table(table: str, /) -> bytes:
    """Return the statement that rewrites only the rows of `table` to new files."""
    return f"VACUUM (FULL, VERBOSE) {table}".encode()


def spaces_page(schema: str, /) -> bytes:
    """Return the statement that lists spaces in the order of the bytes of their names."""
    return f"SELECT space FROM {schema}.heads WHERE space > %s ORDER BY space LIMIT %s".encode()  # noqa: S608 - ours


def queued_page(schema: str, /) -> bytes:
    """Return the statement that lists the spaces with unfinished jobs, in the same order."""
    return (
        f"SELECT DISTINCT space FROM {schema}.documents WHERE collection = '{QUEUE}' AND space > %s "  # noqa: S608 - ours
        "ORDER BY space LIMIT %s"
    ).encode()


def find_losses(schema: str, /) -> bytes:
    """Return the statement that finds the record of losses of every space."""
    return f"SELECT body FROM {schema}.quarantine WHERE number = 0 ORDER BY space".encode()  # noqa: S608 - ours


def find_manifest(schema: str, /) -> bytes:
    """Return the statement that finds a row of the manifest."""
    return f"SELECT body FROM {schema}.manifest WHERE name = %s".encode()  # noqa: S608 - our own names


def keep_manifest(schema: str, /) -> bytes:
    """Return the statement that writes a row of the manifest."""
    return (
        f"INSERT INTO {schema}.manifest (name, body) VALUES (%s, %s) "  # noqa: S608 - our own names
        "ON CONFLICT (name) DO UPDATE SET body = excluded.body"
    ).encode()


_NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The server's own clock: those of the nodes may differ."""


def note_node(schema: str, /) -> bytes:
    """Return the statement that registers a node's address for a time, as a row of the manifest."""
    values = f"('node ' || %s, convert_to(({_NOW_MS} + %s)::text, 'UTF8'))"
    return (
        f"INSERT INTO {schema}.manifest (name, body) VALUES {values} "  # noqa: S608 - our own names
        "ON CONFLICT (name) DO UPDATE SET body = excluded.body"
    ).encode()


def drop_nodes(schema: str, /) -> bytes:
    """Return the statement that removes one address from the list of nodes, and expired ones."""
    return (
        f"DELETE FROM {schema}.manifest WHERE name LIKE 'node %%' AND (name = 'node ' || %s OR "  # noqa: S608 - ours
        f"CASE WHEN name LIKE 'node %%' THEN convert_from(body, 'UTF8')::bigint END <= {_NOW_MS})"
    ).encode()


def list_nodes(schema: str, /) -> bytes:
    """Return the statement that lists the nodes."""
    return (
        f"SELECT substr(name, 6) FROM {schema}.manifest WHERE "  # noqa: S608 - our own names
        f"CASE WHEN name LIKE 'node %%' THEN convert_from(body, 'UTF8')::bigint END > {_NOW_MS} ORDER BY 1 LIMIT %s"
    ).encode()


IS_TABLE = b"SELECT to_regclass(%s) IS NOT NULL"
IS_FUNCTION = b"SELECT to_regproc(%s) IS NOT NULL"
LOCK_MAKING = b"SELECT pg_advisory_xact_lock(%s)"
"""Locked by whoever creates the tables, to the end of the transaction."""


def create_tables(schema: str, partitions: int, /) -> bytes:
    """Return the statements that create the tables of an empty store: the step to schema 1."""
    statements = [
        f"CREATE SCHEMA IF NOT EXISTS {schema}",
        f"CREATE TABLE {schema}.manifest (name text PRIMARY KEY, body bytea NOT NULL)",
    ]
    for table, columns in TABLES.items():
        names = [table_name(schema, table, partition) for partition in range(partitions)]
        statements += [f"CREATE TABLE {name} ({columns}) WITH (fillfactor = {_FILL.get(table, 100)})" for name in names]
        if table in _RAW:
            statements += [f"ALTER TABLE {name} ALTER COLUMN {_RAW[table]} SET STORAGE EXTERNAL" for name in names]
        rows = " UNION ALL ".join(f"SELECT * FROM {name}" for name in names)  # noqa: S608 - our own names
        statements.append(f"CREATE VIEW {schema}.{table} AS {rows}")
    return ";\n".join(statements).encode()


def index_queues(schema: str, partitions: int, /) -> bytes:
    """Return the statements that index the spaces with a queue: the step to schema 2.

    The server changes the index with the documents, so no commit can leave it out.
    """
    tables = [table_name(schema, "documents", partition) for partition in range(partitions)]
    return ";\n".join(
        f"CREATE INDEX IF NOT EXISTS {table.rpartition('.')[2]}_queued ON {table} (space) WHERE collection = '{QUEUE}'"
        for table in tables
    ).encode()


def create_functions(schema: str, partitions: int, /) -> bytes:
    """Return the statements that create the commit function of each partition."""
    statements: list[str] = []
    for partition in range(partitions):
        text = _COMMIT_FUNCTION
        for table in TABLES:
            text = text.replace(f"<{table}>", table_name(schema, table, partition))
        statements.append(text.replace("<commit>", f"{schema}.commit_1_p{partition:02}"))
    return ";\n".join(statements).encode()


def function_name(schema: str, /) -> str:
    """Return the name of the function of the first partition."""
    return f"{schema}.commit_1_p00"


MISSED = "EL409"
"""SQLSTATE of a group of batches that does not match the stored state; nothing of it was written."""

COMMIT_ARGUMENTS: Final = (
    "p_space text",
    "p_grown bigint",
    *("p_insert_collections text[]", "p_insert_keys text[]", "p_insert_revisions bigint[]"),
    *("p_insert_bodies bytea[]", "p_insert_checksums bytea[]"),
    *("p_update_collections text[]", "p_update_keys text[]", "p_update_expects bigint[]"),
    *("p_update_revisions bigint[]", "p_update_bodies bytea[]", "p_update_checksums bytea[]"),
    *("p_delete_collections text[]", "p_delete_keys text[]", "p_delete_expects bigint[]"),
    *("p_require_collections text[]", "p_require_keys text[]", "p_require_revisions bigint[]"),
    *("p_entry_offsets bigint[]", "p_entry_ats bigint[]", "p_entry_actions text[]", "p_entry_collections text[]"),
    *("p_entry_keys text[]", "p_entry_digests bytea[]", "p_entry_covers bigint[]", "p_entry_checksums bytea[]"),
    *("p_once_keys text[]", "p_once_digests bytea[]", "p_once_answers bytea[]", "p_once_firsts bigint[]"),
    *("p_once_lasts bigint[]", "p_once_ats bigint[]", "p_once_checksums bytea[]"),
)
"""Arguments of the commit function. Offsets, and firsts and lasts, are relative to the previous head."""
COMMIT_CALL = "SELECT <commit>(" + ", ".join(["%s"] * len(COMMIT_ARGUMENTS)) + ")"

# Loops instead of joins for lookups by key: a join may be planned to read a whole space.
_COMMIT_FUNCTION = f"""
CREATE OR REPLACE FUNCTION <commit>({", ".join(COMMIT_ARGUMENTS)}) RETURNS bigint LANGUAGE plpgsql AS $commit$
DECLARE
  v_before bigint;
  v_count bigint;
  v_done bigint;
  v_change record;
BEGIN
  INSERT INTO <heads> AS h (space, sequence) VALUES (p_space, p_grown)
  ON CONFLICT (space) DO UPDATE SET sequence = h.sequence + p_grown RETURNING h.sequence - p_grown INTO v_before;
  IF p_require_keys IS NOT NULL THEN
    SELECT count(*) INTO v_count
    FROM unnest(p_require_collections, p_require_keys, p_require_revisions) AS t (collection, key, revision)
    WHERE t.revision <> coalesce((
      SELECT d.revision FROM <documents> AS d
      WHERE d.space = p_space AND d.collection = t.collection AND d.key = t.key), 0);
    IF v_count > 0 THEN RAISE EXCEPTION 'a demand is missed' USING ERRCODE = '{MISSED}'; END IF;
  END IF;
  IF p_insert_keys IS NOT NULL THEN
    INSERT INTO <documents> (space, collection, key, revision, body, checksum)
    SELECT p_space, t.* FROM unnest(
      p_insert_collections, p_insert_keys, p_insert_revisions, p_insert_bodies, p_insert_checksums) AS t
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_done = ROW_COUNT;
    IF v_done <> cardinality(p_insert_keys) THEN
      RAISE EXCEPTION 'an insert is missed' USING ERRCODE = '{MISSED}';
    END IF;
  END IF;
  IF p_update_keys IS NOT NULL THEN
    FOR v_change IN
      SELECT * FROM unnest(p_update_collections, p_update_keys, p_update_expects, p_update_revisions, p_update_bodies,
        p_update_checksums) AS t (collection, key, expects, revision, body, checksum)
    LOOP
      UPDATE <documents> AS d SET revision = v_change.revision, body = v_change.body, checksum = v_change.checksum
      WHERE d.space = p_space AND d.collection = v_change.collection AND d.key = v_change.key
        AND d.revision = v_change.expects;
      IF NOT FOUND THEN RAISE EXCEPTION 'an update is missed' USING ERRCODE = '{MISSED}'; END IF;
    END LOOP;
  END IF;
  IF p_delete_keys IS NOT NULL THEN
    FOR v_change IN
      SELECT * FROM unnest(p_delete_collections, p_delete_keys, p_delete_expects) AS t (collection, key, expects)
    LOOP
      DELETE FROM <documents> AS d
      WHERE d.space = p_space AND d.collection = v_change.collection AND d.key = v_change.key
        AND d.revision = v_change.expects;
      IF NOT FOUND THEN RAISE EXCEPTION 'a delete is missed' USING ERRCODE = '{MISSED}'; END IF;
    END LOOP;
  END IF;
  INSERT INTO <journal> (space, sequence, at, action, collection, key, digest, covers, checksum)
  SELECT p_space, v_before + t.after, t.at, t.action, t.collection, t.key, t.digest, t.covers, t.checksum
  FROM unnest(p_entry_offsets, p_entry_ats, p_entry_actions, p_entry_collections, p_entry_keys, p_entry_digests,
    p_entry_covers, p_entry_checksums) AS t (after, at, action, collection, key, digest, covers, checksum);
  IF p_once_keys IS NOT NULL THEN
    INSERT INTO <idempotency> (space, key, digest, answer, first, last, at, checksum)
    SELECT p_space, t.key, t.digest, t.answer, v_before + t.first, v_before + t.last, t.at, t.checksum
    FROM unnest(p_once_keys, p_once_digests, p_once_answers, p_once_firsts, p_once_lasts, p_once_ats,
      p_once_checksums) AS t (key, digest, answer, first, last, at, checksum)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_done = ROW_COUNT;
    IF v_done <> cardinality(p_once_keys) THEN
      RAISE EXCEPTION 'a key is used' USING ERRCODE = '{MISSED}';
    END IF;
  END IF;
  RETURN v_before;
END
$commit$
"""  # noqa: S608 - our own names
