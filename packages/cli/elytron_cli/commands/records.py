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
_EXPECT = click.option("--expect", "expected_version", type=int, metavar="N", help="Expected version (0 = none).")
_OFFSET = click.option("--offset", type=int, default=0, show_default=True, help="Number of results to skip.")


@click.group("records", cls=PageGroup)
@common_options
def records_group() -> None:
    """Store JSON values under namespaces and keys; '/' separates the parts of a NAMESPACE: users/ada/notes."""


@records_group.command("put")
@_NAMESPACE
@_KEY
@click.argument("value")
@click.option("--text", default="", metavar="TEXT", help="Text to search by.")
@click.option("--ttl", "ttl_s", type=int, metavar="SECONDS", help="Lifetime of the record, in seconds.")
@choice_option("--privacy", FactPrivacy.SHARED, "Privacy of the record.")
@_EXPECT
@dry_run_option()
@common_options
def put_command(*, namespace: str, value: str, dry_run: bool, **options: Any) -> int | None:
    """Store the JSON VALUE under NAMESPACE and KEY."""
    record_value = _json_value(value, field="VALUE")
    request = RecordPutRequest(namespace=namespace_parts(namespace), value=record_value, dry_run=dry_run, **options)
    return answer_request(request, tables_records.show_stored_record, when_missing=storing_missing(dry_run=dry_run))


@records_group.command("get")
@_NAMESPACE
@_KEY
@private_option
@common_options
def get_command(*, namespace: str, key: str, include_private: bool) -> int | None:
    """Show the record at NAMESPACE and KEY."""
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
def delete_command(*, namespace: str, key: str, yes: bool, dry_run: bool, **options: Any) -> int | None:
    """Delete the record at NAMESPACE and KEY; `elytron erase` with its id also removes its history."""
    if not dry_run:
        confirm_question(f"Delete the record {key!r}?", yes=yes)
    request = RecordDeleteRequest(namespace=namespace_parts(namespace), key=key, dry_run=dry_run, **options)
    return answer_request(request, tables_records.show_deleted_record)


@records_group.command("search")
@click.argument("namespace", default="")
@click.option("--query", default="", metavar="TEXT", help="Text to search for; best matches come first.")
@click.option("--where", default="{}", metavar="JSON", help='Conditions on values, for example {"size": {"gte": 3}}.')
@limit_option("Maximum number of records.")
@_OFFSET
@private_option
@common_options
def search_command(*, namespace: str, where: str, **options: Any) -> int | None:
    """Search the records whose namespace begins with NAMESPACE."""
    filter_value = _json_value(where, field="--where")
    if not isinstance(filter_value, dict):
        raise InvalidInput(field="--where", problem="is not a JSON object")
    conditions = where_from(cast("dict[str, Any]", filter_value))
    request = RecordSearchRequest(namespace=namespace_parts(namespace), where=conditions, **options)
    return answer_request(request, tables_records.show_found_records)


@records_group.command("namespaces")
@click.argument("prefix", default="")
@click.option("--depth", "max_depth", type=int, metavar="N", help="Maximum number of namespace parts to show.")
@limit_option("Maximum number of namespaces.")
@_OFFSET
@private_option
@common_options
def namespaces_command(*, prefix: str, **options: Any) -> int | None:
    """List the namespaces that begin with PREFIX, with the number of records in each."""
    return answer_request(
        RecordNamespaceListRequest(prefix=namespace_parts(prefix), **options), tables_records.record_table
    )


@records_group.command("history")
@_NAMESPACE
@_KEY
@private_option
@common_options
def history_command(*, namespace: str, key: str, include_private: bool) -> int | None:
    """Show the versions of the record at NAMESPACE and KEY, oldest first, even if it was deleted."""
    request = RecordHistoryRequest(namespace=namespace_parts(namespace), key=key, include_private=include_private)
    return answer_request(request, tables_records.show_record_versions)


def namespace_parts(namespace: str, /) -> tuple[str, ...]:
    """Return the parts of a namespace as typed; none for an empty one."""
    return tuple(namespace.split("/")) if namespace else ()


def _json_value(text: str, *, field: str) -> Any:
    try:
        return parse_json(text.encode())
    except InvalidInput as error:
        raise InvalidInput(field=field, problem=error.problem) from None
