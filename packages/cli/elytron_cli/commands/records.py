"""Records: JSON values under a namespace and a key."""

from typing import Any, cast

import click

from elytron.api.metadata_filters import where_from
from elytron_cli.input.options import (
    PageGroup,
    choice_option,
    common_options,
    dry_run_option,
    limit_option,
    private_option,
    reason_option,
    yes_option,
)
from elytron_cli.session import answer_request, storing_missing
from elytron_cli.tables import planes as tables_records
from elytron_cli.terminal.output import confirm_question
from elytron_core.contracts.records import (
    RecordDeleteRequest,
    RecordGetRequest,
    RecordHistoryRequest,
    RecordNamespaceListRequest,
    RecordPutRequest,
    RecordSearchRequest,
)
from elytron_core.errors import InvalidInput
from elytron_core.planes.facts import FactPrivacy
from elytron_core.strict_json import parse_json

_NAMESPACE = click.argument("namespace")
_KEY = click.argument("key")
_EXPECT = click.option("--expect", "expected_version", type=int, metavar="N", help="Only if it has version N; 0: none.")
_OFFSET = click.option("--offset", type=int, default=0, show_default=True, help="How many to leave out first.")


@click.group("records", cls=PageGroup)
@common_options
def records_group() -> None:
    """Keep JSON values under namespaces and keys. The parts of a NAMESPACE are separated by '/': users/ada/notes."""


@records_group.command("put")
@_NAMESPACE
@_KEY
@click.argument("value")
@click.option("--text", default="", metavar="TEXT", help="What a search by words reads.")
@click.option("--ttl", "ttl_s", type=int, metavar="SECONDS", help="After how long it is gone.")
@choice_option("--privacy", FactPrivacy.SHARED, "Who may be shown it.")
@_EXPECT
@dry_run_option()
@common_options
def put_command(*, namespace: str, value: str, dry_run: bool, **asked: Any) -> int | None:
    """Store VALUE, which is JSON, under NAMESPACE and KEY."""
    stored = _json_value(value, field="VALUE")
    request = RecordPutRequest(namespace=namespace_parts(namespace), value=stored, dry_run=dry_run, **asked)
    return answer_request(request, tables_records.show_stored_record, when_missing=storing_missing(dry_run=dry_run))


@records_group.command("get")
@_NAMESPACE
@_KEY
@private_option
@common_options
def get_command(*, namespace: str, key: str, include_private: bool) -> int | None:
    """Show the record of NAMESPACE and KEY."""
    request = RecordGetRequest(namespace=namespace_parts(namespace), key=key, include_private=include_private)
    return answer_request(request, tables_records.record_details)


@records_group.command("delete")
@_NAMESPACE
@_KEY
@_EXPECT
@reason_option()
@dry_run_option()
@yes_option
@common_options
def delete_command(*, namespace: str, key: str, yes: bool, dry_run: bool, **asked: Any) -> int | None:
    """Delete the record of NAMESPACE and KEY. Its history stays; `elytron erase` with its id removes that too."""
    if not dry_run:
        confirm_question(f"Delete the record {key!r}?", yes=yes)
    request = RecordDeleteRequest(namespace=namespace_parts(namespace), key=key, dry_run=dry_run, **asked)
    return answer_request(request, tables_records.show_deleted_record)


@records_group.command("search")
@click.argument("namespace", default="")
@click.option("--query", default="", metavar="TEXT", help="Only those whose text answers it, best first.")
@click.option("--where", default="{}", metavar="JSON", help='Only values that meet it: {"size": {"gte": 3}}.')
@limit_option("How many records to show at most.")
@_OFFSET
@private_option
@common_options
def search_command(*, namespace: str, where: str, **asked: Any) -> int | None:
    """Show the records whose namespace begins with NAMESPACE."""
    nested = _json_value(where, field="--where")
    if not isinstance(nested, dict):
        raise InvalidInput(field="--where", problem="is no JSON object")
    conditions = where_from(cast("dict[str, Any]", nested))
    request = RecordSearchRequest(namespace=namespace_parts(namespace), where=conditions, **asked)
    return answer_request(request, tables_records.show_found_records)


@records_group.command("namespaces")
@click.argument("prefix", default="")
@click.option("--depth", "max_depth", type=int, metavar="N", help="Cut namespaces to N parts.")
@limit_option("How many namespaces to show at most.")
@_OFFSET
@private_option
@common_options
def namespaces_command(*, prefix: str, **asked: Any) -> int | None:
    """Show the namespaces that begin with PREFIX, and how many records each holds."""
    return answer_request(
        RecordNamespaceListRequest(prefix=namespace_parts(prefix), **asked), tables_records.record_table
    )


@records_group.command("history")
@_NAMESPACE
@_KEY
@private_option
@common_options
def history_command(*, namespace: str, key: str, include_private: bool) -> int | None:
    """Show the versions of the record of NAMESPACE and KEY, oldest first; also of a deleted one."""
    request = RecordHistoryRequest(namespace=namespace_parts(namespace), key=key, include_private=include_private)
    return answer_request(request, tables_records.show_record_versions)


def namespace_parts(namespace: str, /) -> tuple[str, ...]:
    """Return the parts of a namespace as it is typed; none of an empty one."""
    return tuple(namespace.split("/")) if namespace else ()


def _json_value(text: str, *, field: str) -> Any:
    try:
        return parse_json(text.encode())
    except InvalidInput as error:
        raise InvalidInput(field=field, problem=error.problem) from None
