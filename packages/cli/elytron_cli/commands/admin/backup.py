"""Copies of the whole store: a backup of the same kind, or all of it in another store."""

import asyncio
import os
from pathlib import Path

import click

from elytron.transfer.migration import CopiedSpace
from elytron.transfer.migration import migrate as migrate_store
from elytron_cli.input.options import command, common
from elytron_cli.runner import output, settings
from elytron_cli.session import keys_of
from elytron_cli.tables import common as tables_common
from elytron_core.clock import SystemClock
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_core.ports.keys import KeyProvider
from elytron_store import parse_url
from elytron_store.backup import back_up


class BackupReport(Value):
    """A backup that was read through and is sound."""

    path: str
    engine: str
    sealed: bool
    size_bytes: int
    spaces: int
    documents: int
    entries: int
    blobs: int


class MigrationReport(Value):
    """Each space in the other store, compared and equal to the original."""

    engine: str
    sealed: bool
    spaces: tuple[CopiedSpace, ...]


@command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@common
def backup(*, file: Path) -> None:
    """Copy the whole store to FILE, while it is in use; if the store is a folder, FILE becomes one.

    Nothing may be at FILE. The copy is on the device and was read through when this ends; a sealed store stays sealed.
    It is a store like any other: --store FILE opens it.
    """
    report_copy(settings().store.value, file)


def report_copy(source: str, target: Path, /) -> None:
    """Copy the store at `source` to `target`, and say what came of it. Raises as `back_up`."""
    found = asyncio.run(back_up(source, target, clock=SystemClock()))
    report = BackupReport(
        path=os.fspath(found.path),
        engine=found.engine,
        sealed=found.sealed,
        size_bytes=found.size_bytes,
        spaces=found.check.spaces,
        documents=found.check.documents,
        entries=found.check.entries,
        blobs=found.check.blobs,
    )
    rows = [(name.replace("_", " "), str(value)) for name, value in report]
    output().report(report, lambda console, _: tables_common.pairs(console, rows))


@command("migrate")
@click.option("--to", "target", required=True, metavar="URL", help="An empty or new store, of any kind.")
@click.option("--to-key-file", metavar="PATH", help="Keys under which the other store is sealed.")
@common
def migrate(*, target: str, to_key_file: str | None) -> None:
    """Copy every space of the store into another store, exactly: documents, journal, and the bytes of files.

    The other store must be empty. Write nothing meanwhile. Each space is compared afterwards; indexes are built again
    there, and idempotency keys are not copied. A new store appears whole or not at all. A store that exists gets each
    space whole or not at all, and a second run goes on after an interruption.
    """
    found = settings()
    out = output()
    if parse_url(found.store.value) == parse_url(target):
        raise InvalidInput(field="--to", problem="is the store itself")
    copied = migrate_store(
        found.store.value, target, clock=SystemClock(), keys=keys_of(found), target_keys=_keys(to_key_file)
    )
    spaces = asyncio.run(copied)
    report = MigrationReport(engine=parse_url(target).engine, sealed=to_key_file is not None, spaces=spaces)
    rows = [(item.space, f"{item.documents} documents, {item.entries} entries, {item.blobs} files") for item in spaces]
    out.report(report, lambda console, _: tables_common.pairs(console, rows or [("spaces", "none")]))


def _keys(file: str | None) -> KeyProvider | None:
    if file is None:
        return None
    from elytron_store.sealed.providers import FileKeys

    return FileKeys(file)
