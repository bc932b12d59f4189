"""Access keys: who may call a server over this store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elytron_cli.input.files import valid
from elytron_cli.input.options import Group, asking, common
from elytron_cli.runner import output, settings
from elytron_cli.session import opened
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.confirmation import confirm
from elytron_cli.terminal.output import Output
from elytron_core.errors import InvalidInput, Unsupported
from elytron_core.model import Value
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from elytron_adapter.identity.access_keys import AccessKeyIssued, AccessKeyReport, AccessKeys
    from elytron_core.planes.space import KeyQuota


PAGE = 1_000
KINDS = ("operator", "user", "device")


@click.group("access", cls=Group)
@common
def access() -> None:
    """Make, list, rotate and revoke the keys with which a server over this store is called."""


def quota_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a quota to `command`, which takes them as keywords."""
    for name, text in (
        ("--bytes-per-day", "Most bytes of requests in a day (UTC)."),
        ("--calls-per-day", "Most calls in a day (UTC)."),
        ("--calls-per-minute", "Most calls in a minute; without it, the server's own bound."),
    ):
        command = click.option(name, type=click.IntRange(min=1), metavar="N", help=text)(command)
    return command


@access.command("add")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What its holder may do.")
@click.option("--label", required=True, metavar="TEXT", help="What the key is for, as lists show it.")
@quota_options
@common
def add(*, kind: str, label: str, **limits: int | None) -> None:
    """Make a key and print it, this once. A user's or device's is for the space that --space names."""
    from elytron_adapter.identity.access_keys import AccessAddRequest
    from elytron_core.planes.space import PrincipalKind

    space = None if kind == PrincipalKind.OPERATOR else settings().space.value
    request = valid(AccessAddRequest, kind=PrincipalKind(kind), space=space, label=label, quota=_quota(limits))

    async def work(keys: "AccessKeys", out: Output) -> None:
        _tell_issued(out, await keys.add(request))

    _with_keys(work, when_missing=WhenMissing.MAKE)


@access.command("list")
@common
def list_keys() -> None:
    """List the keys: whose they are and their fingerprints, and nothing that opens anything."""
    from elytron_adapter.identity.access_keys import AccessKeyList, AccessListRequest

    async def work(keys: "AccessKeys", out: Output) -> None:
        found: list[AccessKeyReport] = []
        page = await keys.list(AccessListRequest(limit=PAGE))
        found += page.items
        while page.next_cursor is not None:
            page = await keys.list(AccessListRequest(limit=PAGE, cursor=page.next_cursor))
            found += page.items
        report = AccessKeyList(items=tuple(found))
        told = "\n".join(map(_line, found)) or "no keys"
        out.report(report, lambda console, _: console.print(told, soft_wrap=True))

    _with_keys(work)


@access.command("rotate")
@click.argument("key_id", metavar="ID")
@common
def rotate(*, key_id: str) -> None:
    """Give the key ID a new secret and print it, this once; the old one opens nothing from then on."""
    from elytron_adapter.identity.access_keys import AccessKeyRequest

    request = valid(AccessKeyRequest, id=key_id)

    async def work(keys: "AccessKeys", out: Output) -> None:
        _tell_issued(out, await keys.rotate(request))

    _with_keys(work)


@access.command("quota")
@click.argument("key_id", metavar="ID")
@quota_options
@common
def quota(*, key_id: str, **limits: int | None) -> None:
    """Set the quota of the key ID to these limits; without any, end it."""
    from elytron_adapter.identity.access_keys import AccessQuotaRequest

    request = valid(AccessQuotaRequest, id=key_id, quota=_quota(limits))

    async def work(keys: "AccessKeys", out: Output) -> None:
        report = await keys.set_quota(request)
        out.report(report, lambda console, _: console.print(_line(report), soft_wrap=True))

    _with_keys(work)


@access.command("revoke")
@click.argument("key_id", metavar="ID")
@asking
@common
def revoke(*, key_id: str, yes: bool) -> None:
    """Let the key ID open nothing any more."""
    from elytron_adapter.identity.access_keys import AccessKeyRequest

    confirm(f"Revoke the key {key_id!r}, with no way back?", yes=yes)
    request = valid(AccessKeyRequest, id=key_id)

    async def work(keys: "AccessKeys", out: Output) -> None:
        report = await keys.revoke(request)
        out.report(report, lambda console, _: console.print(_line(report), soft_wrap=True))

    _with_keys(work)


def _quota(limits: dict[str, int | None]) -> "KeyQuota | None":
    from elytron_core.planes.space import KeyQuota

    return valid(KeyQuota, **limits) if any(limits.values()) else None


def _with_keys(
    work: Callable[["AccessKeys", Output], Awaitable[None]], *, when_missing: WhenMissing = WhenMissing.REFUSE
) -> None:
    from elytron_adapter.identity.access_keys import AccessKeys

    found, out = settings(), output()

    async def whole() -> None:
        async with opened(found, when_missing=when_missing) as session:
            await work(AccessKeys(session.runtime.context), out)

    asyncio.run(whole())


def _tell_issued(out: Output, issued: "AccessKeyIssued") -> None:
    rows = [("key", issued.key), ("webhook secret", issued.webhook_secret), ("id", issued.access.id)]
    note = ("", "both are shown this once and stored nowhere: put them into the programs that use them")
    out.report(issued, lambda console, _: tables_common.pairs(console, [*rows, note]))


def _line(item: "AccessKeyReport") -> str:
    state = "revoked" if item.revoked_at is not None else item.fingerprint
    used = "never used" if item.last_used_at is None else f"used {tables_common.when(item.last_used_at)}"
    space = item.space or "(every space)"
    return f"{item.id}  {item.kind:<8}  {state:<12}  {used:<21}  {space}  {item.label}{_limits(item)}"


def _limits(item: "AccessKeyReport") -> str:
    found = item.quota.model_dump(exclude_none=True) if item.quota is not None else {}
    return "".join(f"  {name.replace('_', ' ')}: {limit}" for name, limit in found.items())


class KeyReport(Value):
    """A key file after it was made or given a new key. Ids of keys are no secret."""

    file: str
    current: str
    rewrapped: int = 0
    """Data keys in the store that were put under the current key."""


@click.group("keys", cls=Group)
@common
def keys() -> None:
    """Make and rotate the keys of sealed stores. Keep the key file apart from the store and from its backups."""


@keys.command("create")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@common
def create(*, file: Path | None) -> None:
    """Make the key FILE (else the one that --key-file names) with one random key, readable by you alone.

    A store opened with it for the first time is sealed. Without the file, the store is lost.
    """
    from elytron_store.sealed.providers import FileKeys

    path = file or _named()
    made = FileKeys.create(path)
    report = KeyReport(file=str(path), current=made.current())
    output().report(report, lambda console, _: console.print(f"made {path}, current key {report.current}"))


@keys.command("rotate")
@common
def rotate_keys() -> None:
    """Add a new key to the key file and put the store's data keys under it; no stored document is touched."""
    from elytron.journal.follower import inner
    from elytron_store.sealed.providers import FileKeys
    from elytron_store.sealed.store import SealedStore

    found = settings()
    path = _named()

    async def work() -> KeyReport:
        # Opened first: a wrong store must not leave a new key behind.
        async with opened(found) as session:
            store = inner(session.runtime.context.store)
            if not isinstance(store, SealedStore):
                raise Unsupported("this store is not sealed: there is nothing to rotate")
            current = FileKeys(path).add_key()
            return KeyReport(file=str(path), current=current, rewrapped=await store.rotate_key_encryption())

    report = asyncio.run(work())
    told = f"current key {report.current}, {report.rewrapped} data keys put under it"
    hint = "rotate the other stores of this key file too"
    output().report(report, lambda console, _: console.print(f"{told}; {hint}", soft_wrap=True))


def _named() -> Path:
    found = settings().key_file
    if found is None:
        raise InvalidInput(field="--key-file", problem="is missing: name the key file")
    return Path(found.value)
