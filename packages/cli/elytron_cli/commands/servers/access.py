"""Commands for the access keys of a server."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from elytron_cli.input.options import PageGroup, common_options, yes_option
from elytron_cli.input.values import valid_value
from elytron_cli.session import open_session, require_own_store, run_output, run_settings
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import confirm_question
from elytron_core.errors import InvalidInput, Unsupported
from elytron_core.model import Value
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from elytron_adapter.access_keys import AccessKeyIssued, AccessKeyReport, AccessKeys
    from elytron_core.planes.servers.system_documents import KeyQuota


PAGE = 1_000
ReportT = TypeVar("ReportT", bound=Value)
KINDS = ("operator", "user", "device")


@click.group("access", cls=PageGroup)
@common_options
def access_group() -> None:
    """Create, list, rotate and revoke the access keys of a server over this store."""


def quota_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a quota to `command`, which takes them as keywords."""
    for name, text in (
        ("--bytes-per-day", "Limit of request bytes per day (UTC)."),
        ("--calls-per-day", "Limit of calls per day (UTC)."),
        ("--calls-per-minute", "Limit of calls per minute. [default: the server's limit]"),
    ):
        command = click.option(name, type=click.IntRange(min=1), metavar="N", help=text)(command)
    return command


@access_group.command("add")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="Kind of caller, with its permissions.")
@click.option("--label", required=True, metavar="TEXT", help="Label of the key, shown in lists.")
@quota_options
@common_options
def add_command(*, kind: str, label: str, **limits: int | None) -> None:
    """Create an access key and print it once; the key of a user or device opens the space that --space names."""
    from elytron_adapter.access_keys import AccessAddRequest
    from elytron_core.planes.servers.system_documents import PrincipalKind

    space = None if kind == PrincipalKind.OPERATOR else run_settings().space.value
    request = valid_value(
        AccessAddRequest, kind=PrincipalKind(kind), space=space, label=label, quota=_given_quota(limits)
    )

    _tell_issued(_from_keys(lambda keys: keys.add(request), when_missing=WhenMissing.MAKE))


@access_group.command("list")
@common_options
def list_keys() -> None:
    """List the access keys with their owners and fingerprints, without the keys themselves."""
    from elytron_adapter.access_keys import AccessKeyList, AccessListRequest

    async def every_key(keys: "AccessKeys") -> AccessKeyList:
        page = await keys.list(AccessListRequest(limit=PAGE))
        reports = [*page.items]
        while page.next_cursor is not None:
            page = await keys.list(AccessListRequest(limit=PAGE, cursor=page.next_cursor))
            reports += page.items
        return AccessKeyList(items=tuple(reports))

    report = _from_keys(every_key)
    listing = "\n".join(map(_key_line, report.items)) or "no keys"
    run_output().report(report, lambda console, _: console.print(listing, soft_wrap=True))


@access_group.command("rotate")
@click.argument("key_id", metavar="ID")
@common_options
def rotate_command(*, key_id: str) -> None:
    """Replace the secret of the key ID and print it once; the old secret stops working immediately."""
    from elytron_adapter.access_keys import AccessKeyRequest

    request = valid_value(AccessKeyRequest, id=key_id)
    _tell_issued(_from_keys(lambda keys: keys.rotate(request)))


@access_group.command("quota")
@click.argument("key_id", metavar="ID")
@quota_options
@common_options
def quota_command(*, key_id: str, **limits: int | None) -> None:
    """Set the quota of the key ID, or remove the quota if no limit is given."""
    from elytron_adapter.access_keys import AccessQuotaRequest

    request = valid_value(AccessQuotaRequest, id=key_id, quota=_given_quota(limits))
    _tell_key(_from_keys(lambda keys: keys.set_quota(request)))


@access_group.command("revoke")
@click.argument("key_id", metavar="ID")
@yes_option
@common_options
def revoke_command(*, key_id: str, yes: bool) -> None:
    """Revoke the key ID; it stops working immediately."""
    from elytron_adapter.access_keys import AccessKeyRequest

    confirm_question(f"Revoke the key {key_id!r}? This cannot be undone.", yes=yes)
    request = valid_value(AccessKeyRequest, id=key_id)
    _tell_key(_from_keys(lambda keys: keys.revoke(request)))


def _given_quota(limits: dict[str, int | None]) -> "KeyQuota | None":
    from elytron_core.planes.servers.system_documents import KeyQuota

    return valid_value(KeyQuota, **limits) if any(limits.values()) else None


def _from_keys(
    call: Callable[["AccessKeys"], Awaitable[ReportT]], *, when_missing: WhenMissing = WhenMissing.REFUSE
) -> ReportT:
    """Return the result of `call` for the access keys of the store."""
    from elytron_adapter.access_keys import AccessKeys

    settings = run_settings()
    require_own_store(settings)

    async def whole() -> ReportT:
        async with open_session(settings, when_missing=when_missing) as session:
            return await call(AccessKeys(session.runtime.context))

    return asyncio.run(whole())


def _tell_issued(issued: "AccessKeyIssued") -> None:
    rows = [
        ("key", issued.key),
        ("webhook secret", issued.webhook_secret or f"none; {issued.no_webhooks}"),
        ("id", issued.access.id),
        ("", "these are shown only once and stored nowhere; copy them into the programs that use them"),
    ]
    run_output().report(issued, lambda console, _: tables_layout.show_pairs(console, rows))


def _tell_key(report: "AccessKeyReport") -> None:
    run_output().report(report, lambda console, _: console.print(_key_line(report), soft_wrap=True))


def _key_line(item: "AccessKeyReport") -> str:
    state = "revoked" if item.revoked_at is not None else item.fingerprint
    last_use = "never used" if item.last_used_at is None else f"used {tables_layout.minute_text(item.last_used_at)}"
    space = item.space or "(every space)"
    return f"{item.id}  {item.kind:<8}  {state:<12}  {last_use:<21}  {space}  {item.label}{_quota_line(item)}"


def _quota_line(item: "AccessKeyReport") -> str:
    quota_limits = item.quota.model_dump(exclude_none=True) if item.quota is not None else {}
    return "".join(f"  {name.replace('_', ' ')}: {limit}" for name, limit in quota_limits.items())


class KeyReport(Value):
    """A key file after it was created or given a new key. Key ids are not secret."""

    file: str
    current: str
    rewrapped: int = 0
    """Data keys in the store that were re-wrapped under the current key."""


@click.group("keys", cls=PageGroup)
@common_options
def keys_group() -> None:
    """Create and rotate the keys of sealed stores. Store the key file apart from the store and its backups."""


@keys_group.command("create")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@common_options
def create_command(*, file: Path | None) -> None:
    """Create the key FILE with one random key, readable only by you. [default: the file of --key-file]

    A new store opened with it is sealed. If the file is lost, so is the store.
    """
    from elytron_store.sealed.providers import FileKeys

    path = file or _key_file()
    file_keys = FileKeys.create(path)
    report = KeyReport(file=str(path), current=file_keys.current())
    run_output().report(report, lambda console, _: console.print(f"created {path}, current key {report.current}"))


@keys_group.command("rotate")
@common_options
def rotate_keys() -> None:
    """Add a new key to the key file and re-encrypt the store's data keys with it; documents are not rewritten."""
    from elytron.journal.follower import inner_store
    from elytron_store.sealed.providers import FileKeys
    from elytron_store.sealed.store import SealedStore

    settings = run_settings()
    path = _key_file()

    async def work() -> KeyReport:
        # Opened first: a wrong store must not leave a new key behind.
        async with open_session(settings) as session:
            store = inner_store(session.runtime.context.store)
            if not isinstance(store, SealedStore):
                raise Unsupported("this store is not sealed: there is no key to rotate")
            new_key = FileKeys(path).add_key()
            return KeyReport(file=str(path), current=new_key, rewrapped=await store.rotate_key_encryption())

    report = asyncio.run(work())
    summary = f"current key {report.current}; {report.rewrapped} data keys encrypted under it"
    hint = "rotate the other stores that use this key file too"
    run_output().report(report, lambda console, _: console.print(f"{summary}; {hint}", soft_wrap=True))


def _key_file() -> Path:
    setting = run_settings().key_file
    if setting is None:
        raise InvalidInput(field="--key-file", problem="is missing: name the key file")
    return Path(setting.value)
