"""Records as people read them at a terminal."""

import json
from typing import TYPE_CHECKING, Any

from elytron_cli.tables.common import new_table, when
from elytron_cli.terminal.output import line
from elytron_core.contracts.knowledge.records import (
    RecordHistoryReport,
    RecordItem,
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


def shown(console: "Console", record: RecordItem, /) -> None:
    """Show one record."""
    until = f"  until {when(record.expires_at)}" if record.expires_at is not None else ""
    console.print(_json(record.value), soft_wrap=True)
    if record.text:
        console.print(line(record.text), soft_wrap=True)
    console.print(f"version {record.version}  {when(record.updated_at)}{until}  {record.id}", soft_wrap=True)


def found(console: "Console", report: RecordSearchReport, /) -> None:
    """Show the records of a search."""
    rows = new_table("namespace", "key", "version", "date", "value", numbers=("version",))
    for one in report.items:
        rows.add_row(
            line("/".join(one.namespace)), line(one.key), str(one.version), when(one.updated_at), _json(one.value)
        )
    console.print(rows)
    if report.has_more:
        console.print("there are more: --offset continues")


def listed(console: "Console", report: RecordNamespaceListReport, /) -> None:
    """Show namespaces."""
    rows = new_table("namespace", "records", numbers=("records",))
    for one in report.namespaces:
        rows.add_row(line("/".join(one.namespace)), str(one.records))
    console.print(rows)
    if report.has_more:
        console.print("there are more: --offset continues")


def versions(console: "Console", report: RecordHistoryReport, /) -> None:
    """Show the versions of a record."""
    rows = new_table("version", "date", "value", numbers=("version",))
    for one in report.versions:
        rows.add_row(str(one.version), when(one.at), "deleted" if one.deleted else _json(one.value))
    console.print(rows)


def _json(value: Any) -> str:
    return line(json.dumps(value, ensure_ascii=False))
