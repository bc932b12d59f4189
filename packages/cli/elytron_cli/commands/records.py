"""Records: JSON values under a namespace and a key."""

from typing import Any, cast

import click

from elytron.api.metadata_filters import where_from
from elytron_cli.input.options import Group, asking, choosing, common, disclosing, dry, limited, reasoned
from elytron_cli.runner import answer, storing
from elytron_cli.tables import planes as tables_records
from elytron_cli.terminal.confirmation import confirm
from elytron_core.contracts.records import (
    RecordDeleteRequest,
    RecordGetRequest,
    RecordHistoryRequest,
    RecordNamespaceListRequest,
    RecordPutRequest,
    RecordSearchRequest,
)
from elytron_core.errors import InvalidInput
from elytron_core.planes.facts import Privacy
from elytron_core.strict_json import parse

_NAMESPACE = click.argument("namespace")
_KEY = click.argument("key")
_EXPECT = click.option("--expect", "expected_version", type=int, metavar="N", help="Only if it has version N; 0: none.")
_OFFSET = click.option("--offset", type=int, default=0, show_default=True, help="How many to leave out first.")


@click.group("records", cls=Group)
@common
def records() -> None:
    """Keep JSON values under namespaces and keys. The parts of a NAMESPACE are separated by '/': users/ada/notes."""


@records.command("put")
@_NAMESPACE
@_KEY
@click.argument("value")
@click.option("--text", default="", metavar="TEXT", help="What a search by words reads.")
@click.option("--ttl", "ttl_s", type=int, metavar="SECONDS", help="After how long it is gone.")
@choosing("--privacy", Privacy.SHARED, "Who may be shown it.")
@_EXPECT
@dry()
@common
def put(*, namespace: str, value: str, dry_run: bool, **asked: Any) -> int | None:
    """Store VALUE, which is JSON, under NAMESPACE and KEY."""
    stored = _json(value, field="VALUE")
    request = RecordPutRequest(namespace=parts(namespace), value=stored, dry_run=dry_run, **asked)
    return answer(request, tables_records.stored, when_missing=storing(dry_run=dry_run))


@records.command("get")
@_NAMESPACE
@_KEY
@disclosing
@common
def get(*, namespace: str, key: str, include_private: bool) -> int | None:
    """Show the record of NAMESPACE and KEY."""
    request = RecordGetRequest(namespace=parts(namespace), key=key, include_private=include_private)
    return answer(request, tables_records.record_details)


@records.command("delete")
@_NAMESPACE
@_KEY
@_EXPECT
@reasoned()
@dry()
@asking
@common
def delete(*, namespace: str, key: str, yes: bool, dry_run: bool, **asked: Any) -> int | None:
    """Delete the record of NAMESPACE and KEY. Its history stays; `elytron erase` with its id removes that too."""
    if not dry_run:
        confirm(f"Delete the record {key!r}?", yes=yes)
    request = RecordDeleteRequest(namespace=parts(namespace), key=key, dry_run=dry_run, **asked)
    return answer(request, tables_records.deleted)


@records.command("search")
@click.argument("namespace", default="")
@click.option("--query", default="", metavar="TEXT", help="Only those whose text answers it, best first.")
@click.option("--where", default="{}", metavar="JSON", help='Only values that meet it: {"size": {"gte": 3}}.')
@limited("How many records to show at most.")
@_OFFSET
@disclosing
@common
def search(*, namespace: str, where: str, **asked: Any) -> int | None:
    """Show the records whose namespace begins with NAMESPACE."""
    nested = _json(where, field="--where")
    if not isinstance(nested, dict):
        raise InvalidInput(field="--where", problem="is no JSON object")
    conditions = where_from(cast("dict[str, Any]", nested))
    request = RecordSearchRequest(namespace=parts(namespace), where=conditions, **asked)
    return answer(request, tables_records.found)


@records.command("namespaces")
@click.argument("prefix", default="")
@click.option("--depth", "max_depth", type=int, metavar="N", help="Cut namespaces to N parts.")
@limited("How many namespaces to show at most.")
@_OFFSET
@disclosing
@common
def namespaces(*, prefix: str, **asked: Any) -> int | None:
    """Show the namespaces that begin with PREFIX, and how many records each holds."""
    return answer(RecordNamespaceListRequest(prefix=parts(prefix), **asked), tables_records.record_table)


@records.command("history")
@_NAMESPACE
@_KEY
@disclosing
@common
def history(*, namespace: str, key: str, include_private: bool) -> int | None:
    """Show the versions of the record of NAMESPACE and KEY, oldest first; also of a deleted one."""
    request = RecordHistoryRequest(namespace=parts(namespace), key=key, include_private=include_private)
    return answer(request, tables_records.versions)


def parts(namespace: str, /) -> tuple[str, ...]:
    """Return the parts of a namespace as it is typed; none of an empty one."""
    return tuple(namespace.split("/")) if namespace else ()


def _json(text: str, *, field: str) -> Any:
    try:
        return parse(text.encode())
    except InvalidInput as error:
        raise InvalidInput(field=field, problem=error.problem) from None
