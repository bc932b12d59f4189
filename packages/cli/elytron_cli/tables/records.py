"""Records as people read them at a terminal."""

import json
from typing import TYPE_CHECKING, Any

from elytron_cli.tables.common import table, when
from elytron_cli.terminal.output import line
from elytron_core.contracts.knowledge.records import (
    RecordDeleteReport,
    RecordGetReport,
    RecordHistoryReport,
    RecordNamespaceListReport,
    RecordPutReport,
    RecordSearchReport,
)

if TYPE_CHECKING:
    from rich.console import Console


def stored(console: "Console", report: RecordPutReport, /) -> None:
    """Show what became of a put."""
    told = "stored" if report.changed else "would be stored" if report.dry_run else "unchanged"
    console.print(f"{told}  version {report.record.version}  {report.record.id}", soft_wrap=True)


def shown(console: "Console", report: RecordGetReport, /) -> None:
    """Show one record."""
    record = report.record
    until = f"  until {when(record.expires_at)}" if record.expires_at is not None else ""
    console.print(_json(record.value), soft_wrap=True)
    if record.text:
        console.print(line(record.text), soft_wrap=True)
    console.print(f"version {record.version}  {when(record.updated_at)}{until}  {record.id}", soft_wrap=True)


def deleted(console: "Console", report: RecordDeleteReport, /) -> None:
    """Show what became of a deletion."""
    told = f"deleted {report.id}, version {report.version}" if report.version else "there is no such record"
    console.print(told, soft_wrap=True)


def found(console: "Console", report: RecordSearchReport, /) -> None:
    """Show the records of a search."""
    rows = (
        ("/".join(one.namespace), one.key, one.version, when(one.updated_at), _json(one.value)) for one in report.items
    )
    table(console, ("namespace", "key", "version", "date", "value"), rows, numbers=("version",), none="no records")
    if report.has_more:
        console.print("there are more: --offset continues")


def listed(console: "Console", report: RecordNamespaceListReport, /) -> None:
    """Show namespaces."""
    rows = (("/".join(one.namespace), one.records) for one in report.namespaces)
    table(console, ("namespace", "records"), rows, numbers=("records",), none="no namespaces")
    if report.has_more:
        console.print("there are more: --offset continues")


def versions(console: "Console", report: RecordHistoryReport, /) -> None:
    """Show the versions of a record."""
    rows = ((one.version, when(one.at), "deleted" if one.deleted else _json(one.value)) for one in report.versions)
    table(console, ("version", "date", "value"), rows, numbers=("version",))


def _json(value: Any) -> str:
    return line(json.dumps(value, ensure_ascii=False))
